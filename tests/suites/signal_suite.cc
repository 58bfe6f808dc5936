/// DFT on a kernel of its own: lengths of every radix, primes, powers of two, lines alone and side
/// by side, one-sided, inverse, padded and cut.
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Of `x` along `axis`; `length` 0: that of the operand.
std::string DftOf(const Dims& x, int64_t axis, int64_t length, std::string_view attrs) {
  return Cat("graph g(x: f32", ToString(x), ") -> (y) { a = const i64[] {", axis,
             "} n = const i64[] {", length, "} y = DFT(x, ", length > 0 ? "n" : "_", ", a) {",
             attrs, "} }");
}

TEST(Signal, DftOfEveryLength) {
  for (int64_t n = 1; n <= 40; ++n)
    for (int64_t lines : {1, 3, 17})
      ExpectFast(CheckGraph(DftOf({lines, n, 2}, 1, 0, ""), static_cast<uint64_t>(n)));
  for (int64_t n :
       {64, 100, 101, 128, 143, 169, 243, 256, 400, 441, 480, 512, 625, 1000, 1009, 1024, 4096})
    for (int64_t lines : {1, 2, 16})
      ExpectFast(CheckGraph(DftOf({lines, n, 2}, 1, 0, ""), static_cast<uint64_t>(n)));
}

TEST(Signal, DftForms) {
  for (int64_t n : {1, 2, 5, 8, 9, 16, 31, 60})
    for (int64_t parts : {1, 2})
      for (std::string_view attrs : {"", "onesided=1", "inverse=1"})
        for (int64_t length : {int64_t{0}, int64_t{4}, n + 3})
          for (int64_t axis : {1, -2}) {
            // Along the second of three axes, then along the one before the parts.
            const Dims x = axis == 1 ? Dims{2, n, 5, parts} : Dims{3, 2, n, parts};
            ExpectFast(CheckGraph(DftOf(x, axis, length, attrs), static_cast<uint64_t>(n)));
          }
}

/// The rest of the spectrum follows from its first half; a length says which of two it is of.
TEST(Signal, DftOfHalfASpectrum) {
  for (int64_t half : {2, 3, 6, 9, 33})
    for (int64_t length : {int64_t{0}, 2 * half - 1, half, 3 * half})
      for (int64_t lines : {1, 20})
        ExpectFast(CheckGraph(DftOf({lines, half, 2}, 1, length, "onesided=1, inverse=1"),
                              static_cast<uint64_t>(half)));
}

TEST(Signal, SameBitsForAnyNumberOfThreads) {
  for (const Dims& x : {Dims{70, 48, 2}, Dims{5, 512, 1}, Dims{3, 67, 2}, Dims{2, 24, 9, 2}})
    CheckSameBits(DftOf(x, 1, 0, ""));
}

}  // namespace
}  // namespace infer
