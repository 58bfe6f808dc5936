/// MatMulNBits: widths, blocks, zero points and what may follow, against the operator's reference.
#include <algorithm>

#include "tests/suites/suite.h"

namespace infer {
namespace {

struct Form {
  int64_t bits = 4, block = 32, k = 100, n = 33;
  std::string x = "3,100";
  std::string zeros;  ///< "", "u8" or "f32"
  bool bias = false;
  int accuracy = 0;
  std::string after = "y = Identity(p)", more;
};

std::string Text(const Form& f) {
  const int64_t blocks = (f.k + f.block - 1) / f.block;
  std::string text =
      Cat("graph g(x: f32[", f.x, "]", f.more, ") -> (y) { w = const u8[", f.n, ",", blocks, ",",
          f.block * f.bits / 8, "] ~1 s = const f32[", f.n * blocks, "] ~2 ");
  if (f.zeros == "u8") text += Cat("z = const u8[", f.n * ((blocks * f.bits + 7) / 8), "] ~3 ");
  if (f.zeros == "f32") text += Cat("z = const f32[", f.n * blocks, "] ~3 ");
  if (f.bias) text += Cat("b = const f32[", f.n, "] ~4 ");
  text += Cat("p = com.microsoft::MatMulNBits(x, w, s", f.zeros.empty() ? "" : ", z");
  if (f.bias) text += f.zeros.empty() ? ", _, _, b" : ", _, b";
  return text + Cat(") {K=", f.k, ", N=", f.n, ", bits=", f.bits, ", block_size=", f.block,
                    ", accuracy_level=", f.accuracy, "} ", f.after, " }");
}

TEST(WeightOnly, Grid) {
  for (int64_t bits : {2, 4, 8})
    for (int64_t block : {16, 32, 256})
      for (int64_t k : {17, 300})
        for (int64_t rows : {1, 5, 30}) {
          for (const char* zeros : {"", "u8", "f32"})
            CheckGraph(Text({.bits = bits,
                             .block = block,
                             .k = k,
                             .x = Cat(rows, ",", k),
                             .zeros = zeros,
                             .bias = rows == 5}));
          // Fewer rows are compared bit by bit in tests/runtime/cpu/weight_only_test.cc.
          if (rows == 30)
            CheckGraph(
                Text({.bits = bits, .block = block, .k = k, .x = Cat(rows, ",", k), .accuracy = 4}),
                1, 2e-2);
        }
}

TEST(WeightOnly, BatchesAndWhatFollows) {
  CheckGraph(Text({.x = "2,3,100", .bias = true}));
  for (int64_t n : {32, 77})
    for (std::string_view after :
         {"y = Relu(p)", "y = Gelu(p)", "y = Add(p, r)", "a = Add(r, p) y = Tanh(a)",
          "a = Relu(p) y = Add(a, r)", "y = Add(p, p)"})
      for (bool bias : {false, true}) {
        const auto steps = CheckGraph(Text({.n = n,
                                            .x = "1,100",
                                            .bias = bias,
                                            .after = std::string(after),
                                            .more = Cat(", r: f32[1,", n, "]")}));
        EXPECT_FALSE(steps.empty());
      }
}

TEST(WeightOnly, Tables) {
  for (int64_t bits : {2, 4, 8})
    for (int64_t width : {32, 40, 88})
      for (bool zeros : {false, true}) {
        const int64_t blocks = (width + 31) / 32;
        const auto text = [&](std::string_view index) {
          return Cat("graph g(i: ", index, "[2,3]) -> (y) { d = const u8[7,", width * bits / 8,
                     "] ~1 s = const f32[7,", blocks, "] ~2 z = const u8[7,",
                     (blocks * bits + 7) / 8,
                     "] ~3 y = com.microsoft::GatherBlockQuantized(d, i, s", zeros ? ", z" : "",
                     ") {bits=", bits, ", block_size=32, gather_axis=0, quantize_axis=1} }");
        };
        const auto steps =
            CheckGraph(text("i64"), {Tensor::Of<int64_t>({2, 3}, {0, 6, -1, -7, 3, 3})}, 0);
        CheckGraph(text("i32"), {Tensor::Of<int32_t>({2, 3}, {0, 6, -1, -7, 3, 3})}, 0);
        const std::string_view backend = BackendUnderTest().name();
        EXPECT_EQ(steps[0].kernel, backend == "reference" ? "reference"
                                   : backend == "vulkan"  ? "vulkan:gather_blocks"
                                                          : "own:gather-blocks");
      }
}

/// Weights of convolutions in blocks, as a matrix that is reshaped: constants once compiled.
TEST(WeightOnly, ConvolutionsOfBlocks) {
  for (std::string_view type : {"i4", "u4", "i8"}) {
    const auto steps = CheckGraph(
        Cat("graph g(x: f32[1,8,6,5]) -> (y) { q = const ", type, "[12,72] ~1 s = const f32[12,3]",
            " ~2 d = DequantizeLinear(q, s) {axis=1, block_size=32} ",
            "shape = const i64[4] {12, 8, 3, 3} w = Reshape(d, shape) y = Conv(x, w) }"));
    if (BackendUnderTest().name() == "cpu") {
      ASSERT_EQ(steps.size(), 1u) << type;
      EXPECT_EQ(steps[0].op, "Conv");
    }
  }
}

TEST(WeightOnly, DequantizedWeights) {
  struct Form {
    std::string type;
    int64_t block;
    bool zeros;
  };
  for (const Form& f :
       {Form{"i4", 32, false}, Form{"u4", 16, true}, Form{"u4", 32, false}, Form{"i8", 16, false},
        Form{"u8", 64, true}, Form{"i4", 0, false}, Form{"u4", 0, true}, Form{"i8", 0, false}})
    for (int64_t k : {64, 72})
      for (bool rows_first : {false, true}) {
        constexpr int64_t kN = 33;
        const int64_t blocks = f.block > 0 ? (k + f.block - 1) / f.block : 1;
        const std::string dims = rows_first ? Cat(kN, ",", k) : Cat(k, ",", kN),
                          scales = f.block == 0 ? Cat(kN)
                                   : rows_first ? Cat(kN, ",", blocks)
                                                : Cat(blocks, ",", kN);
        const int axis = (f.block == 0) == rows_first ? 0 : 1;
        const std::string weights =
            Cat(" q = const ", f.type, "[", dims, "] ~1 s = const f32[", scales, "] ~2 ",
                f.zeros ? Cat("z = const ", f.type, "[", scales, "] ~3 ") : "",
                "w = DequantizeLinear(q, s", f.zeros ? ", z" : "", ") {axis=", axis,
                f.block > 0 ? Cat(", block_size=", f.block) : "", "} ");
        const std::string begin = Cat("graph g(x: f32[3,", k, "]) -> (y) {", weights);
        SCOPED_TRACE(begin);
        const bool taken = BackendUnderTest().name() == "cpu" && (f.block > 0 || f.type[1] == '4');
        const auto check = [&](const std::string& text, std::string_view kernel) {
          const auto steps = CheckGraph(text);
          const bool found = std::any_of(steps.begin(), steps.end(), [&](const StepInfo& step) {
            return step.kernel.find(kernel) != std::string::npos;
          });
          EXPECT_EQ(found, taken) << text;
        };
        if (!rows_first) {
          check(begin + "y = MatMul(x, w) }", "f32 x int");
          check(begin + Cat("c = const f32[", kN, "] ~4 y = Gemm(x, w, c) }"), "f32 x int");
          check(begin + "c = const f32[3,1] ~4 m = Gemm(x, w, c) y = Relu(m) }", "f32 x int");
        } else {
          check(begin + "t = Transpose(w) y = MatMul(x, t) }", "f32 x int");
          check(begin + "y = Gemm(x, w) {transB=1} }", "f32 x int");
          const std::string tied =  // a table whose transpose is the head
              Cat("graph g(x: f32[3,", k, "], j: i64[2]) -> (y, e) {", weights,
                  "t = Transpose(w) y = MatMul(x, t) k = const i64[] {33} i = Mod(j, k)"
                  " e = Gather(w, i) }");
          check(tied, "f32 x int");
          check(tied, "own:gather-blocks");
        }
      }
}

TEST(WeightOnly, SameBitsForAnyNumberOfThreads) {
  for (int accuracy : {0, 4})
    for (int64_t rows : {1, 40})
      CheckSameBits(Text({.k = 1000, .n = 900, .x = Cat(rows, ",1000"), .accuracy = accuracy}));
}

}  // namespace
}  // namespace infer
