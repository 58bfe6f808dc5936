/// Exact products of 8-bit numbers: every instruction set of this machine gives the sums of plain
/// loops, and the same bits behind them.
#include "runtime/cpu/simd/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"

namespace infer::simd {
namespace {

constexpr int64_t kColumns = 19, kRows = 12, kTaps = 3, kRun = 7, kRowStride = 40, kTapStride = 9;
constexpr int64_t kWidest = 64;

/// Operands at both ends of their range, the same for every instruction set.
struct Problem {
  std::vector<int16_t> a;
  std::vector<int8_t> w;  // [column][tap][k]
  std::vector<float> bias, scale;
  std::vector<uint8_t> other;
  std::vector<int32_t> rows, taps;

  explicit Problem(uint64_t seed) {
    Random random(seed);
    const auto extreme = [&](int lo, int hi) {
      const uint64_t pick = random.Below(4);
      return pick == 0 ? lo : pick == 1 ? hi : lo + static_cast<int>(random.Below(hi - lo + 1));
    };
    for (int64_t i = 0; i < kRows * kRowStride + kTaps * kTapStride + kWidest; ++i)
      a.push_back(static_cast<int16_t>(extreme(-255, 255)));
    for (int64_t i = 0; i < kColumns * kTaps * kRun; ++i)
      w.push_back(static_cast<int8_t>(extreme(-128, 127)));
    for (int64_t i = 0; i < 2 * kWidest; ++i) {
      bias.push_back(static_cast<float>(random.Uniform() * 1e5 - 5e4));
      scale.push_back(static_cast<float>(random.Uniform() * 2e-3 + 1e-5));
    }
    for (int64_t i = 0; i < kRows * kColumns; ++i)
      other.push_back(static_cast<uint8_t>(random.Below(256)));
    for (int64_t r = 0; r < kRows; ++r) rows.push_back(static_cast<int32_t>(r * kRowStride));
    for (int64_t t = 0; t < kTaps; ++t) taps.push_back(static_cast<int32_t>(t * kTapStride));
  }

  int8_t weight(int64_t column, int64_t tap, int64_t k) const {
    return column < kColumns && k < kRun ? w[static_cast<size_t>((column * kTaps + tap) * kRun + k)]
                                         : int8_t{0};
  }

  /// Bytes of y [kRows][kColumns], computed in calls of `max_rows` rows at most.
  std::vector<uint8_t> Run(const Pairs& p, AfterSum after, int max_rows, bool channels) const {
    const int64_t size = after.type == AfterSum::Type::kF32 ? 4 : 1;
    std::vector<uint8_t> y(static_cast<size_t>(kRows * kColumns * size) + 64, 0xa5);
    after.bias = bias.data();
    after.scale = scale.data();
    const int64_t width = (channels ? 1 : 2) * p.lanes;
    for (int64_t first = 0; first < kColumns; first += width) {
      std::vector<int8_t> b;
      std::vector<int16_t> b16;
      for (int64_t t = 0; t < kTaps; ++t) {
        if (channels)
          for (int64_t j = 0; j < width; ++j)
            b16.insert(b16.end(), {weight(first + j, t, 0), int16_t{0}});
        else
          for (int64_t k = 0; k < kRun; k += 2)
            for (int64_t j = 0; j < width; ++j)
              b.insert(b.end(), {weight(first + j, t, k), weight(first + j, t, k + 1)});
      }
      const auto fill = [&](auto c, int64_t row) {
        c.a = a.data() + (channels ? first : 0);
        c.rows = rows.data() + row;
        c.taps = taps.data();
        c.tap_count = kTaps;
        c.after = &after;
        c.column = first;
        c.columns = std::min(width, kColumns - first);
        c.stride = kColumns;
        c.other = other.data() + row * kColumns + first;
        c.y = y.data() + (row * kColumns + first) * size;
        return c;
      };
      for (int64_t row = 0; row < kRows; row += max_rows) {
        const int n = static_cast<int>(std::min<int64_t>(max_rows, kRows - row));
        if (channels) {
          ChannelsCall c = fill(ChannelsCall(), row);
          c.b = b16.data();
          p.multiply_channels(n, c);
        } else {
          PairsCall c = fill(PairsCall(), row);
          c.pairs = (kRun + 1) / 2;
          c.b = b.data();
          p.multiply(n, c);
        }
      }
    }
    for (size_t i = y.size() - 64; i < y.size(); ++i) EXPECT_EQ(y[i], 0xa5) << p.isa;
    return y;
  }

  float Sum(int64_t r, int64_t j, bool channels) const {
    int64_t sum = 0;
    for (int64_t t = 0; t < kTaps; ++t)
      for (int64_t k = 0; k < (channels ? 1 : kRun); ++k)
        sum += int64_t{a[static_cast<size_t>(rows[static_cast<size_t>(r)] +
                                             taps[static_cast<size_t>(t)] + (channels ? j : k))]} *
               weight(j, t, k);
    return static_cast<float>(sum);
  }
};

using StepKind = AfterSum::Step::Kind;

TEST(Pairs, SumsAreExact) {
  for (const bool channels : {false, true}) {
    const Problem problem(3);
    for (const Pairs* p : AllTables<Pairs>())
      for (int rows = 1; rows <= p->max_rows; ++rows) {
        const auto y = problem.Run(*p, AfterSum(), rows, channels);
        for (int64_t r = 0; r < kRows; ++r)
          for (int64_t j = 0; j < kColumns; ++j) {
            float got;
            std::memcpy(&got, y.data() + (r * kColumns + j) * 4, 4);
            const auto c = static_cast<size_t>(j);
            EXPECT_EQ(got, (problem.Sum(r, j, channels) + problem.bias[c]) * problem.scale[c])
                << p->isa << " " << r << " " << j;
          }
      }
  }
}

/// The steps, the addition and the rounding, against scalar arithmetic.
TEST(Pairs, WhatFollowsTheSum) {
  const Problem problem(5);
  for (const bool is_signed : {false, true})
    for (const bool adds : {false, true}) {
      AfterSum after;
      after.steps[0] = {StepKind::kLeaky, 0.125f, 0};
      after.steps[1] = {StepKind::kClip, -90.0f, 100.0f};
      after.steps[2] = {StepKind::kScale, 1.7f, 0};
      after.step_count = 3;
      after.adds = adds;
      after.relu = is_signed;
      after.between_lo = -120;
      after.between_hi = 135;
      after.between_scale = 0.031f;
      after.other_scale = 0.017f;
      after.other_signed = is_signed;
      after.other_zero = 3;
      after.y_scale = 0.043f;
      after.type = is_signed ? AfterSum::Type::kI8 : AfterSum::Type::kU8;
      after.zero = 11;
      after.lo = (is_signed ? -128.0f : 0.0f) - 11;
      after.hi = after.lo + 255;
      for (const Pairs* p : AllTables<Pairs>()) {
        const auto y = problem.Run(*p, after, p->max_rows, false);
        for (int64_t i = 0; i < kRows * kColumns; ++i) {
          const auto c = static_cast<size_t>(i % kColumns), at = static_cast<size_t>(i);
          float v =
              (problem.Sum(i / kColumns, i % kColumns, false) + problem.bias[c]) * problem.scale[c];
          v = v > 0 ? v : v * 0.125f;
          v = std::clamp(v, -90.0f, 100.0f);
          v = v * 1.7f;
          if (adds) {
            const int w = is_signed ? static_cast<int8_t>(problem.other[at]) : problem.other[at];
            // Kept from being contracted.
            volatile float left = std::nearbyint(std::clamp(v, -120.0f, 135.0f)) * 0.031f;
            volatile float right = static_cast<float>(w - 3) * 0.017f;
            v = (left + right) / 0.043f;
            if (after.relu) v = std::max(v, 0.0f);
          }
          const int want = static_cast<int>(std::nearbyint(std::clamp(v, after.lo, after.hi))) + 11;
          EXPECT_EQ(is_signed ? static_cast<int8_t>(y[at]) : y[at], want) << p->isa << " " << i;
        }
      }
    }
}

TEST(Pairs, Widening) {
  for (const Pairs* p : AllTables<Pairs>())
    for (const int64_t n : {1, 7, 16, 33, 129}) {
      std::vector<uint8_t> x;
      for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<uint8_t>(i * 37));
      std::vector<int16_t> y(static_cast<size_t>(n) + 1, 77);
      p->widen_u8(x.data(), y.data(), n, 131);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] - 131) << p->isa;
      p->widen_s8(reinterpret_cast<const int8_t*>(x.data()), y.data(), n, -7);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], static_cast<int8_t>(x[i]) + 7);
      EXPECT_EQ(y.back(), 77);
    }
}

}  // namespace
}  // namespace infer::simd
