#include "quant/calibrate/samples.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace infer {
namespace {

TEST(SplitBySeed, IsDisjointCompleteAndSeeded) {
  const SampleSplit a = SplitBySeed(101, 40, 7), b = SplitBySeed(101, 40, 7),
                    c = SplitBySeed(101, 40, 8);
  EXPECT_EQ(a.calibration.size(), 40u);
  EXPECT_EQ(a.evaluation.size(), 61u);
  std::vector<int64_t> all = a.calibration;
  all.insert(all.end(), a.evaluation.begin(), a.evaluation.end());
  std::sort(all.begin(), all.end());
  for (int64_t i = 0; i < 101; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i);
  EXPECT_EQ(a.calibration, b.calibration);
  EXPECT_NE(a.calibration, c.calibration);
  EXPECT_TRUE(std::is_sorted(a.calibration.begin(), a.calibration.end()));
}

TEST(Subset, PicksRunsAndLabels) {
  Samples all = InMemory({{Tensor::Scalar(1.0f)}, {Tensor::Scalar(2.0f)}, {Tensor::Scalar(3.0f)}});
  all.labels = [](int64_t i) -> Result<std::vector<int64_t>> {
    return std::vector<int64_t>{i * 10};
  };
  const Samples s = Subset(all, {2, 0});
  ASSERT_EQ(s.count, 2);
  EXPECT_EQ((*s.get(0))[0].tensor().At(0), 3);
  EXPECT_EQ((*s.get(1))[0].tensor().At(0), 1);
  EXPECT_EQ(*s.labels(0), std::vector<int64_t>{20});
}

}  // namespace
}  // namespace infer
