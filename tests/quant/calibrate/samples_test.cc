#include "quant/calibrate/samples.h"

#include <gmock/gmock.h>

namespace infer {
namespace {

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
