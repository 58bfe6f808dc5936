/// Sequences, optionals, BitCast.
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

constexpr std::string_view kTwo =
    "a = const i32[2] {1, 2} b = const i32[2] {3, 4} s = SequenceConstruct(a, b) ";

std::string Two(std::string_view rest) { return Cat(kTwo, rest); }

TEST(SequenceOps, Values) {
  CheckValues({
      {Two("i = const i64[] {-2} y = SequenceAt(s, i)"), "i32[2] {1, 2}"},
      {Two("i = const i64[] {2} y = SequenceAt(s, i)"), "position 2"},
      {Two("y = ConcatFromSequence(s) {axis=0}"), "i32[4] {1, 2, 3, 4}"},
      {Two("y = ConcatFromSequence(s) {axis=-1, new_axis=1}"), "i32[2,2] {1, 3, 2, 4}"},
      {Two("i = const i32[] {0} t = SequenceInsert(s, b, i) y = ConcatFromSequence(t) {axis=0}"),
       "i32[6] {3, 4, 1, 2, 3, 4}"},
      {Two("i = const i32[] {0} t = SequenceErase(s, i) y = ConcatFromSequence(t) {axis=0}"),
       "i32[2] {3, 4}"},
      {Two("y = SequenceLength(s)"), "i64[] {2}"},
      {"s = SequenceEmpty() t = SequenceErase(s) y = SequenceLength(t)", "empty"},
      {R"(x = const i32[5] {1, 2, 3, 4, 5} k = const i64[] {2} s = SplitToSequence(x, k)
          i = const i64[] {-1} y = SequenceAt(s, i))",
       "i32[1] {5}"},
      {R"(x = const i32[2,2] {1, 2, 3, 4} s = SplitToSequence(x) {axis=1, keepdims=0}
          i = const i64[] {1} y = SequenceAt(s, i))",
       "i32[2] {2, 4}"},
      {R"(x = const i32[5] {1, 2, 3, 4, 5} k = const i64[2] {2, 2} s = SplitToSequence(x, k)
          y = SequenceLength(s))",
       "does not add up"},
      {"x = const f32[1] {7} o = Optional(x) y = OptionalGetElement(o)", "f32[1] {7}"},
      {"x = const f32[1] {7} y = OptionalHasElement(x)", "bool[] {1}"},
  });
  CheckTypes({
      {"graph g(x: f32[N,2], y: f32[N,3]) -> (s) { s = SequenceConstruct(x, y) }", "seq(f32[N,?])"},
      {"graph g(x: f32[N,2], y: i64[N]) -> (s) { s = SequenceConstruct(x, y) }",
       "input 'inputs' is i64, but T is f32"},
  });
}

TEST(BitCast, KeepsBits) {
  CheckValues({
      {"x = const f32[2] {1, -2} y = BitCast(x) {to=6}", "i32[2] {1065353216, -1073741824}"},
      {"x = const i4[3] {-1, 2, 3} y = BitCast(x) {to=21}", "u4[3] {15, 2, 3}"},
      {"x = const u8[2] {0, 2} y = BitCast(x) {to=9}", "bool[2] {0, 1}"},
      {"x = const f32[2] {1, -2} y = BitCast(x) {to=7}", "differ in width"},
  });
}

}  // namespace
}  // namespace infer
