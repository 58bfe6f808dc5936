/// Slices and Gathers that take a tensor apart along one axis.
#include <algorithm>
#include <map>

#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"
#include "passes/simplify/slice_ranges.h"

namespace infer {
namespace {

/// A reader that takes [start, end) of one axis of its operand; `index`: without the axis.
struct Part {
  Node* node;
  int64_t axis, start, end;
  bool index;
};

std::optional<Part> PartOf(Node& n) {
  const Value& x = *n.input(0);
  const int rank = RankOf(x);
  if (n.Is("Slice")) {
    const auto ranges = SliceRangesOf(n);
    if (!ranges || ranges->size() != 1) return std::nullopt;
    const auto extent = StaticDim(x, static_cast<int>((*ranges)[0].axis));
    const auto r = extent ? Counted((*ranges)[0], *extent) : std::nullopt;
    if (!r || r->step != 1 || r->start == r->end) return std::nullopt;
    return Part{&n, r->axis, r->start, r->end, false};
  }
  if (!n.Is(Trait::kSliceLookup) || rank < 1) return std::nullopt;
  const Value& index = *n.input(1);
  if (!index.is_constant() || index.constant()->num_elements() != 1 || RankOf(index) > 1)
    return std::nullopt;
  const auto axis = NormalizeAxis(n.Attr<int64_t>("axis"), rank);
  if (!axis.ok()) return std::nullopt;
  const int64_t extent = StaticDim(x, *axis).value_or(0);
  int64_t at = index.constant()->IntAt(0);
  if (at < 0) at += extent;
  if (at < 0 || at >= extent) return std::nullopt;
  return Part{&n, *axis, at, at + 1, RankOf(index) == 0};
}

/// All readers of the same operand that together take each index of the axis just once, in order;
/// empty where they do not.
std::vector<Part> PartsBeside(const Value& root) {
  const auto first = PartOf(*root.producer());
  if (!first || first->start != 0) return {};
  const Value& x = *root.producer()->input(0);
  if (RankOf(x) < 2 || x.uses().size() > 256) return {};
  std::map<int64_t, Part> by_start;
  for (const Use& u : x.uses()) {
    if (u.operand != 0) continue;
    const auto part = PartOf(*u.user);
    if (!part || part->axis != first->axis) continue;
    if (!by_start.try_emplace(part->start, *part).second) return {};
  }
  std::vector<Part> parts;
  int64_t at = 0;
  for (const auto& [start, part] : by_start) {
    if (start != at) return {};
    at = part.end;
    parts.push_back(part);
  }
  if (parts.size() < 2 || at != StaticDim(x, static_cast<int>(first->axis))) return {};
  // A Gather of one index of the outermost axis is a cut already: Split and Squeeze are two.
  const bool indices =
      std::any_of(parts.begin(), parts.end(), [](const Part& p) { return p.index; });
  bool outermost = true;
  for (int i = 0; i < first->axis; ++i) outermost = outermost && StaticDim(x, i) == 1;
  if (indices && outermost) return {};
  return parts;
}

}  // namespace

Rule SplitIntoParts() {
  Pattern x = Any();
  Pattern root = Op("Slice|Gather", x)
                     .MoreInputs()
                     .Where("the first of Slices or Gathers inside x that take every index once",
                            [](const Value& v) { return !PartsBeside(v).empty(); });
  return {
      .name = "split-into-parts",
      .doc = "Slice(x, 0:a), Slice(x, a:b), Gather(x, b), ... of every index once => Split(x)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const std::vector<Part> parts = PartsBeside(*m[root]);
        std::vector<int64_t> sizes;
        for (const Part& p : parts) sizes.push_back(p.end - p.start);
        NodeOptions options;
        options.num_outputs = parts.size();
        INFER_ASSIGN(Node * split, b.Add("Split", {m[x], b.Ints(sizes)}, {{"axis", parts[0].axis}},
                                         std::move(options)));
        Value* result = nullptr;
        for (size_t i = 0; i < parts.size(); ++i) {
          Value* v = split->output(i);
          if (parts[i].index) {
            INFER_ASSIGN(v, b("Squeeze", {v, b.Ints({parts[i].axis})}));
          }
          if (i == 0) {
            result = v;
            continue;
          }
          b.Cover(parts[i].node);
          b.Replace(parts[i].node->output(), v);
        }
        return result;
      },
      .fires_on = {R"(graph g(x: f32[N,6]) -> (u, v, w) { a = const i64[1] {0}  b = const i64[1] {2}
              c = const i64[1] {-1}  e = const i64[1] {9223372036854775807}  i = const i64[1] {1}
              u = Slice(x, a, b, i)  v = Slice(x, b, c, i)  w = Slice(x, c, e, i) })",
                   R"(graph g(x: f32[N,3,4]) -> (u, v, w) { a = const i64[] {0}  b = const i64[] {1}
              c = const i64[] {-1}  u = Gather(x, a) {axis=1}  v = Gather(x, c) {axis=1}  w = Gather(x, b) {axis=1} })",
                   R"(graph g(x: f32[N,3]) -> (u, v) { a = const i64[1] {0}  b = const i64[1] {1}
              e = const i64[1] {3}  u = Gather(x, a) {axis=1}  v = Slice(x, b, e, b) })"},
      .silent_on = {{R"(graph g(x: f32[N,6]) -> (u, v) { a = const i64[1] {0}  b = const i64[1] {2}
              c = const i64[1] {3}  e = const i64[1] {6}  i = const i64[1] {1}
              u = Slice(x, a, b, i)  v = Slice(x, c, e, i) })",
                     "take every index once"},
                    {R"(graph g(x: f32[N,6]) -> (u, v) { a = const i64[1] {0}  b = const i64[1] {2}
              c = const i64[1] {1}  e = const i64[1] {6}  i = const i64[1] {1}
              u = Slice(x, a, b, i)  v = Slice(x, c, e, i) })",
                     "take every index once"},
                    {R"(graph g(x: f32[N,6]) -> (u, v) { a = const i64[1] {0}  b = const i64[1] {2}
              e = const i64[1] {6}  i = const i64[1] {1}  s = const i64[1] {2}
              u = Slice(x, a, e, i, s)  v = Slice(x, b, e, i) })",
                     "take every index once"}}};
}

}  // namespace infer
