/// Chains of Slices, and Slices of what was put together just before.
#include <algorithm>
#include <map>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"
#include "passes/simplify/slice_ranges.h"

namespace infer {
namespace {

constexpr int64_t kMax = INT64_MAX;

}  // namespace

std::optional<std::vector<SliceRange>> SliceRangesOf(const Node& slice) {
  const auto starts = ConstantInts(slice, 1), ends = ConstantInts(slice, 2);
  const int rank = RankOf(*slice.input(0));
  if (!starts || !ends || rank < 0) return std::nullopt;
  std::vector<int64_t> axes, steps(starts->size(), 1);
  for (size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (slice.input(3)) {
    const auto given = ConstantInts(slice, 3);
    const auto normal = given ? NormalAxes(*given, rank) : std::nullopt;
    if (!normal) return std::nullopt;
    axes = *normal;
  }
  if (slice.input(4)) {
    const auto given = ConstantInts(slice, 4);
    if (!given) return std::nullopt;
    steps = *given;
  }
  if (ends->size() != starts->size() || axes.size() != starts->size() ||
      steps.size() != starts->size())
    return std::nullopt;
  std::vector<SliceRange> ranges;
  for (size_t i = 0; i < starts->size(); ++i)
    ranges.push_back({axes[i], (*starts)[i], (*ends)[i], steps[i]});
  return ranges;
}

std::optional<SliceRange> Counted(const SliceRange& r, int64_t extent) {
  if (r.step <= 0) return std::nullopt;
  const auto from_front = [&](int64_t i) {
    return std::clamp(i < 0 ? i + extent : i, int64_t{0}, extent);
  };
  const int64_t start = from_front(r.start), end = from_front(r.end);
  return SliceRange{r.axis, start, std::max(start, end), r.step};
}

Result<Value*> BuildSlice(PatchBuilder& b, Value* x, const std::vector<SliceRange>& ranges) {
  std::vector<int64_t> starts, ends, axes, steps;
  for (const SliceRange& r : ranges) {
    starts.push_back(r.start);
    ends.push_back(r.end);
    axes.push_back(r.axis);
    steps.push_back(r.step);
  }
  const bool unit = std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; });
  return b("Slice",
           {x, b.Ints(starts), b.Ints(ends), b.Ints(axes), unit ? nullptr : b.Ints(steps)});
}

Rule MergeSlices() {
  Pattern x = Any(), inner = Op("Slice", x).MoreInputs().Shared();
  Pattern outer = Op("Slice", inner).MoreInputs();
  return {
      .name = "merge-slices",
      .doc = "Slice(Slice(x)) => Slice(x), both with known bounds",
      .match = outer,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto first = SliceRangesOf(m.node(inner)), then = SliceRangesOf(m.node(outer));
        if (!first || !then) return InvalidModel("needs bounds that are known");
        std::map<int64_t, SliceRange> by_axis;
        for (const SliceRange& r : *first) by_axis[r.axis] = r;
        for (const SliceRange& r : *then) {
          const auto [it, fresh] = by_axis.try_emplace(r.axis, r);
          if (fresh) continue;
          const auto extent = StaticDim(*m[x], static_cast<int>(r.axis));
          const auto cut = StaticDim(*m[inner], static_cast<int>(r.axis));
          if (!extent || !cut) return InvalidModel("needs a known extent of an axis cut twice");
          const auto a = Counted(it->second, *extent), c = Counted(r, *cut);
          if (!a || !c) return InvalidModel("needs positive steps along an axis cut twice");
          const int64_t count = (c->end - c->start + c->step - 1) / c->step;
          const int64_t start = a->start + c->start * a->step, step = a->step * c->step;
          it->second = {r.axis, start, count == 0 ? start : start + (count - 1) * step + 1, step};
        }
        std::vector<SliceRange> merged;
        for (const auto& [axis, r] : by_axis) merged.push_back(r);
        return BuildSlice(b, m[x], merged);
      },
      .fires_on = {R"(graph g(x: f32[N,6,8]) -> (y) { b = const i64[1] {0}  e = const i64[1] {5}
                     i = const i64[1] {1}  j = const i64[1] {-1}  s = const i64[1] {2}
                     t = Slice(x, b, e, i, s)  y = Slice(t, b, e, j, s) })",
                   R"(graph g(x: f32[9]) -> (y, t) { b = const i64[1] {1}  e = const i64[1] {-1}
                     i = const i64[1] {0}  s = const i64[1] {2}
                     t = Slice(x, b, e, i, s)  y = Slice(t, b, e, i, s) })"},
      .silent_on = {{R"(graph g(x: f32[N]) -> (y) { b = const i64[1] {1}  e = const i64[1] {-1}
                       t = Slice(x, b, e)  y = Slice(t, b, e) })",
                     "a known extent of an axis cut twice"},
                    {R"(graph g(x: f32[9]) -> (y) { b = const i64[1] {7}  e = const i64[1] {0}
                       i = const i64[1] {0}  s = const i64[1] {-1}
                       t = Slice(x, b, e, i, s)  y = Slice(t, b, e, i, s) })",
                     "positive steps along an axis cut twice"},
                    {R"(graph g(x: f32[9,2], e: i64[1]) -> (y) { b = const i64[1] {1}
                       t = Slice(x, b, e)  y = Slice(t, b, e) })",
                     "bounds that are known"}},
  };
}

Rule SliceOfConcat() {
  Pattern x = Op("Concat", {}).MoreInputs().Shared();
  Pattern root = Op("Slice", x).MoreInputs();
  return {
      .name = "slice-of-concat",
      .doc = "Slice(Concat(a, b, ...)) that lies in one part => Slice of that part",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& concat = m.node(x);
        const auto ranges = SliceRangesOf(m.node(root));
        const int rank = RankOf(*m[x]);
        if (!ranges || rank < 1) return InvalidModel("needs bounds that are known");
        const auto axis = NormalizeAxis(concat.Attr<int64_t>("axis"), rank);
        if (!axis.ok()) return axis.status();
        const auto it = std::find_if(ranges->begin(), ranges->end(),
                                     [&](const SliceRange& r) { return r.axis == *axis; });
        if (it == ranges->end() || it->step <= 0 || it->start < 0)
          return InvalidModel("needs a forward cut along the axis of the Concat");
        int64_t begin = 0;
        for (Value* part : concat.inputs()) {
          const auto extent = StaticDim(*part, *axis);
          const bool last = part == concat.inputs().back();
          const bool to_end = last && it->end == kMax;
          if (!extent && !to_end) return InvalidModel("needs parts of known extents");
          const int64_t end = extent ? begin + *extent : kMax;
          if (it->start >= begin && it->start < end &&
              (to_end || (it->end > 0 && it->end <= end))) {
            std::vector<SliceRange> own = *ranges;
            SliceRange& r = own[static_cast<size_t>(it - ranges->begin())];
            r.start -= begin;
            if (!to_end) r.end -= begin;
            return BuildSlice(b, part, own);
          }
          begin = end;
        }
        return InvalidModel("needs a cut within one part");
      },
      .fires_on = {R"(graph g(x: f32[N,6], z: f32[N,2]) -> (y) { b = const i64[1] {6}
                     e = const i64[1] {9223372036854775807}  i = const i64[1] {1}
                     t = Concat(x, z) {axis=1}  y = Slice(t, b, e, i) })",
                   R"(graph g(x: f32[N,6], z: f32[N,2]) -> (y, t) { b = const i64[1] {2}
                     e = const i64[1] {5}  i = const i64[1] {-1}
                     t = Concat(z, x) {axis=-1}  y = Slice(t, b, e, i) })"},
      .silent_on = {{R"(graph g(x: f32[N,6], z: f32[N,2]) -> (y) { b = const i64[1] {5}
                       e = const i64[1] {7}  i = const i64[1] {1}
                       t = Concat(x, z) {axis=1}  y = Slice(t, b, e, i) })",
                     "a cut within one part"},
                    {R"(graph g(x: f32[N,6], z: f32[N,2]) -> (y) { b = const i64[1] {0}
                       e = const i64[1] {1}  i = const i64[1] {0}
                       t = Concat(x, z) {axis=1}  y = Slice(t, b, e, i) })",
                     "along the axis of the Concat"},
                    {R"(graph g(x: f32[N,6], z: f32[M,6]) -> (y) { b = const i64[1] {0}
                       e = const i64[1] {1}  i = const i64[1] {0}
                       t = Concat(x, z) {axis=0}  y = Slice(t, b, e, i) })",
                     "parts of known extents"},
                    {R"(graph g(x: f32[N,6], b: i64[1], z: f32[N,2]) -> (y) { e = const i64[1] {7}
                       t = Concat(x, z) {axis=1}  y = Slice(t, b, e) })",
                     "bounds that are known"}},
  };
}

Rule SliceOfShape() {
  Pattern x = Any().Where("of known rank", [](const Value& v) { return RankOf(v) >= 0; });
  Pattern shape = Op("Shape", x).Shared(), root = Op("Slice", shape).MoreInputs();
  return {
      .name = "slice-of-shape",
      .doc = "Slice(Shape(x), a, b) => Shape(x) of the axes from a to b",
      .match = root,
      .when = {{"the whole shape",
                [=](const Match& m) { return StaticDim(*m[shape], 0) == RankOf(*m[x]); }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto ranges = SliceRangesOf(m.node(root));
        if (!ranges || ranges->size() != 1 || ranges->front().step != 1)
          return InvalidModel("needs bounds that are known, and each axis between them");
        const int64_t rank = RankOf(*m[x]);
        const auto axis_of = [&](int64_t at) {
          return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
        };
        const int64_t start = axis_of(ranges->front().start), end = axis_of(ranges->front().end);
        if (start >= end) return InvalidModel("needs an axis");
        return b("Shape", {m[x]}, {{"end", end}, {"start", start}});
      },
      .fires_on = {R"(graph g(x: f32[N,S,4]) -> (y, s) { b = const i64[1] {-2}
                     e = const i64[1] {9223372036854775807}
                     s = Shape(x)  y = Slice(s, b, e) })"},
      .silent_on = {{R"(graph g(x: f32[N,S,4]) -> (y) { b = const i64[1] {0}  e = const i64[1] {9}
                       t = const i64[1] {2}  s = Shape(x)  y = Slice(s, b, e, b, t) })",
                     "each axis between them"},
                    {R"(graph g(x: f32[N,S,4]) -> (y) { b = const i64[1] {0}  e = const i64[1] {1}
                       s = Shape(x) {start=1}  y = Slice(s, b, e) })",
                     "the whole shape"},
                    {R"(graph g(x: f32[N,S,4]) -> (y) { b = const i64[1] {2}  e = const i64[1] {1}
                       s = Shape(x)  y = Slice(s, b, e) })",
                     "needs an axis"}},
  };
}

Rule SliceByGather() {
  Pattern x = Any().Where("of two axes or more", [](const Value& v) { return RankOf(v) > 1; });
  Pattern indices = Constant(), root = Op("Gather", x, indices);
  const auto step_of = [=](const Match& m) -> int64_t {
    const Tensor& t = m.tensor(indices);
    return t.num_elements() < 2 ? 1 : t.IntAt(1) - t.IntAt(0);
  };
  const auto has_step = [=](const Match& m) {
    const Tensor& t = m.tensor(indices);
    if (t.rank() != 1 || t.num_elements() < 2 || t.IntAt(0) < 0 || step_of(m) < 1) return false;
    for (int64_t i = 1; i < t.num_elements(); ++i)
      if (t.IntAt(i) - t.IntAt(i - 1) != step_of(m)) return false;
    return true;
  };
  return {
      .name = "slice-by-gather",
      .doc = "Gather(x, [a, a+s, a+2s, ...]) => Slice(x), or x where it takes everything",
      .match = root,
      .when = {{"indices with one positive step", has_step}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Tensor& t = m.tensor(indices);
        INFER_ASSIGN(const int axis,
                     NormalizeAxis(m.node(root).Attr<int64_t>("axis"), RankOf(*m[x])));
        const int64_t count = t.num_elements(), first = t.IntAt(0);
        const auto extent = StaticDim(*m[x], axis);
        // A Slice cuts where a Gather fails.
        if (!extent || t.IntAt(count - 1) >= *extent)
          return InvalidModel("needs indices within a known extent");
        if (first == 0 && step_of(m) == 1 && *extent == count) return m[x];
        return BuildSlice(b, m[x], {{axis, first, t.IntAt(count - 1) + 1, step_of(m)}});
      },
      .fires_on = {R"(graph g(x: f32[N,6]) -> (y) { i = const i64[3] {1,3,5}
                     y = Gather(x, i) {axis=1} })",
                   R"(graph g(x: f32[N,3]) -> (y) { i = const i64[3] {0,1,2}
                     y = Gather(x, i) {axis=-1} })"},
      .silent_on = {{R"(graph g(x: f32[N,6]) -> (y) { i = const i64[3] {0,2,5}
                       y = Gather(x, i) {axis=1} })",
                     "indices with one positive step"},
                    {R"(graph g(x: f32[6,N]) -> (y) { i = const i64[3] {0,1,2}
                       y = Gather(x, i) {axis=1} })",
                     "indices within a known extent"},
                    {"graph g(x: f32[6]) -> (y) { i = const i64[2] {0,1}  y = Gather(x, i) }",
                     "of two axes or more"}},
  };
}

Rule MergeGatherUnsqueeze() {
  Pattern x = Any(), index = Scalar().Where(
                         "without axes", [](const Value& v) { return v.constant()->rank() == 0; });
  Pattern gather = Op("Gather", x, index), root = Op("Unsqueeze", gather, Constant());
  return {
      .name = "merge-gather-unsqueeze",
      .doc = "Unsqueeze(Gather(x, i, axis), axis) => Slice(x, i, i + 1)",
      .match = root,
      .when = {{"the axis that the Gather took",
                [=](const Match& m) {
                  const int rank = RankOf(*m[x]);
                  const auto axes = ConstantInts(m.node(root), 1);
                  if (rank < 1 || !axes || axes->size() != 1) return false;
                  const auto put = NormalAxes(*axes, rank);
                  const auto taken = NormalizeAxis(m.node(gather).Attr<int64_t>("axis"), rank);
                  return put && taken.ok() && (*put)[0] == *taken;
                }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_ASSIGN(const int axis,
                     NormalizeAxis(m.node(gather).Attr<int64_t>("axis"), RankOf(*m[x])));
        const int64_t extent = StaticDim(*m[x], axis).value_or(0);
        const int64_t given = m.tensor(index).IntAt(0), at = given < 0 ? given + extent : given;
        // A Slice cuts where a Gather fails.
        if (at < 0 || at >= extent) return InvalidModel("needs an index within a known extent");
        return BuildSlice(b, m[x], {{axis, at, at + 1, 1}});
      },
      .fires_on = {R"(graph g(x: f32[2,N,4]) -> (y) { i = const i64[] {-1}  a = const i64[1] {0}
                     t = Gather(x, i)  y = Unsqueeze(t, a) })"},
      .silent_on = {{R"(graph g(x: f32[1,1,4]) -> (y) { i = const i64[] {0}  a = const i64[1] {1}
                       t = Gather(x, i)  y = Unsqueeze(t, a) })",
                     "the axis that the Gather took"},
                    {R"(graph g(x: f32[N,4]) -> (y) { i = const i64[] {0}  a = const i64[1] {0}
                       t = Gather(x, i)  y = Unsqueeze(t, a) })",
                     "an index within a known extent"},
                    {R"(graph g(x: f32[2,4]) -> (y, t) { i = const i64[] {0}  a = const i64[1] {0}
                       t = Gather(x, i)  y = Unsqueeze(t, a) })",
                     "'t' has other uses"}},
  };
}

}  // namespace infer
