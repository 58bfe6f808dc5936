/// Moves of what lies in another layout than the plain one, as the results of convolutions do.
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// `move` makes y of c [2,20,6,9], the result of a convolution of 8 channels.
void CheckBehindConv(std::string_view move) {
  ExpectFast(CheckGraph(Cat(
      "graph g(x: f32[2,8,6,9]) -> (y) { w = const f32[20,8,1,1] ~1 c = Conv(x, w) ", move, " }")));
}

/// Transposes of more axes than a layout of channels knows, of single elements and of many.
TEST(Kernels, TransposesOfSixAxes) {
  for (std::string_view dims : {"1,1,1,1,1,1", "2,3,4,5,6,7", "2,16,3,4,5,2"})
    for (std::string_view perm : {"0,1,4,2,5,3", "0,2,3,4,5,1", "5,4,3,2,1,0"})
      ExpectFast(CheckGraph(
          Cat("graph g(x: f32[", dims, "]) -> (y) { y = Transpose(x) {perm=[", perm, "]} }")));
}

/// Few channels that come to lie last, or lay last, and pairs and fours of elements that move
/// together: of elements of one to eight bytes, more than a tile and its rest.
TEST(Kernels, TransposesOfFewChannels) {
  for (std::string_view type : {"u8", "f16", "f32", "i64"})
    for (const int64_t channels : {2, 3, 4, 5, 7, 8, 15, 16, 17})
      for (const int64_t pixels : {1, 2, 5, 33, 1030}) {
        const std::string x = Cat("graph g(x: ", type, "[2,");
        CheckSameBits(
            Cat(x, channels, ",", pixels, "]) -> (y) { y = Transpose(x) {perm=[0,2,1]} }"));
        ExpectFast(CheckGraph(
            Cat(x, channels, ",", pixels, "]) -> (y) { y = Transpose(x) {perm=[0,2,1]} }"), 1, 0));
        ExpectFast(CheckGraph(
            Cat(x, pixels, ",", channels, "]) -> (y) { y = Transpose(x) {perm=[0,2,1]} }"), 1, 0));
        if (channels <= 16)
          ExpectFast(CheckGraph(
              Cat(x, pixels, ",19,", channels, "]) -> (y) { y = Transpose(x) {perm=[0,2,1,3]} }"),
              1, 0));
      }
  // Views that begin and go on between the elements of two.
  for (std::string_view move : {"b = const i64[2] {1,1} e = const i64[2] {6,3} a = const i64[2] "
                                "{1,2} y = Slice(x, b, e, a)",
                                "b = const i64[2] {6,3} e = const i64[2] {0,0} a = const i64[2] "
                                "{1,2} s = const i64[2] {-2,-1} "
                                "y = Slice(x, b, e, a, s)"})
    for (std::string_view last : {"4", "5,2"})
      ExpectFast(CheckGraph(Cat("graph g(x: f32[3,7,", last, "]) -> (y) { ", move, " }"), 1, 0));
}

TEST(Layouts, Moves) {
  CheckBehindConv("y = Transpose(c) {perm=[0,2,3,1]}");
  CheckBehindConv("y = Transpose(c) {perm=[1,0,3,2]}");
  CheckBehindConv("p = const i64[8] {0,0,1,2,0,0,0,3} y = Pad(c, p)");
  CheckBehindConv("p = const i64[8] {0,1,1,2,1,0,0,3} y = Pad(c, p) {mode=\"edge\"}");
  CheckBehindConv(
      "b = const i64[2] {3,1} e = const i64[2] {17,6} a = const i64[2] {1,2} "
      "s = const i64[2] {2,1} y = Slice(c, b, e, a, s)");
  CheckBehindConv("s, t = Split(c) {axis=1, num_outputs=2} y = Sub(s, t)");
  CheckBehindConv("s, t = Split(c) {axis=2, num_outputs=2} r = Relu(s) y = Sub(r, t)");
  CheckBehindConv(
      "s = const f32[4] {1,1,2,2} y = Resize(c, _, s) {mode=\"nearest\", "
      "coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\"}");
  CheckBehindConv("s = const f32[4] {1,1,1.5,0.7} y = Resize(c, _, s) {mode=\"nearest\"}");
  CheckBehindConv("y = DepthToSpace(c) {blocksize=2}");
  CheckBehindConv("y = DepthToSpace(c) {blocksize=2, mode=\"CRD\"}");
  CheckBehindConv(
      "b = const i64[1] {0} e = const i64[1] {8} a = const i64[1] {3} "
      "d = Slice(c, b, e, a) y = SpaceToDepth(d) {blocksize=2}");
}

TEST(Layouts, Concat) {
  CheckBehindConv("r = Relu(c) y = Concat(c, r) {axis=1}");
  CheckBehindConv("v = const f32[3,8,1,1] ~2 d = Conv(x, v) y = Concat(c, x, d, c) {axis=1}");
  CheckBehindConv("r = Relu(c) y = Concat(c, r) {axis=2}");
  CheckBehindConv("v = const f32[20,20,1,1] ~2 r = Concat(c, c) {axis=3} y = Conv(r, v)");
}

/// Rows that repeat, columns that repeat or interleave.
TEST(Layouts, RowsAndColumns) {
  for (std::string_view shape : {"[1,3,9,16]", "[2,4,6,10]"}) {
    ExpectFast(CheckGraph(
        Cat("graph g(x: f32", shape,
            ") -> (y) { s = const f32[4] {1,1,2,2} y = "
            "Resize(x, _, s) {mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", "
            "nearest_mode=\"floor\"} }")));
    ExpectFast(CheckGraph(Cat("graph g(x: f32", shape,
                              ") -> (y) { s = const f32[4] {1,1,3,1.5} y = "
                              "Resize(x, _, s) {mode=\"nearest\"} }")));
  }
  for (std::string_view type : {"f32", "u8", "i64"}) {
    ExpectFast(CheckGraph(
        Cat("graph g(x: ", type, "[1,16,5,12]) -> (y) { y = DepthToSpace(x) {blocksize=4} }")));
    ExpectFast(
        CheckGraph(Cat("graph g(x: ", type, "[33,50]) -> (y) { y = Transpose(x) {perm=[1,0]} }")));
    ExpectFast(CheckGraph(
        Cat("graph g(x: ", type, "[2,19,33,3]) -> (y) { y = Transpose(x) {perm=[0,3,1,2]} }")));
    ExpectFast(CheckGraph(
        Cat("graph g(x: ", type, "[3,1]) -> (y) { s = const i64[2] {3,40} y = Expand(x, s) }")));
  }
}

}  // namespace
}  // namespace infer
