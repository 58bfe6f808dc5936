/// Gated linear units: one product decides how much of the other passes.
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Products of layers, not a Mul by a constant or of one value with its own gate.
Pattern UpPattern() {
  return Any().Where("computed at run time", [](const Value& v) { return !v.is_constant(); });
}
const char* const kSameShape = "a gate and a value of one shape";

}  // namespace

Rule FuseSwiGlu() {
  Pattern gate = Any(), up = UpPattern();
  Pattern swish = Op("Swish", gate).With("alpha", 1.0f);
  return {
      .name = "fuse-swiglu",
      .doc = "Silu(gate) * up => infer::SwiGLU(gate, up)",
      .match = Op("Mul", OneOf({swish, Op("infer::Silu", gate)}), up),
      .when = {{kSameShape, [=](const Match& m) { return SameKnownType(*m[gate], *m[up]); }}},
      .build =
          [=](const Match& m, PatchBuilder& b) {
            return b("infer::SwiGLU", {m[gate], m[up]});
          },
      .fires_on = {R"(graph g(x: f32[N,4]) -> (y) { w = const f32[4,6] ~1  v = const f32[4,6] ~2
                     a = MatMul(x, w)  b = MatMul(x, v)  s = infer::Silu(a)  y = Mul(s, b) })",
                   R"(graph g(x: f32[N,8]) -> (y) { a, b = Split(x) {axis=-1, num_outputs=2}
                     s = Swish(a)  y = Mul(b, s) })"},
      .silent_on = {{"graph g(a: f32[N,8], b: f32[8]) -> (y) { s = infer::Silu(a)  y = Mul(s, b) }",
                     kSameShape},
                    {"graph g(a: f32[N,8], b: f32[N,8]) -> (y) { s = Swish(a) {alpha=2.0} "
                     "y = Mul(s, b) }",
                     "made with alpha=1"},
                    {"graph g(a: f32[2,3]) -> (y) { c = const f32[2,3] ~1  s = infer::Silu(a) "
                     "y = Mul(s, c) }",
                     "is not computed at run time"}},
  };
}

Rule FuseGeGlu() {
  Pattern gate = Any(), up = UpPattern();
  Pattern gelu = Op("Gelu", gate);
  return {
      .name = "fuse-geglu",
      .doc = "Gelu(gate) * up => infer::GeGLU(gate, up)",
      .match = Op("Mul", gelu, up),
      .when = {{kSameShape, [=](const Match& m) { return SameKnownType(*m[gate], *m[up]); }}},
      .build =
          [=](const Match& m, PatchBuilder& b) {
            return b("infer::GeGLU", {m[gate], m[up]},
                     {{"approximate", m.node(gelu).Attr<std::string>("approximate")}});
          },
      .fires_on = {R"(graph g(x: f32[N,8]) -> (y) { b, a = Split(x) {axis=-1, num_outputs=2}
                     s = Gelu(a)  y = Mul(b, s) })",
                   R"(graph g(a: f32[N,8], b: f32[N,8]) -> (y) {
                     s = Gelu(a) {approximate="tanh"}  y = Mul(s, b) })"},
      .silent_on = {{"graph g(a: f32[N,8], b: f32[N,1]) -> (y) { s = Gelu(a)  y = Mul(s, b) }",
                     kSameShape}},
  };
}

}  // namespace infer
