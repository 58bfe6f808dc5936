/// The loops of simd/folds.h on every instruction set that this machine runs, against plain ones,
/// bit for bit.
#include "runtime/cpu/simd/folds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"

namespace infer {
namespace {

using simd::Element;
using simd::Fold;
using simd::Folds;

class FoldsOf : public testing::TestWithParam<const Folds*> {};
INSTANTIATE_TEST_SUITE_P(, FoldsOf, testing::ValuesIn(AllTables<Folds>()),
                         testing::PrintToStringParamName());

template <typename T>
std::vector<T> Some(int64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<T> v;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t number = int64_t{random.Below(1 << 20)} - (1 << 19);
    if constexpr (std::is_floating_point_v<T>)
      v.push_back(static_cast<T>(number) / 1000);
    else
      v.push_back(static_cast<T>(number));
  }
  return v;
}

template <typename T, typename A>
void CheckRunning(const Folds& folds, Element element) {
  for (const bool product : {false, true})
    for (const bool beside : {true, false})
      for (const bool exclusive : {false, true})
        for (const int64_t lines : {1, 7, 8, 9, 63, 64, 65, 257, 321})
          for (const int64_t n : {1, 2, 9}) {
            const auto x = Some<T>(lines * n, 3);
            std::vector<T> y(x.size()), want(x.size());
            const int64_t apart = beside ? 1 : n, step = beside ? lines : 1;
            for (int64_t k = 0; k < lines; ++k) {
              A sum = product ? 1 : 0;
              for (int64_t i = n - 1; i >= 0; --i) {
                const auto at = static_cast<size_t>(i * step + k * apart);
                const A next = product ? sum * static_cast<A>(x[at]) : sum + static_cast<A>(x[at]);
                want[at] = static_cast<T>(exclusive ? sum : next);
                sum = next;
              }
            }
            const auto last = static_cast<size_t>((n - 1) * step);
            folds.running[product ? 1 : 0][static_cast<int>(element)](
                x.data() + last, y.data() + last, {n, -step, lines, apart, exclusive});
            EXPECT_EQ(std::memcmp(y.data(), want.data(), y.size() * sizeof(T)), 0)
                << lines << " lines of " << n;
          }
}

TEST_P(FoldsOf, RunningSums) {
  CheckRunning<float, double>(*GetParam(), Element::kF32);
  CheckRunning<double, double>(*GetParam(), Element::kF64);
  CheckRunning<int32_t, uint32_t>(*GetParam(), Element::kI32);
  CheckRunning<int64_t, uint64_t>(*GetParam(), Element::kI64);
}

template <typename T>
void CheckIntegers(const Folds& folds, Element element) {
  for (const int64_t n : {1, 2, 31, 64, 65, 131})
    for (const Fold fold : {Fold::kSum, Fold::kProduct, Fold::kMax, Fold::kMin}) {
      const auto x = Some<T>(n, 5);
      const auto meet = [fold](int64_t a, int64_t b) {
        const auto u = static_cast<uint64_t>(a), v = static_cast<uint64_t>(b);
        return fold == Fold::kSum       ? static_cast<int64_t>(u + v)
               : fold == Fold::kProduct ? static_cast<int64_t>(u * v)
               : fold == Fold::kMax     ? std::max(a, b)
                                        : std::min(a, b);
      };
      int64_t want = FoldStart(fold);
      std::vector<int64_t> sums = Some<int64_t>(n, 6), wanted = sums;
      for (size_t i = 0; i < x.size(); ++i) {
        want = meet(want, static_cast<int64_t>(x[i]));
        wanted[i] = meet(wanted[i], static_cast<int64_t>(x[i]));
      }
      const auto f = static_cast<int>(fold), e = static_cast<int>(element);
      EXPECT_EQ(folds.row[f][e](x.data(), n, FoldStart(fold)), want) << n;
      folds.columns[f][e](x.data(), sums.data(), n);
      EXPECT_EQ(sums, wanted) << n;
    }
}

TEST_P(FoldsOf, Integers) {
  CheckIntegers<int8_t>(*GetParam(), Element::kI8);
  CheckIntegers<uint8_t>(*GetParam(), Element::kU8);
  CheckIntegers<int32_t>(*GetParam(), Element::kI32);
  CheckIntegers<uint32_t>(*GetParam(), Element::kU32);
  CheckIntegers<int64_t>(*GetParam(), Element::kI64);
}

TEST_P(FoldsOf, PlacesOfLargerNumbers) {
  for (const int64_t step : {1, 2, 3})
    for (const int64_t n : {1, 15, 16, 17, 70}) {
      std::vector<float> x = Some<float>(n * step, 8), best = Some<float>(n, 9);
      std::vector<int32_t> at(static_cast<size_t>(n));
      for (size_t i = 0; i < at.size(); ++i) at[i] = i % 3 == 0 ? -1 : 5;
      x[0] = best[static_cast<size_t>(n) / 2] = NAN;
      std::vector<float> want = best;
      std::vector<int32_t> places = at;
      for (size_t o = 0; o < at.size(); ++o)
        if (const float v = x[o * static_cast<size_t>(step)]; at[o] < 0 || v > best[o]) {
          want[o] = v;
          places[o] = 100 + static_cast<int32_t>(o) * 7;
        }
      GetParam()->larger(x.data(), step, 100, 7, best.data(), at.data(), n);
      EXPECT_EQ(std::memcmp(best.data(), want.data(), want.size() * 4), 0);
      EXPECT_EQ(at, places);
    }
}

template <typename T, typename I>
void CheckPick(const Folds& folds, int width) {
  for (const auto& [n, step, stride] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 0, 1}, {70, 0, 1}, {33, 1, 40}, {20, 3, 70}}) {
    const int64_t extent = 9;
    const auto x = Some<T>((n - 1) * step + (extent - 1) * stride + 1, 4);
    std::vector<I> indices;
    for (int64_t i = 0; i < n; ++i)
      indices.push_back(static_cast<I>(i * 5 % (2 * extent) - extent));
    std::vector<T> y(static_cast<size_t>(n)), want;
    for (int64_t i = 0; i < n; ++i) {
      const auto k = static_cast<int64_t>(indices[static_cast<size_t>(i)]);
      want.push_back(x[static_cast<size_t>(i * step + (k < 0 ? k + extent : k) * stride)]);
    }
    const auto pick = folds.pick[width][sizeof(I) == 8 ? 1 : 0];
    EXPECT_TRUE(pick(x.data(), indices.data(), y.data(), {n, step, extent, stride}));
    EXPECT_EQ(y, want);
    for (const int64_t bad : {extent, -extent - 1, int64_t{std::numeric_limits<I>::max()},
                              int64_t{std::numeric_limits<I>::min()}}) {
      indices.back() = static_cast<I>(bad);
      EXPECT_FALSE(pick(x.data(), indices.data(), y.data(), {n, step, extent, stride})) << bad;
    }
  }
}

TEST_P(FoldsOf, ElementsByIndices) {
  CheckPick<uint8_t, int32_t>(*GetParam(), 0);
  CheckPick<uint16_t, int64_t>(*GetParam(), 1);
  CheckPick<uint32_t, int32_t>(*GetParam(), 2);
  CheckPick<uint32_t, int64_t>(*GetParam(), 2);
  CheckPick<uint64_t, int64_t>(*GetParam(), 3);
}

TEST_P(FoldsOf, Gathers) {
  for (const int64_t n : {1, 7, 16, 33}) {
    const auto bytes = Some<uint8_t>(200, 4);
    const auto words = Some<uint32_t>(200, 4);
    std::vector<int32_t> at;
    for (int64_t i = 0; i < n; ++i) at.push_back(static_cast<int32_t>(i * 37 % 200));
    std::vector<uint8_t> narrow(static_cast<size_t>(n));
    std::vector<uint32_t> wide(static_cast<size_t>(n));
    GetParam()->gather[0](bytes.data(), at.data(), narrow.data(), n);
    GetParam()->gather[2](words.data(), at.data(), wide.data(), n);
    for (size_t i = 0; i < at.size(); ++i) {
      EXPECT_EQ(narrow[i], bytes[static_cast<size_t>(at[i])]);
      EXPECT_EQ(wide[i], words[static_cast<size_t>(at[i])]);
    }
  }
}

TEST_P(FoldsOf, RangesAndWeightedPixels) {
  for (const int64_t n : {1, 63, 64, 65, 200}) {
    auto x = Some<float>(n, 2);
    x[static_cast<size_t>(n) / 2] = NAN;
    float low = 0, high = 0, least = 0, most = 0;
    for (const float v : x) least = v < least ? v : least, most = v > most ? v : most;
    GetParam()->range(x.data(), n, &low, &high);
    EXPECT_EQ(low, least);
    EXPECT_EQ(high, most);
  }
  for (const int64_t channels : {1, 15, 64, 70, 130}) {
    const auto x = Some<float>(channels * 6, 2);
    const std::vector<int64_t> at = {0, 5 * channels, channels};
    const std::vector<float> weight = {0.25f, -1.5f, 0.5f};
    std::vector<float> sums(static_cast<size_t>(channels), 1.0f), largest = sums;
    GetParam()->add_taps(x.data(), at.data(), weight.data(), 3, channels, sums.data());
    GetParam()->largest_tap(x.data(), at.data(), weight.data(), 3, channels, largest.data());
    for (size_t c = 0; c < sums.size(); ++c) {
      float sum = 1, best = 1, scale = 1;
      for (size_t t = 0; t < 3; ++t) {
        const float v = weight[t] * x[static_cast<size_t>(at[t]) + c];
        sum += v;
        best = std::max(best, v);
        scale += std::abs(v);
      }
      EXPECT_NEAR(sums[c], sum, 1e-6 * scale);
      EXPECT_EQ(largest[c], best);
    }
  }
}

}  // namespace
}  // namespace infer
