/// Pooling loops of every instruction set of this machine against windows one by one, over drawn
/// geometries and boxes of results.
#include "runtime/cpu/simd/pools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"

namespace infer::simd {
namespace {

constexpr float kOutsideOfBox = 77.0f;

/// A pooling with the memory that its axes point to.
struct DrawnPool {
  PoolGrid axes[3];
  std::vector<PoolSpan> spans[3];
  std::vector<float> divisors[3];
  PoolBox box;
  int64_t planes = 1;
  bool nan = false;

  int64_t in() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out() const { return axes[0].out * axes[1].out * axes[2].out; }
};

int64_t WithinBoth(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random.Below(high - low + 1));
}

void DrawAxis(Random& random, int64_t longest, PoolGrid& g) {
  g.in = WithinBoth(random, 1, longest);
  g.kernel = WithinBoth(random, 1, random.Below(8) == 0 ? 40 : 5);
  g.stride = WithinBoth(random, 1, 5);
  g.dilation = WithinBoth(random, 1, 3);
  g.pad = WithinBoth(random, 0, g.kernel);
  const int64_t reach = (g.kernel - 1) * g.dilation + 1;
  g.out = std::max<int64_t>((g.in + 2 * g.pad - reach) / g.stride + 1, 1);
}

bool BoxFits(const DrawnPool& d) {
  int64_t rows = PoolPitch(d.box.count[2]);
  for (size_t i = 0; i < 2; ++i) {
    const PoolGrid& g = d.axes[i];
    rows *= std::min(g.in, (d.box.count[i] - 1) * g.stride + (g.kernel - 1) * g.dilation + 1);
  }
  return rows <= kPoolRows && PoolLine(d.axes[2], d.box.count[2]) <= kPoolLines;
}

void DrawPool(Random& random, DrawnPool& d) {
  do {
    const int64_t longest[] = {random.Below(2) == 0 ? 1 : 9, 20, 90};
    for (size_t i = 0; i < 3; ++i) {
      PoolGrid& g = d.axes[i] = {};
      if (longest[i] > 1) DrawAxis(random, longest[i], g);
      d.spans[i].clear();
      d.divisors[i].clear();
      for (int64_t o = 0; o < g.out; ++o) {
        PoolSpan s = {0, 0};
        for (int64_t k = 0; k < g.kernel; ++k) {
          const int64_t at = o * g.stride - g.pad + k * g.dilation;
          if (at < 0 || at >= g.in) continue;
          if (s.count++ == 0) s.first = at;
        }
        d.spans[i].push_back(s);
        d.divisors[i].push_back(static_cast<float>(std::max<int64_t>(s.count, 1)));
      }
      d.divisors[i].resize(d.divisors[i].size() + kPoolVector, 1);
      g.spans = d.spans[i].data();
      g.divisors = d.divisors[i].data();
      d.box.first[i] = random.Below(2) == 0 ? 0 : WithinBoth(random, 0, g.out - 1);
      const int64_t most = g.out - d.box.first[i];
      d.box.count[i] = random.Below(2) == 0 ? most : WithinBoth(random, 1, most);
    }
    d.planes = WithinBoth(random, 1, 3);
    d.nan = random.Below(4) == 0;
  } while (!BoxFits(d));
}

/// Result (d, h, w) of one plane.
float PooledWindow(const DrawnPool& c, const float* x, const int64_t (&at)[3], bool max) {
  const PoolSpan* s[3];
  float divisor = 1;
  for (size_t i = 0; i < 3; ++i) {
    s[i] = &c.spans[i][static_cast<size_t>(at[i])];
    divisor *= c.divisors[i][static_cast<size_t>(at[i])];
  }
  bool is_first = true;
  float best = -std::numeric_limits<float>::infinity();
  double sum = 0;
  for (int64_t i = 0; i < s[0]->count; ++i)
    for (int64_t j = 0; j < s[1]->count; ++j)
      for (int64_t k = 0; k < s[2]->count; ++k) {
        const int64_t d = s[0]->first + i * c.axes[0].dilation,
                      h = s[1]->first + j * c.axes[1].dilation,
                      w = s[2]->first + k * c.axes[2].dilation;
        const float v = x[(d * c.axes[1].in + h) * c.axes[2].in + w];
        sum += static_cast<double>(v);
        if (is_first || v > best) best = v;
        is_first = false;
      }
  return max ? best : static_cast<float>(sum / static_cast<double>(divisor));
}

bool InBox(const PoolBox& b, const int64_t (&at)[3]) {
  for (size_t i = 0; i < 3; ++i)
    if (at[i] < b.first[i] || at[i] >= b.first[i] + b.count[i]) return false;
  return true;
}

void CompareBox(const DrawnPool& c, const std::vector<float>& x, const std::vector<float>& y,
                bool max) {
  for (int64_t p = 0; p < c.planes; ++p)
    for (int64_t o = 0; o < c.out(); ++o) {
      const int64_t at[3] = {o / c.axes[2].out / c.axes[1].out, o / c.axes[2].out % c.axes[1].out,
                             o % c.axes[2].out};
      const float got = y[static_cast<size_t>(p * c.out() + o)];
      if (!InBox(c.box, at)) {
        EXPECT_EQ(got, kOutsideOfBox) << "result " << o << " is outside of the box";
        continue;
      }
      const float want = PooledWindow(c, x.data() + p * c.in(), at, max);
      if (std::isnan(want) || max)
        EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << got << " " << want;
      else
        EXPECT_NEAR(got, want, 1e-5f);
    }
}

TEST(Pools, BoxesOfAllInstructionSets) {
  Random random(7);
  for (int n = 0; n < 400 && !HasFailure(); ++n) {
    DrawnPool c;
    DrawPool(random, c);
    std::vector<float> x(static_cast<size_t>(c.planes * c.in()));
    for (float& f : x) {
      f = static_cast<float>(random.Uniform() * 2 - 1);
      if (c.nan && random.Below(9) == 0) f = std::numeric_limits<float>::quiet_NaN();
    }
    for (const bool max : {true, false}) {
      std::vector<float> first;
      for (const Pools* table : AllTables<Pools>()) {
        std::vector<float> y(static_cast<size_t>(c.planes * c.out()), kOutsideOfBox);
        const auto run = max ? table->max : table->average;
        run({c.planes, c.planes * c.in()}, c.axes, c.box, x.data(), y.data());
        CompareBox(c, x, y, max);
        if (first.empty()) first = y;
        for (size_t i = 0; i < y.size(); ++i)
          EXPECT_TRUE(std::bit_cast<uint32_t>(y[i]) == std::bit_cast<uint32_t>(first[i]) ||
                      std::isnan(first[i]))
              << "another instruction set gives other bits";
      }
    }
  }
}

}  // namespace
}  // namespace infer::simd
