/// Chains of transpositions.
#include <numeric>

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

constexpr std::string_view kAxisViews = "Reshape|Flatten|Squeeze|Unsqueeze";

/// By axis of `joined`: of how many axes of `x`, one behind the other, it consists. Nothing where
/// one is no such product.
std::vector<int64_t> JoinedAxes(const Shape& x, const Shape& joined) {
  std::vector<int64_t> counts;
  int at = 0;
  for (const Dim& extent : joined.dims()) {
    Dim product = 1;
    counts.push_back(0);
    do {
      if (at == x.rank()) return {};
      product = product * x[at++];
      ++counts.back();
    } while (!product.KnownEqual(extent));
  }
  if (counts.empty()) return {};
  for (; at < x.rank(); ++at, ++counts.back())
    if (!x[at].KnownEqual(1)) return {};
  return counts;
}

/// What `perm` of the joined axes does to those that they consist of.
std::vector<int64_t> PermOfParts(const std::vector<int64_t>& counts,
                                 const std::vector<int64_t>& perm) {
  std::vector<int64_t> first(counts.size(), 0), all;
  std::partial_sum(counts.begin(), counts.end() - 1, first.begin() + 1);
  for (const int64_t axis : perm)
    for (int64_t i = 0; i < counts[static_cast<size_t>(axis)]; ++i)
      all.push_back(first[static_cast<size_t>(axis)] + i);
  return all;
}

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

Rule TransposeJoinedAxes() {
  Pattern x = Any(), joined = Op(kAxisViews, x).MoreInputs().Shared(),
          turned = Op("Transpose", joined);
  Pattern root = Op(kAxisViews, turned).MoreInputs();
  return {
      .name = "transpose-joined-axes",
      .doc = "Reshape(Transpose(Reshape(x))), axes of x joined and parted again => Transpose(x)",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int rank = RankOf(*m[x]);
        const auto no = [] { return InvalidModel("needs axes that are joined and parted again"); };
        if (rank < 0 || RankOf(*m[joined]) < 1 || RankOf(*m[root]) != rank) return no();
        const auto counts = JoinedAxes(m[x]->shape(), m[joined]->shape());
        if (counts.empty()) return no();
        std::vector<int64_t> perm = PermOfParts(counts, PermOf(m.node(turned)));
        for (int i = 0; i < rank; ++i) {
          const auto from = static_cast<int>(perm[static_cast<size_t>(i)]);
          if (!m[x]->shape()[from].KnownEqual(m[root]->shape()[i])) return no();
        }
        return b("Transpose", {m[x]}, {{"perm", std::move(perm)}});
      },
      .fires_on = {R"(graph g(x: f32[2,3,4,5]) -> (y) { s = const i64[3] {-1,4,5}
                     r = const i64[4] {2,3,5,4}  t = Reshape(x, s)
                     u = Transpose(t) {perm=[0,2,1]}  y = Reshape(u, r) })",
                   R"(graph g(x: f32[N,S,3,5,1]) -> (y, t) { s = const i64[3] {0,0,15}
                     r = const i64[5] {0,3,5,1,-1}  t = Reshape(x, s)
                     u = Transpose(t) {perm=[0,2,1]}  y = Reshape(u, r) })"},
      .silent_on = {{R"(graph g(x: f32[2,3,4,5]) -> (y) { s = const i64[3] {-1,4,5}
                       r = const i64[4] {3,2,5,4}  t = Reshape(x, s)
                       u = Transpose(t) {perm=[0,2,1]}  y = Reshape(u, r) })",
                     "axes that are joined and parted again"},
                    {R"(graph g(x: f32[6,4]) -> (y) { s = const i64[3] {2,3,4}
                       r = const i64[2] {6,4}  t = Reshape(x, s)
                       u = Transpose(t) {perm=[1,0,2]}  y = Reshape(u, r) })",
                     "axes that are joined and parted again"},
                    {R"(graph g(x: f32[2,3,4,5]) -> (y, u) { s = const i64[3] {-1,4,5}
                       r = const i64[4] {2,3,5,4}  t = Reshape(x, s)
                       u = Transpose(t) {perm=[0,2,1]}  y = Reshape(u, r) })",
                     "'u' has other uses"}},
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
