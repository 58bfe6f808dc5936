/// Chains of operators that only rename the extents.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr std::string_view kViews = "Reshape|Flatten|Squeeze|Unsqueeze";

/// The target of a Reshape with the extents that it copies (0) from `from` put in where they are
/// not those of `x`; nullopt where one is not known.
std::optional<std::vector<int64_t>> WithoutCopies(const Node& reshape, const Value& from,
                                                  const Value& x) {
  std::vector<int64_t> target = reshape.input(1)->constant()->ToInts();
  if (reshape.Attr<int64_t>("allowzero") != 0) return target;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] != 0) continue;
    const auto axis = static_cast<int>(i);
    if (axis < std::min(RankOf(x), RankOf(from)) && x.shape()[axis].KnownEqual(from.shape()[axis]))
      continue;  // x has it in the same place
    const auto extent = StaticDim(from, axis);
    if (!extent || *extent == 0) return std::nullopt;
    target[i] = *extent;
  }
  return target;
}

/// A constant target for a Reshape whose target is known in part: numbers, 0 for an extent of x in
/// its place, one -1.
std::optional<std::vector<int64_t>> StaticTarget(const Node& reshape) {
  const Value &x = *reshape.input(0), &shape = *reshape.input(1);
  if (!shape.elements() || reshape.Attr<int64_t>("allowzero") != 0) return std::nullopt;
  std::vector<int64_t> target;
  int inferred = 0;
  for (size_t i = 0; i < shape.elements()->size(); ++i) {
    const Dim& e = (*shape.elements())[i];
    const int axis = static_cast<int>(i);
    if (e.is_static()) {
      if (e.value() == 0) return std::nullopt;
      target.push_back(e.value());
      inferred += e.value() == -1;
    } else if (axis < RankOf(x) && x.shape()[axis].KnownEqual(e)) {
      target.push_back(0);
    } else {
      target.push_back(-1);
      ++inferred;
    }
  }
  if (inferred > 1) return std::nullopt;
  return target;
}

}  // namespace

Rule MergeReshapes() {
  Pattern x = Any(), inner = Op(kViews, x).MoreInputs().Shared();
  Pattern shape = Constant(), outer = Op("Reshape", inner, shape);
  return {
      .name = "merge-reshapes",
      .doc = "Reshape(Reshape|Flatten|Squeeze|Unsqueeze(x), s) => Reshape(x, s)",
      .match = outer,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto target = WithoutCopies(m.node(outer), *m[inner], *m[x]);
        if (!target) return InvalidModel("needs no extent copied from a shape that is not known");
        return b("Reshape", {m[x], b.Ints(*target)}, m.node(outer).attrs());
      },
      .fires_on = {R"(graph g(x: f32[2,6]) -> (y) { s = const i64[2] {3,4}  r = const i64[2] {0,-1}
                     t = Reshape(x, s)  y = Reshape(t, r) })",
                   R"(graph g(x: f32[2,1,6]) -> (y, t) { a = const i64[1] {1}  r = const i64[1] {-1}
                     t = Squeeze(x, a)  y = Reshape(t, r) })",
                   R"(graph g(x: f32[N,4]) -> (y) { s = const i64[4] {0,1,2,2}
                     r = const i64[4] {0,2,1,2}  t = Reshape(x, s)  y = Reshape(t, r) })"},
      .silent_on = {{R"(graph g(x: f32[N,6]) -> (y) { s = const i64[2] {-1,3}
                       r = const i64[2] {0,3}  t = Reshape(x, s)  y = Reshape(t, r) })",
                     "no extent copied from a shape that is not known"},
                    {R"(graph g(x: f32[2,6], r: i64[2]) -> (y) { s = const i64[2] {3,4}
                       t = Reshape(x, s)  y = Reshape(t, r) })",
                     "'r' is not a constant"}},
  };
}

Rule MergeViews() {
  Pattern x = Any(), inner = Op(kViews, x).MoreInputs().Shared();
  Pattern outer = Op("Flatten|Squeeze|Unsqueeze", inner).MoreInputs();
  return {
      .name = "merge-views",
      .doc = "Flatten|Squeeze|Unsqueeze of Reshape|Flatten|Squeeze|Unsqueeze(x) => one of them",
      .match = outer,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node &first = m.node(inner), &then = m.node(outer);
        const auto a = ConstantInts(first, 1), c = ConstantInts(then, 1);
        if (first.Is("Unsqueeze") && then.Is("Unsqueeze") && a && c) {
          const int rank = RankOf(*m[inner]);
          const auto early = NormalAxes(*a, rank);
          const auto late = NormalAxes(*c, rank + static_cast<int>(c->size()));
          if (!early || !late) return InvalidModel("needs axes in range");
          std::vector<int64_t> all = *late;
          int64_t at = 0;  // of the inner value's axes, where they end up
          for (int64_t i = 0; i < rank; ++i, ++at) {
            while (std::find(late->begin(), late->end(), at) != late->end()) ++at;
            if (std::find(early->begin(), early->end(), i) != early->end()) all.push_back(at);
          }
          std::sort(all.begin(), all.end());
          return b("Unsqueeze", {m[x], b.Ints(all)});
        }
        const auto target = ReshapeTarget(m[x]->shape(), m[outer]->shape());
        if (!target) return InvalidModel("needs a shape that a constant can say");
        return b("Reshape", {m[x], b.Ints(*target)});
      },
      .fires_on = {R"(graph g(x: bool[N,S]) -> (y) { a = const i64[1] {1}  c = const i64[1] {2}
                     t = Unsqueeze(x, a)  y = Unsqueeze(t, c) })",
                   R"(graph g(x: f32[N,4,6]) -> (y) { s = const i64[3] {0,12,2}
                     a = const i64[1] {-1}  t = Reshape(x, s)  y = Unsqueeze(t, a) })",
                   R"(graph g(x: f32[N,1,6,1]) -> (y, t) { a = const i64[1] {1}
                     t = Squeeze(x, a)  y = Flatten(t) {axis=1} })"},
      .silent_on = {{R"(graph g(x: f32[1,N,S]) -> (y) { b = const i64[1] {0}
                       a = const i64[1] {-1}  t = Squeeze(x, b)  y = Unsqueeze(t, a) })",
                     "a shape that a constant can say"}},
  };
}

Rule CancelSqueezeUnsqueeze() {
  Pattern x = Any(), inner = Op(kViews, x).MoreInputs().Shared();
  Pattern outer = Op(kViews, inner).MoreInputs();
  return {
      .name = "cancel-squeeze-unsqueeze",
      .doc =
          "Unsqueeze(Squeeze(x)), Squeeze(Unsqueeze(x)), Reshape(Reshape(x)) back to x's shape => "
          "x",
      .match = outer,
      .when = {{"x's shape again",
                [=](const Match& m) { return SameKnownType(*m[x], *m[outer]); }}},
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on = {R"(graph g(x: f32[N,3]) -> (y) { a = const i64[1] {1}  t = Unsqueeze(x, a)
                     y = Squeeze(t, a) })",
                   R"(graph g(x: f32[N,1,3]) -> (y) { a = const i64[1] {-2}  t = Squeeze(x, a)
                     b = const i64[1] {1}  y = Unsqueeze(t, b) })"},
      .silent_on = {{R"(graph g(x: f32[?,?], r: i64[1], s: i64[2]) -> (y) { t = Reshape(x, r)
                       y = Reshape(t, s) })",
                     "x's shape again"}},
  };
}

Rule StaticReshape() {
  Pattern x = Any();
  Pattern shape =
      Any().Where("made during the run", [](const Value& v) { return !v.is_constant(); });
  Pattern root = Op("Reshape", x, shape);
  return {
      .name = "static-reshape",
      .doc = "Reshape(x, [N, 2*S, 64]) with N = x's extent => Reshape(x, const [0, -1, 64])",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        if (const auto target = StaticTarget(m.node(root)))
          return b("Reshape", {m[x], b.Ints(*target)}, m.node(root).attrs());
        // A -1 beside another open extent may stand for a number that inference knows.
        const auto known = m[shape]->elements() && m[root]->shape().has_rank()
                               ? ReshapeTarget(m[x]->shape(), m[root]->shape())
                               : std::nullopt;
        if (!known) return InvalidModel("needs a target that a constant can say");
        return b("Reshape", {m[x], b.Ints(*known)});
      },
      .fires_on = {R"(graph g(x: f32[N,4,6,8]) -> (y) { s = Shape(x)  i = const i64[2] {0,1}
                     g = Gather(s, i)  p = ReduceProd(g) {keepdims=1}  o = const i64[1] {-1}
                     e = const i64[1] {8}  t = Concat(p, o, e) {axis=0}  y = Reshape(x, t) })",
                   R"(graph g(x: f32[N,S,6]) -> (y) { s = Shape(x)  i = const i64[1] {0}
                     n = Gather(s, i)  j = const i64[1] {1}  l = Gather(s, j)
                     r = const i64[2] {2,3}  t = Concat(n, l, r) {axis=0}  y = Reshape(x, t) })"},
      .silent_on = {{"graph g(x: f32[2,3], s: i64[2]) -> (y) { y = Reshape(x, s) }",
                     "a target that a constant can say"}},
  };
}

Rule StaticExpand() {
  Pattern x = Any();
  Pattern shape =
      Any().Where("made during the run", [](const Value& v) { return !v.is_constant(); });
  Pattern root = Op("Expand", x, shape);
  return {
      .name = "static-expand",
      .doc = "Expand(x, [N, 4, S]) with N and S x's extents => Expand(x, const [1, 4, 1])",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto& elements = m[shape]->elements();
        const int rank = RankOf(*m[x]);
        if (!elements || rank < 0) return InvalidModel("needs a target that a constant can say");
        const int more = static_cast<int>(elements->size()) - rank;
        std::vector<int64_t> target;
        for (int i = 0; i < static_cast<int>(elements->size()); ++i) {
          const Dim& e = (*elements)[static_cast<size_t>(i)];
          if (i >= more && m[x]->shape()[i - more].KnownEqual(e))
            target.push_back(1);
          else if (e.is_static())
            target.push_back(e.value());
          else
            return InvalidModel("needs a target that a constant can say");
        }
        return b("Expand", {m[x], b.Ints(target)});
      },
      .fires_on = {R"(graph g(x: f32[N,1,S]) -> (y) { s = Shape(x)  i = const i64[1] {0}
                     n = Gather(s, i)  j = const i64[1] {2}  l = Gather(s, j)
                     r = const i64[1] {4}  t = Concat(n, r, l) {axis=0}  y = Expand(x, t) })"},
      .silent_on = {{R"(graph g(x: f32[1,3], z: f32[N,3]) -> (y) { s = Shape(z)
                       y = Expand(x, s) })",
                     "a target that a constant can say"}},
  };
}

}  // namespace infer
