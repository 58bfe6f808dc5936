#include "lib/support/student.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace infer {
namespace {

// Tables: Abramowitz & Stegun, table 26.10.
TEST(Student, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(StudentQuantile(0.95, 1), 12.706, 1e-3);
  EXPECT_NEAR(StudentQuantile(0.95, 2), 4.303, 1e-3);
  EXPECT_NEAR(StudentQuantile(0.95, 3), 3.182, 1e-3);
  EXPECT_NEAR(StudentQuantile(0.99, 4), 4.604, 1e-3);
  EXPECT_NEAR(StudentQuantile(0.99, 7), 3.499, 1e-3);
  EXPECT_NEAR(StudentQuantile(0.9, 10), 1.812, 1e-3);
  EXPECT_NEAR(StudentQuantile(0.95, 120), 1.980, 1e-3);
}

TEST(Student, TheDistributionIsSymmetric) {
  for (const int df : {1, 2, 5, 30})
    for (const double t : {0.0, 0.3, 2.0, 40.0})
      EXPECT_NEAR(StudentCdf(t, df) + StudentCdf(-t, df), 1, 1e-14);
  EXPECT_NEAR(StudentCdf(1, 1), 0.75, 1e-14);
}

TEST(Student, AMeanOfOneValueHasNoInterval) {
  const std::vector<double> one = {3};
  EXPECT_EQ(MeanInterval(one, 0.95).value, 3);
  EXPECT_TRUE(std::isinf(MeanInterval(one, 0.95).high));
  const std::vector<double> two = {1, 3};
  EXPECT_NEAR(MeanInterval(two, 0.95).high, 2 + 12.706, 1e-3);
}

}  // namespace
}  // namespace infer
