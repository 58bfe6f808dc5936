/// Skinny products of every instruction set of this machine against plain loops in double.
#include "runtime/cpu/simd/skinny.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"

namespace infer::simd {
namespace {

constexpr float kUntouched = 77.0f;

std::vector<float> RandomFloats(int64_t n, Random& random) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& f : v) f = static_cast<float>(random.Uniform() * 2 - 1);
  return v;
}

using SkinnyOf = testing::TestWithParam<const Skinny*>;
INSTANTIATE_TEST_SUITE_P(, SkinnyOf, testing::ValuesIn(AllTables<Skinny>()),
                         [](const auto& info) { return std::string(info.param->isa); });

struct PointsCase {
  int64_t outputs, points, taps;
  bool add, start, along;
};

void CheckPoints(const Skinny& table, const PointsCase& c, Random& random) {
  const int64_t stride = c.points + 3;
  const auto x = RandomFloats(c.taps * 5 + c.points + 1, random);
  const auto w = RandomFloats(c.taps * c.outputs + 1, random);
  const auto start = RandomFloats(c.outputs, random), along = RandomFloats(c.points, random);
  std::vector<int64_t> at;
  for (int64_t t = 0; t < c.taps; ++t) at.push_back((t * 7) % (c.taps * 5));
  std::vector<float> y = RandomFloats(c.outputs * stride, random);
  for (int64_t o = 0; o < c.outputs; ++o)
    for (int64_t p = c.points; p < stride; ++p) y[static_cast<size_t>(o * stride + p)] = kUntouched;
  const std::vector<float> before = y;
  PointsCall call;
  call.x = x.data();
  call.x_at = at.data();
  call.taps = c.taps;
  call.w = w.data();
  call.w_tap = c.outputs;
  call.outputs = c.outputs;
  call.y = y.data();
  call.y_stride = stride;
  call.points = c.points;
  call.start = c.start ? start.data() : nullptr;
  call.along = c.along ? along.data() : nullptr;
  call.add = c.add;
  table.points(call);
  for (int64_t o = 0; o < c.outputs; ++o)
    for (int64_t p = 0; p < stride; ++p) {
      const auto i = static_cast<size_t>(o * stride + p);
      if (p >= c.points) {
        ASSERT_EQ(y[i], kUntouched) << table.isa;
        continue;
      }
      double want = c.add ? static_cast<double>(before[i]) : 0;
      if (c.start) want += static_cast<double>(start[static_cast<size_t>(o)]);
      if (c.along) want += static_cast<double>(along[static_cast<size_t>(p)]);
      for (int64_t t = 0; t < c.taps; ++t)
        want += static_cast<double>(w[static_cast<size_t>(t * c.outputs + o)]) *
                static_cast<double>(x[static_cast<size_t>(at[static_cast<size_t>(t)] + p)]);
      ASSERT_NEAR(y[i], want, 2e-5) << table.isa << " outputs " << c.outputs << " points "
                                    << c.points << " taps " << c.taps << " at " << o << "," << p;
    }
}

TEST_P(SkinnyOf, PointsOfEveryNumber) {
  Random random(5);
  for (int64_t outputs : {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17})
    for (int64_t points : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 64, 97, 200})
      for (int64_t taps : {0, 1, 6})
        for (int options = 0; options < 8; ++options)
          CheckPoints(
              *GetParam(),
              {outputs, points, taps, (options & 1) != 0, (options & 2) != 0, (options & 4) != 0},
              random);
}

struct DotsCase {
  int64_t outputs, points, taps, depth;
  bool add, start;
};

void CheckDots(const Skinny& table, const DotsCase& c, Random& random) {
  const int64_t step = c.depth + 2, padded = table.PaddedDepth(c.depth);
  const auto x = RandomFloats((c.points + c.taps) * step + c.depth, random);
  const auto w = RandomFloats(c.outputs * c.taps * c.depth, random);
  const auto start = RandomFloats(c.outputs, random);
  std::vector<float> packed(static_cast<size_t>(c.outputs * c.taps * padded));
  std::vector<int64_t> x_at, w_at;
  for (int64_t t = 0; t < c.taps; ++t) {
    x_at.push_back(t * step);
    w_at.push_back(t * padded);
  }
  // Weights as [depth][output and tap].
  const int64_t columns = c.outputs * c.taps;
  for (int64_t i = 0; i < columns; ++i)
    table.PackDots(w.data() + i, columns, c.depth, packed.data() + i * padded);
  std::vector<float> y = RandomFloats(c.points * (c.outputs + 1), random);
  for (int64_t p = 0; p < c.points; ++p)
    y[static_cast<size_t>((p + 1) * (c.outputs + 1) - 1)] = kUntouched;
  const std::vector<float> before = y;
  DotsCall call;
  call.x = x.data();
  call.x_step = step;
  call.x_at = x_at.data();
  call.w_at = w_at.data();
  call.taps = c.taps;
  call.depth = c.depth;
  call.w = packed.data();
  call.w_out = c.taps * padded;
  call.outputs = c.outputs;
  call.y = y.data();
  call.y_step = c.outputs + 1;
  call.points = c.points;
  call.start = c.start ? start.data() : nullptr;
  call.add = c.add;
  table.dots(call);
  for (int64_t p = 0; p < c.points; ++p) {
    ASSERT_EQ(y[static_cast<size_t>((p + 1) * (c.outputs + 1) - 1)], kUntouched) << table.isa;
    for (int64_t o = 0; o < c.outputs; ++o) {
      const auto i = static_cast<size_t>(p * (c.outputs + 1) + o);
      double want = c.add ? static_cast<double>(before[i]) : 0;
      if (c.start) want += static_cast<double>(start[static_cast<size_t>(o)]);
      for (int64_t t = 0; t < c.taps; ++t)
        for (int64_t k = 0; k < c.depth; ++k)
          want += static_cast<double>(x[static_cast<size_t>((p + t) * step + k)]) *
                  static_cast<double>(w[static_cast<size_t>(k * columns + o * c.taps + t)]);
      ASSERT_NEAR(y[i], want, 3e-5) << table.isa << " outputs " << c.outputs << " points "
                                    << c.points << " depth " << c.depth << " at " << p << "," << o;
    }
  }
}

TEST_P(SkinnyOf, DotsOfEveryDepth) {
  Random random(6);
  for (int64_t depth : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 100})
    for (int64_t outputs : {1, 2, 3, 4, 5, 7, 8})
      for (int64_t points : {1, 2, 3, 4, 5, 8, 9, 17})
        for (int64_t taps : {0, 1, 3})
          for (bool add : {false, true})
            CheckDots(*GetParam(), {outputs, points, taps, depth, add, !add || taps == 1}, random);
}

/// Terms that two vectors hold are counted once.
TEST_P(SkinnyOf, InfinitiesStayInfinities) {
  const Skinny& table = *GetParam();
  const int64_t depth = table.lanes + 3, zero = 0;
  std::vector<float> x(static_cast<size_t>(depth), 1.0f), ones(x);
  std::vector<float> packed(static_cast<size_t>(table.PaddedDepth(depth)));
  table.PackDots(ones.data(), 1, depth, packed.data());
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<float> with = x;
    with[i] = std::numeric_limits<float>::infinity();
    float y = 0;
    DotsCall call;
    call.x = with.data();
    call.x_at = call.w_at = &zero;
    call.taps = 1;
    call.depth = depth;
    call.w = packed.data();
    call.outputs = call.points = 1;
    call.y = &y;
    table.dots(call);
    EXPECT_EQ(y, std::numeric_limits<float>::infinity()) << table.isa << " term " << i;
  }
}

}  // namespace
}  // namespace infer::simd
