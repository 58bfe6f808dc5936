/// Operators that hand on their operand as it is.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

/// Operand i is omitted, or a constant for all elements of which `holds`.
bool OmittedOr(const Node& n, size_t i, bool (*holds)(double)) {
  const Value* v = n.input(i);
  if (!v) return true;
  if (!v->is_constant()) return false;
  const auto values = ToDoubles(*v->constant());
  return std::all_of(values.begin(), values.end(), holds);
}

}  // namespace

Rule RemoveIdentity() {
  Pattern x = Any();
  return {
      .name = "remove-identity",
      .doc = "Identity(x) => x",
      .match = Op("Identity", x),
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[2]) -> (y) { t = Identity(x)  y = Transpose(t) {perm=[0]} }"},
      .silent_on = {{"graph g(x: f32[2]) -> (y) { y = Identity(x) }", "name of a graph output"}},
  };
}

Rule RemoveDropout() {
  Pattern x = Any();
  Pattern root = Op("Dropout", x).MoreInputs();
  return {
      .name = "remove-dropout",
      .doc = "Dropout(x) => x, when not training or nothing is dropped",
      .match = root,
      .when = {{"inference mode or a ratio of 0",
                [=](const Match& m) {
                  const auto is_zero = [](double x) { return x == 0; };
                  const Node& n = m.node(root);
                  return OmittedOr(n, 2, is_zero) || (n.input(1) && OmittedOr(n, 1, is_zero));
                }}},
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[2]) -> (y) { y = Dropout(x) }",
                   R"(graph g(x: f32[2]) -> (y) {
                     r = const f32[] {0.5}  t = const bool[] {0}  y = Dropout(x, r, t) })",
                   R"(graph g(x: f32[2]) -> (y) {
                     r = const f32[] {0}  t = const bool[] {1}  y, m = Dropout(x, r, t) })"},
      .silent_on = {{"graph g(x: f32[2]) -> (y, m) { y, m = Dropout(x) }", "'m' has other uses"},
                    {R"(graph g(x: f32[2]) -> (y) {
                       r = const f32[] {0.5}  t = const bool[] {1}  y = Dropout(x, r, t) })",
                     "inference mode or a ratio of 0"}},
  };
}

Rule RemoveNoOpReshape() {
  Pattern x = Any(), root = Op("Reshape|Flatten|Expand|Tile|Squeeze", x).MoreInputs();
  return {
      .name = "remove-noop-reshape",
      .doc = "Reshape|Flatten|Expand|Tile|Squeeze(x) to x's own shape => x",
      .match = root,
      .when = {{"the shape that the operand has",
                [=](const Match& m) { return SameKnownType(*m[x], *m[root]); }}},
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on = {R"(graph g(x: f32[2,3]) -> (y) { s = const i64[2] {2, -1}  y = Reshape(x, s) })",
                   R"(graph g(x: f32[N,3]) -> (y) { s = const i64[2] {1, 1}  y = Expand(x, s) })",
                   R"(graph g(x: f32[N,3]) -> (y) { y = Flatten(x) {axis=1} })",
                   R"(graph g(x: f32[N,3]) -> (y) { s = const i64[2] {1, 1}  y = Tile(x, s) })"},
      .silent_on = {{"graph g(x: f32[?,?], s: i64[2]) -> (y) { y = Reshape(x, s) }",
                     "the shape that the operand has"}},
  };
}

Rule RemoveNoOpSlice() {
  Pattern x = Any(), root = Op("Slice", x).MoreInputs();
  return {
      .name = "remove-noop-slice",
      .doc = "Slice(x) that takes everything => x",
      .match = root,
      .when = {{"the shape that the operand has",
                [=](const Match& m) { return SameKnownType(*m[x], *m[root]); }},
               {"positive steps",
                [=](const Match& m) {
                  return OmittedOr(m.node(root), 4, [](double step) { return step > 0; });
                }}},
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on = {R"(graph g(x: f32[2,3]) -> (y) {
        b = const i64[1] {0}  e = const i64[1] {9223372036854775807}  a = const i64[1] {1}
        y = Slice(x, b, e, a) })"},
      .silent_on = {{"graph g(x: f32[?], b: i64[1], e: i64[1]) -> (y) { y = Slice(x, b, e) }",
                     "the shape that the operand has"},
                    {R"(graph g(x: f32[2,3]) -> (y) {
        b = const i64[1] {-1}  e = const i64[1] {-9223372036854775807}  a = const i64[1] {1}
        s = const i64[1] {-1}  y = Slice(x, b, e, a, s) })",
                     "positive steps"}},
  };
}

Rule RemoveNoOpPad() {
  Pattern x = Any(), pads = Constant(), root = Op("Pad", x, pads).MoreInputs();
  return {
      .name = "remove-noop-pad",
      .doc = "Pad(x) by nothing => x",
      .match = root,
      .when = {{"zero pads",
                [=](const Match& m) {
                  return OmittedOr(m.node(root), 1, [](double pad) { return pad == 0; });
                }}},
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on =
          {R"(graph g(x: f32[N,3]) -> (y) { p = const i64[4] {0, 0, 0, 0}  y = Pad(x, p) })"},
      .silent_on =
          {{R"(graph g(x: f32[2,3]) -> (y) { p = const i64[4] {0, 1, 0, -1}  y = Pad(x, p) })",
            "zero pads"}},
  };
}

Rule RemoveSingleConcat() {
  Pattern x = Any();
  return {
      .name = "remove-single-concat",
      .doc = "Concat|Sum|Max|Min|Mean(x) of one operand => x",
      .match = Op("Concat|Sum|Max|Min|Mean", x),
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[2,3]) -> (y) { y = Concat(x) {axis=0} }"},
      .silent_on = {{"graph g(x: f32[2,3]) -> (y) { y = Concat(x, x) {axis=0} }",
                     "made from 2 operands"}},
  };
}

}  // namespace infer
