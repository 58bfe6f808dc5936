#include "quant/calibrate/scan.h"

#include <gmock/gmock.h>

#include <limits>

#include "lib/support/random.h"

namespace infer {
namespace {

TEST(Scan, FindsBoundsAndOddNumbersAtEveryPlace) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Random r(3);
  for (const size_t n : {1, 31, 32, 33, 64, 100}) {
    std::vector<float> v(n);
    for (float& x : v) x = static_cast<float>(r.Normal());
    for (size_t at = 0; at < n; ++at) {
      std::vector<float> w = v;
      w[at] = 50;
      EXPECT_EQ(ScanValues(w).range.hi, 50);
      w[at] = -50;
      EXPECT_EQ(ScanValues(w).range.lo, -50);
      EXPECT_EQ(ScanValues(w).finite, static_cast<int64_t>(n));
      for (const float odd : {kInf, -kInf, kNan}) {
        w[at] = odd;
        const Scan s = ScanValues(w);
        EXPECT_EQ(s.non_finite, 1);
        EXPECT_EQ(s.finite, static_cast<int64_t>(n) - 1);
        EXPECT_EQ(s.range, FiniteRange(w));
      }
    }
  }
  EXPECT_EQ(ScanValues({}).finite, 0);
}

}  // namespace
}  // namespace infer
