/// DFT and STFT on kernels of their own: lengths of every radix, primes, powers of two, lines alone
/// and side by side, one-sided, inverse, padded and cut; frames that overlap or lie apart.
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

struct StftForm {
  Dims x;
  int64_t n = 8, step = 3;
  bool window = true, length = false, one_sided = true;
};

std::string StftOf(const StftForm& f) {
  return Cat("graph g(x: f32", ToString(f.x), f.window ? Cat(", w: f32[", f.n, "]") : "",
             ") -> (y) { s = const i64[] {", f.step, "} n = const i32[] {", f.n,
             "} m = const i32[] {", f.step, "} y = STFT(x, ", f.length ? "m" : "s", ", ",
             f.window ? "w" : "_", f.length ? ", n" : "", ") {onesided=", f.one_sided ? 1 : 0,
             "} }");
}

TEST(Signal, StftOfEveryLength) {
  for (int64_t n = 1; n <= 40; ++n)
    for (int64_t frames : {1, 4, 11})
      ExpectFast(CheckGraph(StftOf({.x = {1, n + 3 * (frames - 1) + 1}, .n = n}),
                            static_cast<uint64_t>(n)));
  for (int64_t n : {64, 101, 169, 202, 320, 400, 441, 480, 512, 514, 1000, 1009, 2048})
    ExpectFast(
        CheckGraph(StftOf({.x = {2, n + 700, 1}, .n = n, .step = 160}), static_cast<uint64_t>(n)));
}

TEST(Signal, StftForms) {
  for (int64_t n : {1, 2, 7, 10, 16, 62})
    for (int64_t step : {int64_t{1}, n, 2 * n + 1})
      for (int64_t parts : {0, 1, 2})
        for (bool one_sided : {false, true}) {
          if (parts == 2 && one_sided) continue;
          Dims x = {3, 5 * n + 4};
          if (parts > 0) x.push_back(parts);
          // The length of a frame is the window's, given, or both.
          for (const auto& [window, length] :
               {std::pair(true, false), std::pair(false, true), std::pair(true, true)})
            ExpectFast(CheckGraph(StftOf({x, n, step, window, length, one_sided}),
                                  static_cast<uint64_t>(n)));
        }
}

/// One frame: the signal.
TEST(Signal, StftOfTheWholeSignal) {
  for (int64_t n : {1, 2, 9, 30})
    ExpectFast(CheckGraph(
        Cat("graph g(x: f32[2,", n, "]) -> (y) { s = const i64[] {1} ", "y = STFT(x, s) }")));
}

TEST(Signal, StftWithoutFrames) {
  CheckGraph(StftOf({.x = {2, 7}, .n = 8}));
  CheckGraph(StftOf({.x = {0, 20}, .n = 8}));
}

/// Lengths of frames that the run brings: both that have the extent of a one-sided spectrum, and
/// those that it has not.
TEST(Signal, StftOfNumbersThatComeWithTheRun) {
  for (std::string_view type : {"i64", "i32"})
    for (std::string_view attrs : {"", "onesided=0"})
      for (int64_t n : {8, 9, 1}) {
        const auto number = [&](int64_t v) {
          return type == "i64" ? Tensor::Scalar<int64_t>(v)
                               : Tensor::Scalar<int32_t>(static_cast<int32_t>(v));
        };
        Random random(5);
        const Tensor x = RandomInput(DType::kF32, {2, 40}, random);
        CheckGraph(Cat("graph g(x: f32[2,40], s: ", type, "[], n: ", type, "[]) -> (y) {",
                       " y = STFT(x, s, _, n) {", attrs, "} }"),
                   {x, number(3), number(n)});
      }
}

/// Eight and nine numbers have spectra of one extent; a window of eight has no ninth.
TEST(Signal, FramesLongerThanTheirWindowAreRefused) {
  auto g = ParseGraph(
      "graph g(x: f32[2,40], w: f32[8], n: i64[]) -> (y) { s = const i64[] {3} y = STFT(x, s, w, "
      "n) }",
      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  Random random(5);
  const std::vector<Datum> inputs = {RandomInput(DType::kF32, {2, 40}, random),
                                     RandomInput(DType::kF32, {8}, random),
                                     Tensor::Scalar<int64_t>(9)};
  EXPECT_EQ(Evaluate(*g, inputs).status().code(), Code::kInvalidModel);
  const auto program = BackendUnderTest().Compile(*g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(RunOnce(**program, inputs).status().code(), Code::kInvalidModel);
}

/// A frame with a number that is none, or much louder, leaves the others' bits alone.
TEST(Signal, FramesDoNotTouchEachOther) {
  auto g = ParseGraph(StftOf({.x = {1, 96, 1}, .n = 16, .step = 16}), SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const std::vector<Datum> inputs = RandomInputs(*g, 3);
  const auto run = [&](double sample) {
    Tensor x = inputs[0].tensor().Clone();
    x.Set(35, sample);  // of frame 2
    auto program = BackendUnderTest().Compile(*g, {});
    EXPECT_TRUE(program.ok()) << program.status().message();
    return (*RunOnce(**program, std::vector<Datum>{x, inputs[1]}))[0].tensor();
  };
  const Tensor quiet = run(0.5);
  constexpr int64_t kEach = 9 * 2;
  for (const double sample : {double{NAN}, double{INFINITY}, 1e30}) {
    const Tensor y = run(sample);
    ASSERT_EQ(y.num_elements(), 6 * kEach);
    for (int64_t i = 0; i < y.num_elements(); ++i) {
      if (i / kEach != 2) {
        EXPECT_EQ(y.At(i), quiet.At(i)) << i;
      } else if (sample != 1e30 && i % 2 == 0) {
        EXPECT_FALSE(std::isfinite(y.At(i)) && std::isfinite(y.At(i + 1))) << i;
      }
    }
  }
}

TEST(Signal, StftSameBitsForAnyNumberOfThreads) {
  for (const StftForm& f : {StftForm{.x = {2, 900}, .n = 64, .step = 7},
                            StftForm{.x = {1, 400, 2}, .n = 31, .one_sided = false},
                            StftForm{.x = {3, 300}, .n = 21, .step = 9}})
    CheckSameBits(StftOf(f));
}

}  // namespace
}  // namespace infer
