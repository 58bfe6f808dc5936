/// Tiles of every instruction set of this machine against plain loops in double.
#include "runtime/cpu/simd/tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

std::vector<float> Numbers(Random& random, int64_t count) {
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = static_cast<float>(random.Uniform() * 2 - 1);
  return v;
}

/// One call over two tiles: two runs of taps, vectors of d apart, a start, what is there, a clamp.
void CheckTile(const simd::Tiles& table, int vectors, bool add, bool start) {
  Random random(static_cast<uint64_t>(vectors) * 4 + (add ? 2 : 0) + (start ? 1 : 0));
  const std::vector<int64_t> x_at = {2, 20}, w_at = {0, 9}, length = {7, 5};
  const int64_t points = 2 * table.points(vectors), lanes = table.lanes, width = vectors * lanes;
  const int64_t pixels = 40, vector_step = points * lanes + 3;
  const std::vector<float> x = Numbers(random, points * pixels), w = Numbers(random, 14 * width),
                           starts = Numbers(random, width);
  std::vector<float> d = Numbers(random, vectors * vector_step);
  const std::vector<float> before = d;
  std::vector<const float*> from;
  std::vector<float*> to;
  for (int64_t p = 0; p < points; ++p) {
    from.push_back(x.data() + p * pixels);
    to.push_back(d.data() + p * lanes);
  }
  constexpr float kLow = -1.5f, kHigh = 1.25f;
  table.multiply({.x = from.data(),
                  .d = to.data(),
                  .d_vector = vector_step,
                  .points = points,
                  .vectors = vectors,
                  .x_at = x_at.data(),
                  .w_at = w_at.data(),
                  .length = length.data(),
                  .runs = 2,
                  .w = w.data(),
                  .start = start ? starts.data() : nullptr,
                  .add = add,
                  .lo = kLow,
                  .hi = kHigh});
  for (int64_t p = 0; p < points; ++p)
    for (int64_t o = 0; o < width; ++o) {
      const auto at = static_cast<size_t>(p * lanes + o / lanes * vector_step + o % lanes);
      double sum = start ? static_cast<double>(starts[static_cast<size_t>(o)]) : 0;
      if (add) sum += static_cast<double>(before[at]);
      for (size_t r = 0; r < 2; ++r)
        for (int64_t k = 0; k < length[r]; ++k)
          sum += static_cast<double>(x[static_cast<size_t>(p * pixels + x_at[r] + k)]) *
                 static_cast<double>(w[static_cast<size_t>((w_at[r] + k) * width + o)]);
      const double want = std::min<double>(std::max<double>(sum, kLow), kHigh);
      ASSERT_NEAR(d[at], want, 3e-6) << table.isa << " " << vectors << " " << p << " " << o;
    }
}

TEST(Tiles, EveryInstructionSetSums) {
  for (const simd::Tiles* table : AllTables<simd::Tiles>())
    for (int vectors : {1, 2})
      for (bool add : {false, true})
        for (bool start : {false, true}) CheckTile(*table, vectors, add, start);
}

TEST(Tiles, NaNPassesTheClamp) {
  for (const simd::Tiles* table : AllTables<simd::Tiles>()) {
    const int64_t points = table->points(1), zero = 0, one = 1;
    const float x = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> w(static_cast<size_t>(table->lanes), 1);
    std::vector<float> d(static_cast<size_t>(points * table->lanes), 0);
    std::vector<const float*> from(static_cast<size_t>(points), &x);
    std::vector<float*> to;
    for (int64_t p = 0; p < points; ++p) to.push_back(d.data() + p * table->lanes);
    table->multiply({.x = from.data(),
                     .d = to.data(),
                     .points = points,
                     .vectors = 1,
                     .x_at = &zero,
                     .w_at = &zero,
                     .length = &one,
                     .runs = 1,
                     .w = w.data(),
                     .lo = -1,
                     .hi = 1});
    for (float y : d) ASSERT_TRUE(std::isnan(y)) << table->isa;
  }
}

TEST(Tiles, Transpose) {
  for (const simd::Tiles* table : AllTables<simd::Tiles>())
    for (int64_t rows : {1, 4, 7, 16, 19})
      for (int64_t columns : {1, 3, 8, 17}) {
        std::vector<float> from(static_cast<size_t>(rows * 20)),
            to(static_cast<size_t>(columns * 24), -1);
        for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
        table->transpose(from.data(), 20, rows, columns, to.data(), 24);
        for (int64_t c = 0; c < columns; ++c)
          for (int64_t r = 0; r < 24; ++r)
            ASSERT_EQ(to[static_cast<size_t>(c * 24 + r)],
                      r < rows ? static_cast<float>(r * 20 + c) : -1.0f)
                << table->isa << " " << rows << "x" << columns << ": " << r << ", " << c;
      }
}

}  // namespace
}  // namespace infer
