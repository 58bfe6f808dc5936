/// MatMulNBits: widths, blocks, zero points and what may follow, against the operator's reference.
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
  for (int64_t bits : {4, 8})
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

TEST(WeightOnly, SameBitsForAnyNumberOfThreads) {
  for (int accuracy : {0, 4})
    for (int64_t rows : {1, 40})
      CheckSameBits(Text({.k = 1000, .n = 900, .x = Cat(rows, ",1000"), .accuracy = accuracy}));
}

}  // namespace
}  // namespace infer
