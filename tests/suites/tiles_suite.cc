/// Convolutions that oneDNN would gather for its matrix product: windows that reach far over the
/// borders, groups that miss the vectors, transposed ones, in every layout and with what may
/// follow.
#include "lib/support/isa.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// With AVX-512 oneDNN has kernels for some of them.
void ExpectTiles(const std::vector<StepInfo>& steps) {
  if (BackendUnderTest().name() != "cpu" || RunsIsa(Isa::kAvx512)) return;
  std::string all;
  for (const StepInfo& s : steps)
    all += Cat(s.op, "=", s.kernel, " ", Join(s.refusals, "; "), "\n");
  EXPECT_THAT(all, testing::HasSubstr("own:tiles"));
}

constexpr std::string_view kWide[] = {
    "3,3] ~1 c = Conv(x, w, b) {dilations=[6,6], pads=[6,6,6,6]",
    "9,11] ~1 c = Conv(x, w, b) {pads=[4,5,4,5]",
    "3,15] ~1 c = Conv(x, w, b) {pads=[1,14,1,0]",
    "5,5] ~1 c = Conv(x, w, b) {dilations=[4,4], strides=[2,1], pads=[8,8,8,8]",
};

constexpr std::string_view kTilesAfter[] = {
    "y = Identity(c)",
    "y = Relu(c)",
    "y = Sigmoid(c)",
    "r = Add(c, z) y = Relu(r)",
};

TEST(Tiles, WideWindows) {
  for (int64_t channels : {3, 8, 20})
    for (int64_t results : {8, 20, 37})
      for (std::string_view window : kWide)
        ExpectTiles(CheckGraph(
            Cat("graph g(x: f32[2,", channels, ",13,18]) -> (y) { b = const f32[", results,
                "] ~2 w = const f32[", results, ",", channels, ",", window, "} y = Relu(c) }")));
}

TEST(Tiles, Epilogues) {
  for (int64_t results : {16, 21})
    for (std::string_view after : kTilesAfter)
      ExpectTiles(CheckGraph(Cat("graph g(x: f32[2,9,13,18], z: f32[2,", results,
                                 ",13,18]) -> (y) { b = const f32[", results, "] ~2 w = const f32[",
                                 results, ",9,", kWide[0], "} ", after, " }")));
}

/// Behind a convolution of oneDNN operands lie in blocks of channels, behind a depthwise one of
/// wide windows channels last.
TEST(Tiles, Layouts) {
  for (std::string_view before :
       {"t = Relu(a)",
        "d = const f32[24,1,3,3] ~4 t = Conv(a, d) {group=24, dilations=[5,5], "
        "pads=[5,5,5,5]}"})
    for (int64_t results : {16, 21})
      for (std::string_view after : {"y = Relu(c)", "y = Sigmoid(c)"})
        CheckGraph(
            Cat("graph g(i: f32[2,3,13,18]) -> (y) { f = const f32[24,3,3,3] ~3 "
                "a = Conv(i, f) {pads=[1,1,1,1]} ",
                before, " k = const f32[] {0.02} x = Mul(t, k) b = const f32[", results,
                "] ~2 w = const f32[", results, ",24,", kWide[0], "} ", after, " }"));
}

/// Of few results behind another convolution: where operands are planes, those are faster.
TEST(Tiles, Groups) {
  for (int64_t of_group : {4, 6, 12, 20})
    for (std::string_view attributes :
         {"pads=[1,1,1,1]", "strides=[2,1], pads=[1,0,2,1]", "dilations=[5,4], pads=[5,4,5,4]"}) {
      const int64_t channels = 4 * of_group;
      const std::string group =
          Cat("w = const f32[", channels, ",", of_group, ",3,3] ~1 c = Conv(x, w) {group=4, ",
              attributes, "} y = Relu(c) }");
      ExpectTiles(CheckGraph(Cat("graph g(i: f32[2,24,9,14]) -> (y) { f = const f32[", channels,
                                 ",24,3,3] ~3 x = Conv(i, f) {pads=[1,1,1,1]} ", group)));
      const auto plain = CheckGraph(Cat("graph g(x: f32[2,", channels, ",9,14]) -> (y) { ", group));
      if (of_group > 16) ExpectTiles(plain);
    }
}

TEST(Tiles, OneAndThreeDimensions) {
  for (std::string_view attributes : {"pads=[40,0]", "pads=[20,20], strides=[4]"})
    ExpectTiles(
        CheckGraph(Cat("graph g(x: f32[2,6,70]) -> (y) { w = const f32[20,6,41] ~1 y = "
                       "Conv(x, w) {",
                       attributes, "} }")));
  ExpectTiles(
      CheckGraph("graph g(x: f32[1,6,5,6,7]) -> (y) { w = const f32[12,6,3,3,3] ~1 y = Conv(x, w) "
                 "{dilations=[4,4,4], pads=[4,4,4,4,4,4]} }"));
}

TEST(Tiles, Transposed) {
  for (std::string_view attributes : {"strides=[2]", "strides=[3], pads=[1,2]", "dilations=[3]"})
    CheckGraph(
        Cat("graph g(x: f32[2,24,19]) -> (y) { w = const f32[24,20,4] ~1 b = const f32[20] "
            "~2 c = ConvTranspose(x, w, b) {",
            attributes, "} y = Relu(c) }"));
}

TEST(Tiles, SameBits) {
  CheckSameBits(Cat("graph g(x: f32[2,9,13,18]) -> (c) { b = const f32[40] ~2 w = const f32[40,9,",
                    kWide[0], "} }"));
}

/// Sums that are cut: more terms than are multiplied at once.
TEST(Tiles, ManyTerms) {
  ExpectTiles(
      CheckGraph("graph g(x: f32[1,700,5,6]) -> (y) { w = const f32[17,700,3,3] ~1 y = Conv(x, w) "
                 "{dilations=[4,4], pads=[4,4,4,4]} }"));
}

TEST(BatchNormalization, RowsInBlocks) {
  for (int64_t channels : {16, 32, 20})
    ExpectFast(CheckGraph(Cat("graph g(x: f32[2,8,30]) -> (y) { w = const f32[", channels,
                              ",8,3] ~1 s = const f32[", channels, "] ~2 m = const f32[", channels,
                              "] ~3 b = const f32[", channels, "] ~4 v = const f32[", channels,
                              "] ~5 c = Conv(x, w) {pads=[1,1]} r = Relu(c) "
                              "y = BatchNormalization(r, s, b, m, v) {epsilon=9.0} }")));
}

}  // namespace
}  // namespace infer
