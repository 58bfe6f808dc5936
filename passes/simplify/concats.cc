/// Concat and Split: chains, and what one takes apart and the other puts together again.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

/// The axis of a Concat or Split, counted from the front; -1 where the rank is not known.
int AxisOf(const Node& n) {
  const Value* v = n.input(0);
  const int rank = v ? RankOf(*v) : -1;
  if (rank < 1) return -1;
  const auto axis = NormalizeAxis(n.Attr<int64_t>("axis"), rank);
  return axis.ok() ? *axis : -1;
}

/// Operand `v` of `outer` is a Concat along the same axis that nothing else reads.
bool IsInnerConcat(const Node& outer, const Value* v) {
  return v && v->producer() && v->producer()->Is(Trait::kConcatenation) && v->has_one_use() &&
         AxisOf(outer) >= 0 && AxisOf(*v->producer()) == AxisOf(outer);
}

constexpr size_t kMaxParts = 128;  // of one Concat: merging copies the list each time

bool HasInnerConcat(const Value& root) {
  const Node& n = *root.producer();
  if (n.inputs().size() > kMaxParts) return false;
  return std::any_of(n.inputs().begin(), n.inputs().end(),
                     [&](const Value* v) { return IsInnerConcat(n, v); });
}

/// The Split whose results are, all and in order, the operands of the Concat.
const Node* SplitOf(const Value& root) {
  const Node& n = *root.producer();
  const Node* split = n.input(0) ? n.input(0)->producer() : nullptr;
  if (!split || !split->Is("Split") || split->outputs() != n.inputs()) return nullptr;
  return AxisOf(*split) >= 0 && AxisOf(*split) == AxisOf(n) ? split : nullptr;
}

}  // namespace

Rule MergeConcats() {
  Pattern root = Op("Concat", {})
                     .MoreInputs()
                     .Where("a Concat of a Concat along the same axis that nothing else reads",
                            HasInnerConcat);
  return {
      .name = "merge-concats",
      .doc = "Concat(a, Concat(b, c)) => Concat(a, b, c), along one axis",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        std::vector<Value*> parts;
        for (Value* v : n.inputs()) {
          if (!IsInnerConcat(n, v)) {
            parts.push_back(v);
            continue;
          }
          b.Cover(v->producer());
          for (Value* part : v->producer()->inputs()) parts.push_back(part);
        }
        return b("Concat", std::move(parts), n.attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,2], z: f32[N,3]) -> (y) { t = Concat(x, z) {axis=1}
                     u = Concat(z, z) {axis=-1}  y = Concat(x, t, x, u) {axis=1} })"},
      .silent_on = {{R"(graph g(x: f32[N,2], z: f32[N,2]) -> (y) { t = Concat(x, z) {axis=1}
                       y = Concat(t, t) {axis=0} })",
                     "along the same axis"},
                    {R"(graph g(x: f32[N,2], z: f32[N,3]) -> (y, t) { t = Concat(x, z) {axis=1}
                       y = Concat(x, t) {axis=1} })",
                     "nothing else reads"}},
  };
}

Rule CancelSplitConcat() {
  Pattern root = Op("Concat", {})
                     .MoreInputs()
                     .Where("a Concat of all parts of a Split in order",
                            [](const Value& v) { return SplitOf(v) != nullptr; });
  return {
      .name = "cancel-split-concat",
      .doc = "Concat(Split(x)) of all parts in order => x",
      .match = root,
      .build = [=](const Match& m, PatchBuilder&) -> Result<Value*> {
        return SplitOf(*m[root])->input(0);
      },
      .fires_on = {R"(graph g(x: f32[N,6]) -> (y) { s = const i64[3] {1,2,3}
                     a, b, c = Split(x, s) {axis=1}  y = Concat(a, b, c) {axis=-1} })"},
      .silent_on = {{R"(graph g(x: f32[N,6]) -> (y) { a, b = Split(x) {axis=1, num_outputs=2}
                       y = Concat(b, a) {axis=1} })",
                     "all parts of a Split in order"},
                    {R"(graph g(x: f32[6,6]) -> (y) { a, b = Split(x) {axis=1, num_outputs=2}
                       y = Concat(a, b) {axis=0} })",
                     "all parts of a Split in order"}},
  };
}

Rule CancelConcatSplit() {
  Pattern concat = Op("Concat", {}).MoreInputs().Shared();
  Pattern root = Op("Split", concat).MoreInputs().Shared();
  return {
      .name = "cancel-concat-split",
      .doc = "Split(Concat(a, b, ...)) at the same places => a, b, ...",
      .match = root,
      .when = {{"a Split where the Concat put the parts together",
                [=](const Match& m) {
                  const Node &whole = m.node(concat), &split = m.node(root);
                  const int axis = AxisOf(split);
                  if (axis < 0 || AxisOf(whole) != axis) return false;
                  if (whole.inputs().size() != split.outputs().size()) return false;
                  for (size_t i = 0; i < whole.inputs().size(); ++i) {
                    const Value* part = split.output(i);
                    if (!part) continue;
                    if (!SameKnownType(*part, *whole.input(i))) return false;
                  }
                  // Parts that nobody reads say nothing of where the others begin.
                  return split.outputs().size() < 2 ||
                         std::none_of(split.outputs().begin(), split.outputs().end(),
                                      [](const Value* v) { return v == nullptr; });
                }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node &whole = m.node(concat), &split = m.node(root);
        for (size_t i = 1; i < split.outputs().size(); ++i)
          if (!split.output(i)->is_dead()) b.Replace(split.output(i), whole.input(i));
        return whole.input(0);
      },
      .fires_on = {R"(graph g(x: f32[N,2], z: f32[N,3]) -> (u, v) { t = Concat(x, z) {axis=1}
                     s = const i64[2] {2,3}  a, b = Split(t, s) {axis=-1}
                     u = Relu(a)  v = Abs(b) })"},
      .silent_on = {{R"(graph g(x: f32[N,?], z: f32[N,?]) -> (a, b) { t = Concat(x, z) {axis=1}
                       a, b = Split(t) {axis=1, num_outputs=2} })",
                     "a Split where the Concat put the parts together"}},
  };
}

Rule RemoveSingleSplit() {
  Pattern x = Any();
  Pattern root = Op("Split", x).MoreInputs().Where("a Split into one", [](const Value& v) {
    return v.producer()->outputs().size() == 1;
  });
  return {
      .name = "remove-single-split",
      .doc = "Split(x) into one part => x",
      .match = root,
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[2,3]) -> (y) { y = Split(x) {axis=0, num_outputs=1} }"},
      .silent_on = {{"graph g(x: f32[2,2]) -> (y, z) { y, z = Split(x) {axis=0, num_outputs=2} }",
                     "a Split into one"}},
  };
}

}  // namespace infer
