/// Axes that a reduction keeps and the next operator drops, or the other way round.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr std::string_view kReductions =
    "ReduceMean|ReduceSum|ReduceMax|ReduceMin|ReduceProd|ReduceL1|ReduceL2|ReduceLogSum|"
    "ReduceLogSumExp|ReduceSumSquare";

/// The axes that a reduction with constant axes takes away, sorted.
std::optional<std::vector<int64_t>> ReducedAxes(const Node& n) {
  const int rank = RankOf(*n.input(0));
  const auto axes = ConstantInts(n, 1);
  if (rank < 0 || !axes || axes->empty()) return std::nullopt;
  auto normal = NormalAxes(*axes, rank);
  if (normal) std::sort(normal->begin(), normal->end());
  return normal;
}

/// Those of a Squeeze or Unsqueeze, as axes of the larger tensor.
std::optional<std::vector<int64_t>> ViewAxes(const Node& n, int rank) {
  const auto axes = ConstantInts(n, 1);
  if (rank < 0 || !axes) return std::nullopt;
  auto normal = NormalAxes(*axes, rank);
  if (normal) std::sort(normal->begin(), normal->end());
  return normal;
}

Result<Value*> Rebuilt(const Node& n, PatchBuilder& b, int64_t keepdims) {
  AttrMap attrs = n.attrs();
  attrs["keepdims"] = keepdims;
  return b(n.op(), n.inputs(), std::move(attrs));
}

}  // namespace

Rule MergeReduceSqueeze() {
  Pattern reduce = Op(kReductions, Any(), Constant()).With("keepdims", int64_t{1});
  Pattern root = Op("Squeeze", reduce, Constant());
  return {
      .name = "merge-reduce-squeeze",
      .doc = "Squeeze(ReduceMean(x, axes, keepdims=1), axes) => ReduceMean(x, axes, keepdims=0)",
      .match = root,
      .when = {{"the axes that the reduction kept",
                [=](const Match& m) {
                  const auto axes = ReducedAxes(m.node(reduce));
                  return axes && axes == ViewAxes(m.node(root), RankOf(*m[reduce]));
                }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) { return Rebuilt(m.node(reduce), b, 0); },
      .fires_on = {R"(graph g(x: f32[N,3,4,5]) -> (y) { a = const i64[2] {2,3}
                     c = const i64[2] {-1,-2}  t = ReduceMean(x, a)  y = Squeeze(t, c) })"},
      .silent_on = {{R"(graph g(x: f32[N,3,4,1]) -> (y) { a = const i64[1] {2}
                       c = const i64[1] {3}  t = ReduceMean(x, a)  y = Squeeze(t, c) })",
                     "the axes that the reduction kept"},
                    {R"(graph g(x: f32[N,3,4,1]) -> (y) { a = const i64[1] {2}
                       c = const i64[1] {2}  t = ReduceMean(x, a) {keepdims=0}
                       y = Squeeze(t, c) })",
                     "made with keepdims=1"}},
  };
}

Rule MergeReduceUnsqueeze() {
  Pattern reduce = Op(kReductions, Any(), Constant()).With("keepdims", int64_t{0});
  Pattern root = Op("Unsqueeze", reduce, Constant());
  return {
      .name = "merge-reduce-unsqueeze",
      .doc = "Unsqueeze(ReduceMean(x, axes, keepdims=0), axes) => ReduceMean(x, axes, keepdims=1)",
      .match = root,
      .when = {{"the axes that the reduction dropped",
                [=](const Match& m) {
                  const auto axes = ReducedAxes(m.node(reduce));
                  return axes && axes == ViewAxes(m.node(root), RankOf(*m.node(reduce).input(0)));
                }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) { return Rebuilt(m.node(reduce), b, 1); },
      .fires_on = {R"(graph g(x: f32[N,3,4]) -> (y) { a = const i64[1] {-1}
                     t = ReduceMax(x, a) {keepdims=0}  y = Unsqueeze(t, a) })"},
      .silent_on = {{R"(graph g(x: f32[2,1,4]) -> (y) { a = const i64[1] {-1}  c = const i64[1] {1}
                       t = ReduceMax(x, a) {keepdims=0}  y = Unsqueeze(t, c) })",
                     "the axes that the reduction dropped"},
                    {R"(graph g(x: f32[N,3,4]) -> (y) { a = const i64[1] {-1}
                       t = ReduceMax(x, a)  y = Unsqueeze(t, a) })",
                     "made with keepdims=0"}},
  };
}

}  // namespace infer
