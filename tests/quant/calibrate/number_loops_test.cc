#include "quant/calibrate/number_loops.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/support/isa_tables.h"
#include "lib/support/parallel.h"
#include "lib/support/random.h"
#include "quant/calibrate/histogram.h"
#include "quant/calibrate/observer.h"

namespace infer {
namespace {

std::vector<float> Numbers(size_t n, uint64_t seed, float least) {
  Random r(seed);
  std::vector<float> v(n);
  for (float& x : v) x = std::max(static_cast<float>(3 * r.Normal()), least);
  return v;
}

TEST(NumberLoops, AllGiveTheSame) {
  ASSERT_EQ(AllTables<NumberLoops>().front()->isa, "generic");
  for (const NumberLoops* loops : AllTables<NumberLoops>())
    for (const size_t n : {size_t{1}, size_t{15}, size_t{31}, size_t{32}, size_t{33}, size_t{1023},
                           size_t{1025}, size_t{5000}})
      for (const float least : {-100.0f, 0.0f, 0.7f}) {  // of all signs, behind a ReLU, no zero
        const std::vector<float> v = Numbers(n, n, least);
        float lo = 0, hi = 0;
        ASSERT_TRUE(loops->bounds(v.data(), n, lo, hi));
        EXPECT_EQ(lo, *std::min_element(v.begin(), v.end()));
        EXPECT_EQ(hi, *std::max_element(v.begin(), v.end()));
        const BinWindow window{128, static_cast<int32_t>(std::floor(lo * 128))};
        std::vector<uint32_t> tables(size_t{2} * Histogram::kBins, 0),
            expected(Histogram::kBins, 0);
        loops->count(v.data(), n, window, tables.data());
        for (const float x : v)
          ++expected[static_cast<size_t>(static_cast<int32_t>(std::floor(x * 128)) - window.first)];
        for (size_t k = 0; k < expected.size(); ++k)
          ASSERT_EQ(tables[k] + tables[Histogram::kBins + k], expected[k])
              << loops->isa << " " << n << " " << k;
      }
}

TEST(NumberLoops, WhatIsNotFiniteIsFoundAnywhere) {
  for (const NumberLoops* loops : AllTables<NumberLoops>())
    for (const float odd :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()})
      for (const size_t n : {size_t{1}, size_t{40}, size_t{100}})
        for (size_t at = 0; at < n; ++at) {
          std::vector<float> v = Numbers(n, 3, -5);
          v[at] = odd;
          float lo = 0, hi = 0;
          EXPECT_FALSE(loops->bounds(v.data(), n, lo, hi)) << loops->isa << " " << n << " " << at;
        }
}

std::string StateOf(const Observer& o) {
  std::string state;
  o.Save(state);
  return state;
}

/// A value in blocks of channels is seen as the same value in plain layout is, and as by any number
/// of threads.
TEST(NumberLoops, ObserversSeeTheSameInEveryLayout) {
  for (const char* name : {"minmax", "mse", "moving-average"})
    for (const int64_t channels : {5, 16, 36})
      for (const int64_t block : {int64_t{8}, int64_t{16}, channels})
        for (const int lanes : {1, 2}) {
          const int64_t samples = 2, spatial = 4000, blocks = (channels + block - 1) / block;
          const std::vector<float> plain =
              Numbers(static_cast<size_t>(samples * channels * spatial),
                      static_cast<uint64_t>(channels), 0);
          // What pads the last block must not be seen: it would widen every range.
          std::vector<float> blocked(static_cast<size_t>(samples * blocks * block * spatial), -99);
          for (int64_t n = 0; n < samples; ++n)
            for (int64_t c = 0; c < channels; ++c)
              for (int64_t s = 0; s < spatial; ++s)
                blocked[static_cast<size_t>(((n * blocks + c / block) * spatial + s) * block +
                                            c % block)] =
                    plain[static_cast<size_t>((n * channels + c) * spatial + s)];
          const auto a = (*ParseObserver(name))(), b = (*ParseObserver(name))();
          for (int run = 0; run < 2; ++run) {
            a->See(plain);
            const LaneLease lease(lanes);
            b->See(RawValue{0, DType::kF32, Dims{samples, channels, spatial},
                            reinterpret_cast<const std::byte*>(blocked.data()), block});
          }
          EXPECT_EQ(StateOf(*a), StateOf(*b)) << name << " " << channels << " " << block;
        }
}

}  // namespace
}  // namespace infer
