/// Chains of transpositions.
#include "lib/ir/op_name.h"
#include "lib/support/strings.h"
#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

// Element by element: they commute with any transposition.
constexpr std::string_view kUnary =
    "Relu|LeakyRelu|Sigmoid|Tanh|Erf|Exp|Log|Neg|Abs|Sqrt|Reciprocal|Softplus|Softsign|Elu|Selu|"
    "Celu|HardSigmoid|HardSwish|Mish|Gelu|Clip|Cast|Not|Floor|Ceil|Round|Sign|ThresholdedRelu|"
    "infer::Silu|Swish";

}  // namespace

Rule RemoveNoOpTranspose() {
  Pattern x = Any(), root = Op("Transpose", x);
  return {
      .name = "remove-noop-transpose",
      .doc = "Transpose(x) with perm = 0, 1, 2, ... => x",
      .match = root,
      .when = {{"the identity as perm",
                [=](const Match& m) { return IsIdentityPerm(PermOf(m.node(root))); }}},
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[2,3]) -> (y) { y = Transpose(x) {perm=[0,1]} }"},
      .silent_on = {{"graph g(x: f32[2,2]) -> (y) { y = Transpose(x) }", "the identity as perm"}},
  };
}

Rule MergeTransposes() {
  Pattern x = Any(), inner = Op("Transpose", x).Shared(), outer = Op("Transpose", inner);
  const auto perm = [=](const Match& m) {
    return ComposePerms(PermOf(m.node(inner)), PermOf(m.node(outer)));
  };
  return {
      .name = "merge-transposes",
      .doc = "Transpose(Transpose(x, p), q) => Transpose(x, q after p), or x",
      .match = outer,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        if (perm(m).empty()) return InvalidModel("needs a known rank");
        if (IsIdentityPerm(perm(m))) return m[x];
        return b("Transpose", {m[x]}, {{"perm", perm(m)}});
      },
      .fires_on = {R"(graph g(x: f32[2,3,4]) -> (y) {
                     t = Transpose(x) {perm=[1,2,0]}  y = Transpose(t) {perm=[2,0,1]} })",
                   R"(graph g(x: f32[2,3,4]) -> (y, t) {
                     t = Transpose(x) {perm=[1,2,0]}  y = Transpose(t) {perm=[0,2,1]} })"},
      .silent_on = {{R"(graph g(x: f32[*]) -> (y) { t = Transpose(x)  y = Transpose(t) })",
                     "a known rank"},
                    {"graph g(x: f32[2,3]) -> (y) { y = Transpose(x) }",
                     "'x' is a graph input, not a Transpose"}},
  };
}

Rule CancelTransposesAcrossUnary() {
  Pattern x = Any(), inner = Op("Transpose", x);
  Pattern unary = Op(kUnary, inner).MoreInputs(), outer = Op("Transpose", unary);
  return {
      .name = "cancel-transposes-across-unary",
      .doc = "Transpose(f(Transpose(x))) => f(x), f element by element, the transpositions inverse",
      .match = outer,
      .when = {{"inverse transpositions",
                [=](const Match& m) {
                  return IsIdentityPerm(ComposePerms(PermOf(m.node(inner)), PermOf(m.node(outer))));
                }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(unary);
        std::vector<Value*> operands = n.inputs();
        operands[0] = m[x];
        return b(FullOpName(n.def().domain, n.op()), std::move(operands), n.attrs());
      },
      .fires_on = {R"(graph g(x: f32[2,3,4]) -> (y) { t = Transpose(x) {perm=[1,2,0]}
                     u = LeakyRelu(t) {alpha=0.5}  y = Transpose(u) {perm=[2,0,1]} })"},
      .silent_on = {{R"(graph g(x: f32[2,2,2]) -> (y) { t = Transpose(x) {perm=[1,2,0]}
                       u = Relu(t)  y = Transpose(u) {perm=[1,2,0]} })",
                     "inverse transpositions"},
                    {R"(graph g(x: f32[2,3]) -> (y, u) { t = Transpose(x)
                       u = Relu(t)  y = Transpose(u) })",
                     "'u' has other uses"}},
  };
}

}  // namespace infer
