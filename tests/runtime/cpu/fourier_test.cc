/// The error bound that kernels/signal/fourier.h states, for every instruction set of this machine.
#include "runtime/cpu/kernels/signal/fourier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numbers>
#include <utility>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"

namespace infer {
namespace {

using Line = std::vector<std::complex<double>>;

Line RandomLine(int64_t n, Random& random) {
  Line line;
  for (int64_t i = 0; i < n; ++i) line.emplace_back(random.Uniform(-1, 1), random.Uniform(-1, 1));
  return line;
}

Line RootsOfOne(size_t n) {
  Line roots;
  for (size_t i = 0; i < n; ++i)
    roots.push_back(
        std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n)));
  return roots;
}

/// The number at frequency k by the definition.
std::complex<double> TransformedAt(const Line& x, const Line& roots, size_t k) {
  std::complex<double> sum;
  for (size_t i = 0, at = 0; i < x.size(); ++i) {
    sum += roots[at] * x[i];
    at += k;  // i * k mod x.size()
    if (at >= x.size()) at -= x.size();
  }
  return sum;
}

Line Transformed(const Line& x) {
  const Line roots = RootsOfOne(x.size());
  Line y;
  for (size_t k = 0; k < x.size(); ++k) y.push_back(TransformedAt(x, roots, k));
  return y;
}

void ExpectNear(const Line& got, const Line& want, const std::string& what) {
  double worst = 0, largest = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    worst = std::max(worst, std::abs(got[k] - want[k]));
    largest = std::max(largest, std::abs(want[k]));
  }
  EXPECT_LE(worst, 1e-14 * largest) << what;
}

constexpr int64_t kLengths[] = {1,   2,   3,   4,   5,    6,    7,    8,   9,   11,  12,
                                13,  15,  16,  17,  20,   25,   31,   49,  64,  77,  91,
                                96,  97,  120, 128, 143,  169,  210,  256, 360, 400, 441,
                                509, 512, 625, 729, 1000, 1024, 2048, 4093};

/// A random line and its transform by the definition: n^2 steps, taken once for all instruction
/// sets.
struct KnownLine {
  Line line, transform;
};
const KnownLine& Known(uint64_t seed, int64_t n) {
  static std::map<std::pair<uint64_t, int64_t>, KnownLine> all;
  KnownLine& known = all[{seed, n}];
  if (known.line.empty()) {
    Random random(seed * 10'000 + static_cast<uint64_t>(n));
    known.line = RandomLine(n, random);
    known.transform = Transformed(known.line);
  }
  return known;
}

class FourierOf : public testing::TestWithParam<const simd::Fourier*> {};

TEST_P(FourierOf, LinesSideBySide) {
  const simd::Fourier& loops = *GetParam();
  for (const int64_t n : kLengths) {
    const LineFourier fourier(n, loops);
    const auto numbers = static_cast<size_t>(fourier.rows() * 2 * loops.lanes);
    std::vector<double> x(numbers, NAN), work(numbers, NAN);
    // The first lane and the last; the others hold no numbers.
    const KnownLine* const known[] = {&Known(3, n), &Known(4, n)};
    for (int which = 0; which < 2; ++which)
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = i * 2 * loops.lanes + which * (loops.lanes - 1);
        x[static_cast<size_t>(at)] = known[which]->line[static_cast<size_t>(i)].real();
        x[static_cast<size_t>(at + loops.lanes)] =
            known[which]->line[static_cast<size_t>(i)].imag();
      }
    const double* const y = fourier.Run(x.data(), work.data());
    for (int which = 0; which < 2; ++which) {
      Line got;
      for (int64_t k = 0; k < n; ++k) {
        const double* const at = y + k * 2 * loops.lanes + which * (loops.lanes - 1);
        got.emplace_back(at[0], at[loops.lanes]);
      }
      ExpectNear(got, known[which]->transform, std::string(loops.isa) + " " + std::to_string(n));
    }
  }
}

TEST_P(FourierOf, OneLine) {
  const simd::Fourier& loops = *GetParam();
  for (const int64_t n : kLengths) {
    const SingleFourier fourier(n, loops);
    const auto numbers = static_cast<size_t>(fourier.rows() * 2 * loops.lanes);
    std::vector<double> x(numbers), work(numbers);
    const auto& [line, transform] = Known(3, n);
    for (int64_t i = 0; i < n; ++i) {
      double* const at = x.data() + i / fourier.columns() * 2 * loops.lanes + i % fourier.columns();
      at[0] = line[static_cast<size_t>(i)].real();
      at[loops.lanes] = line[static_cast<size_t>(i)].imag();
    }
    Line got(static_cast<size_t>(n));
    std::vector<int> stored(static_cast<size_t>(n));
    fourier.Run(x.data(), work.data(),
                [&](int64_t k, const double* re, const double* im, int64_t count) {
                  for (int64_t i = 0; i < count; ++i) {
                    got[static_cast<size_t>(k + i)] = {re[i], im[i]};
                    ++stored[static_cast<size_t>(k + i)];
                  }
                });
    for (const int times : stored) EXPECT_EQ(times, 1) << n;
    ExpectNear(got, transform, std::string(loops.isa) + " one of " + std::to_string(n));
  }
}

/// The frequencies of a frame that are compared: all of up to 128, else so many from the first to
/// the last (LinesSideBySide has all of long lines, too).
std::vector<size_t> SpreadFrequencies(size_t shown) {
  constexpr size_t kMost = 128;
  std::vector<size_t> all;
  const size_t count = std::min(shown, kMost);
  for (size_t i = 0; i < count; ++i) all.push_back(count == 1 ? 0 : i * (shown - 1) / (count - 1));
  return all;
}

/// Frames of real numbers by a transform of half their length, each lane its own.
TEST_P(FourierOf, FramesOfRealNumbers) {
  const simd::Fourier& loops = *GetParam();
  Random random(5);
  for (const int64_t half : kLengths) {
    const int64_t n = 2 * half;
    std::vector<float> numbers(static_cast<size_t>(n + loops.lanes));
    for (float& v : numbers) v = static_cast<float>(random.Uniform(-1, 1));
    std::vector<double> window, factors;
    for (int64_t i = 0; i < n; ++i) window.push_back(random.Uniform(0, 1));
    for (int64_t k = 0; k < half; ++k) {
      const std::complex<double> factor =
          std::complex<double>(0, -0.5) *
          std::polar(1.0, -std::numbers::pi * static_cast<double>(k) / static_cast<double>(half));
      factors.push_back(factor.real());
      factors.push_back(factor.imag());
    }
    const auto shown = static_cast<size_t>(half + 1);
    std::vector<std::vector<float>> results(static_cast<size_t>(loops.lanes),
                                            std::vector<float>(2 * shown, NAN));
    std::vector<const float*> from;
    std::vector<float*> to;
    for (size_t l = 0; l < results.size(); ++l) {
      from.push_back(numbers.data() + l);
      to.push_back(results[l].data());
    }
    const LineFourier fourier(half, loops);
    std::vector<double> x(static_cast<size_t>(fourier.rows() * 2 * loops.lanes)), work(x.size());
    loops.read_frames(from.data(), window.data(), half, x.data());
    const double* const z = fourier.Run(x.data(), work.data());
    loops.write_halves(z, factors.data(), half, to.data());
    const Line roots = RootsOfOne(static_cast<size_t>(n));
    const std::vector<size_t> frequencies = SpreadFrequencies(shown);
    for (size_t l = 0; l < results.size(); ++l) {
      Line frame;
      for (size_t i = 0; i < window.size(); ++i)
        frame.emplace_back(static_cast<double>(from[l][i]) * window[i]);
      Line want;
      double largest = 0;
      for (const size_t k : frequencies) {
        want.push_back(TransformedAt(frame, roots, k));
        largest = std::max(largest, std::abs(want.back()));
      }
      for (size_t f = 0; f < frequencies.size(); ++f) {
        const size_t k = frequencies[f];
        ASSERT_NEAR(results[l][2 * k], want[f].real(), 1e-7 * largest) << n << " " << k;
        ASSERT_NEAR(results[l][2 * k + 1], want[f].imag(), 1e-7 * largest) << n << " " << k;
      }
      for (const float v : results[l]) ASSERT_FALSE(std::isnan(v)) << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, FourierOf, testing::ValuesIn(AllTables<simd::Fourier>()),
                         [](const auto& info) { return std::string(info.param->isa); });

}  // namespace
}  // namespace infer
