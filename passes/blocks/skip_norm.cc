/// A residual sum and the normalization of it, as one operator with both results.
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Sum of two tensors of one known shape: ONNX Runtime's operators do not broadcast.
Pattern Skip(const Pattern& x, const Pattern& skip) { return Op("Add", x, skip).Shared(); }

/// Why `sum` and its normalization are no block; Ok where they are.
Status CheckSkip(const Node& sum, const Node& norm) {
  if (!SameKnownType(*sum.input(0), *sum.input(1)))
    return InvalidModel("needs two operands of one shape");
  const int rank = RankOf(*sum.output());
  const auto axis = norm.Attr<int64_t>("axis");
  if (axis != -1 && axis != rank - 1) return InvalidModel("needs the last axis normalized");
  if (norm.Attr<int64_t>("stash_type") != 1)
    return InvalidModel("needs statistics in single precision");
  return {};
}

/// Both results of a node that takes the place of the sum, too.
Result<Value*> WithSum(std::string_view op, std::vector<Value*> operands, const Match& m,
                       const Pattern& sum, const Pattern& norm, PatchBuilder& b) {
  NodeOptions options;
  options.num_outputs = 2;
  INFER_ASSIGN(Node * node,
               b.Add(op, std::move(operands), {{"epsilon", m.node(norm).Attr<float>("epsilon")}},
                     std::move(options)));
  b.Replace(m[sum], node->output(1));
  return node->output(0);
}

Pattern NotConstant() {
  return Any().Where("computed at run time", [](const Value& v) { return !v.is_constant(); });
}

}  // namespace

Rule FuseSkipLayerNorm() {
  Pattern x = NotConstant(), skip = NotConstant(), scale = Any(), bias = Any().OrOmitted();
  Pattern sum = Skip(x, skip), norm = Op("LayerNormalization", sum, scale, bias);
  const char* begin =
      "graph g(x: f32[N,2,8], z: f32[N,2,8]) -> (y) { g = const f32[8] ~1  b = const f32[8] ~2 "
      "s = Add(x, z) ";
  const auto text = [=](const char* rest) { return std::string(begin) + rest + " }"; };
  return {
      .name = "fuse-skip-layernorm",
      .doc =
          "LayerNormalization(x + skip) => infer::SkipLayerNormalization(x, skip), which gives "
          "the sum, too",
      .match = norm,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_TRY(CheckSkip(m.node(sum), m.node(norm)));
        Value* shift = m[bias];
        if (!shift) {
          if (!m[scale]->type().is_tensor() || !m[scale]->shape().is_static())
            return InvalidModel("needs a scale of known shape where there is no bias");
          shift = b.Const(Tensor::Zeros(m[scale]->dtype(), m[scale]->shape().static_dims()));
        }
        return WithSum("infer::SkipLayerNormalization", {m[x], m[skip], m[scale], shift}, m, sum,
                       norm, b);
      },
      .fires_on = {text("y = LayerNormalization(s, g, b) {epsilon=0.01}"),
                   text("y = LayerNormalization(s, g)"),
                   "graph g(x: f32[N,2,8], z: f32[N,2,8]) -> (y, s) { g = const f32[8] ~1 "
                   "s = Add(x, z)  y = LayerNormalization(s, g) }"},
      .silent_on = {{R"(graph g(x: f32[N,2,8], z: f32[8]) -> (y) { g = const f32[8] ~1
                       s = Add(x, z)  y = LayerNormalization(s, g) })",
                     "two operands of one shape"},
                    {R"(graph g(x: f32[N,2,8], z: f32[N,2,8]) -> (y) { g = const f32[2,8] ~1
                       s = Add(x, z)  y = LayerNormalization(s, g) {axis=1} })",
                     "the last axis normalized"},
                    {R"(graph g(x: f32[2,8]) -> (y) { g = const f32[8] ~1  c = const f32[2,8] ~2
                       s = Add(x, c)  y = LayerNormalization(s, g) })",
                     "is not computed at run time"}},
  };
}

Rule FuseSkipRmsNorm() {
  Pattern x = NotConstant(), skip = NotConstant(), scale = Any();
  Pattern sum = Skip(x, skip), norm = Op("RMSNormalization", sum, scale);
  return {
      .name = "fuse-skip-rmsnorm",
      .doc =
          "RMSNormalization(x + skip) => infer::SkipRMSNormalization(x, skip), which gives the "
          "sum, too",
      .match = norm,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_TRY(CheckSkip(m.node(sum), m.node(norm)));
        if (m[scale]->dtype() != m[x]->dtype()) return InvalidModel("needs a scale of x's type");
        return WithSum("infer::SkipRMSNormalization", {m[x], m[skip], m[scale]}, m, sum, norm, b);
      },
      .fires_on = {R"(graph g(x: f32[N,2,8], z: f32[N,2,8]) -> (y) { g = const f32[8] ~1
                     s = Add(x, z)  y = RMSNormalization(s, g) })",
                   R"(graph g(x: f32[N,2,8], z: f32[N,2,8]) -> (y, s) { g = const f32[8] ~1
                     s = Add(x, z)  y = RMSNormalization(s, g) {epsilon=0.01} })"},
      .silent_on = {{R"(graph g(x: f32[N,2,8], z: f32[N,1,8]) -> (y) { g = const f32[8] ~1
                       s = Add(x, z)  y = RMSNormalization(s, g) })",
                     "two operands of one shape"},
                    {R"(graph g(x: f16[N,8], z: f16[N,8]) -> (y) { g = const f32[8] ~1
                       s = Add(x, z)  y = RMSNormalization(s, g) })",
                     "a scale of x's type"}},
  };
}

}  // namespace infer
