/// Sums and products of f16 between casts; sums in front of a residual sum's normalization.
#include "passes/ort/ort.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

bool NarrowsF32(const Value& v) {
  const Node& n = *v.producer();
  return v.type().is_tensor() && v.dtype() == DType::kF16 && n.input(0)->type().is_tensor() &&
         n.input(0)->dtype() == DType::kF32;
}
Pattern Narrowed(const Pattern& x) {
  return Op("Cast", x).Where("a Cast from f32 to f16", NarrowsF32);
}

}  // namespace

Rule CastBehindF16() {
  // ONNX Runtime has neither for f16 on CPUs: it computes in f32 between casts, of which it drops
  // those that only round.
  Pattern a = Any(), b = Any();
  Pattern first = Narrowed(a), second = Narrowed(b), root = Op("Add|MatMul", first, second);
  return {
      .name = "ort-cast-behind-f16",
      .doc = "Cast(a) + Cast(b), Cast(a) * Cast(b) of f32 in f16 => Cast(a + b), Cast(a * b)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& make) -> Result<Value*> {
        INFER_ASSIGN(Value * sum, make(m.node(root).op(), {m[a], m[b]}));
        return make("Cast", {sum}, m.node(first).attrs());
      },
      .fires_on = {R"(graph g(a: f32[N,3], b: f32[3]) -> (y) { c = Cast(a) {to=10}
             d = Cast(b) {to=10}  y = Add(c, d) })",
                   R"(graph g(a: f32[N,3], b: f32[3,4]) -> (y) { c = Cast(a) {to=10}
             d = Cast(b) {to=10}  y = MatMul(c, d) })"},
      .silent_on = {{R"(graph g(a: f32[N,3], b: f16[3]) -> (y) { c = Cast(a) {to=10}
             y = Add(c, b) })",
                     "not a Cast"},
                    {R"(graph g(a: f32[N,3], b: f64[3]) -> (y) { c = Cast(a) {to=10}
             d = Cast(b) {to=10}  y = Add(c, d) })",
                     "a Cast from f32 to f16"}},
  };
}

Rule FuseSkipBias() {
  Pattern x = Any(), added = Any().Where("a vector", [](const Value& v) { return RankOf(v) == 1; });
  Pattern skip = Any(), scale = Any(), bias = Any();
  Pattern sum = Op("Add", x, added);
  Pattern first = Op("infer::SkipLayerNormalization", sum, skip, scale, bias).Shared();
  Pattern second = Op("infer::SkipLayerNormalization", skip, sum, scale, bias).Shared();
  Pattern root = OneOf({first, second});
  return {
      .name = "ort-skip-bias",
      .doc =
          "infer::SkipLayerNormalization(x + b, skip), whose sum nobody reads => "
          "infer::SkipBiasLayerNormalization",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        if (n.output(1) && !n.output(1)->is_dead())
          return InvalidModel("needs a sum that nobody reads");
        if (m[x]->dtype() != DType::kF32) return InvalidModel("needs f32");
        if (!SameKnownType(*m[x], *m[sum])) return InvalidModel("needs a bias along the last axis");
        return b("infer::SkipBiasLayerNormalization", {m[x], m[skip], m[scale], m[bias], m[added]},
                 n.attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,2,3], s: f32[N,2,3]) -> (y) { a = const f32[3] ~1
             g = const f32[3] ~2  b = const f32[3] ~3  t = Add(a, x)
             y = infer::SkipLayerNormalization(t, s, g, b) {epsilon=0.01} })",
                   R"(graph g(x: f32[N,2,3], s: f32[N,2,3], a: f32[3]) -> (y) {
             g = const f32[3] ~2  b = const f32[3] ~3  t = Add(x, a)
             y = infer::SkipLayerNormalization(s, t, g, b) })"},
      .silent_on = {{R"(graph g(x: f32[N,2,3], s: f32[N,2,3]) -> (y, u) { a = const f32[3] ~1
             g = const f32[3] ~2  b = const f32[3] ~3  t = Add(a, x)
             y, u = infer::SkipLayerNormalization(t, s, g, b) })",
                     "a sum that nobody reads"},
                    {R"(graph g(x: f16[N,2,3], s: f16[N,2,3]) -> (y) { a = const f16[3] ~1
             g = const f16[3] ~2  b = const f16[3] ~3  t = Add(a, x)
             y = infer::SkipLayerNormalization(t, s, g, b) })",
                     "needs f32"},
                    {R"(graph g(x: f32[N,2,1], s: f32[N,2,3], a: f32[3]) -> (y) {
             g = const f32[3] ~2  b = const f32[3] ~3  t = Add(a, x)
             y = infer::SkipLayerNormalization(t, s, g, b) })",
                     "a bias along the last axis"}},
  };
}

}  // namespace infer
