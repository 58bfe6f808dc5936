#include "tools/bench/numbers.h"

#include <cmath>
#include <limits>
#include <set>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/tensor/tensor.h"
#include "tools/bench/sparkline.h"
#include "tools/common/input_fill.h"

namespace infer::bench {
namespace {

using testing::HasSubstr;

TEST(Numbers, CountsByBits) {
  const float tiny = std::numeric_limits<float>::min() / 2;
  const std::vector<Datum> values = {
      Tensor::Of<float>({6}, {0, -0.0f, tiny, -tiny, NAN, INFINITY}), Tensor::Of<int32_t>({1}, {3}),
      Tensor::Of<Half>({3}, {Half{0x0001}, Half{0x3c00}, Half{0x0400}}),
      SequenceDatum{{Tensor::Of<double>({1}, {5e-324})}}};
  const NumberCounts c = CountNumbers(values);
  EXPECT_EQ(c.elements, 10);
  EXPECT_EQ(c.zeros, 2);
  EXPECT_EQ(c.denormals, 4);
  EXPECT_EQ(c.nans, 1);
  EXPECT_EQ(c.infinities, 1);
}

TEST(Sparkline, FromTheLeastToTheMost) {
  EXPECT_EQ(Sparkline(std::vector<double>{1, 2, 9}), "▁▂█");
  EXPECT_EQ(Sparkline(std::vector<double>{1, 1.001}), "▁▁");
  EXPECT_EQ(Sparkline({}), "");
  // The median of each stretch: one slow run in four does not show.
  EXPECT_EQ(Sparkline(std::vector<double>{1, 1, 99, 1, 5, 5, 5, 5}, 2), "▁█");
}

class Fill : public testing::Test {
 protected:
  Result<std::vector<Datum>> Filled(const std::vector<std::string>& fills) {
    std::vector<Datum> values = {Tensor::Zeros(DType::kF32, {1000}),
                                 Tensor::Zeros(DType::kI64, {1000})};
    INFER_TRY(FillInputs(*graph_, fills, 5, values));
    return values;
  }
  const OpRegistry ops_ = AllOps();
  const Result<Graph> graph_ = ParseGraph(
      "graph g(x: f32[1000], i: i64[1000]) -> (y, z) {\n  y = Relu(x)\n  z = Identity(i)\n}", ops_);
};

TEST_F(Fill, DrawsFromTheRange) {
  ASSERT_TRUE(graph_.ok()) << graph_.status().message();
  const auto values = Filled({"x=uniform:10:11", "i=uniform:3:5"});
  ASSERT_TRUE(values.ok()) << values.status().message();
  std::set<int64_t> seen;
  for (int64_t k = 0; k < 1000; ++k) {
    EXPECT_GE((*values)[0].tensor().At(k), 10);
    EXPECT_LT((*values)[0].tensor().At(k), 11);
    seen.insert((*values)[1].tensor().IntAt(k));
  }
  EXPECT_EQ(seen, (std::set<int64_t>{3, 4, 5}));
  EXPECT_EQ((*Filled({"constant:7"}))[1].tensor().IntAt(9), 7);
  // The same seed, the same values, whichever others are filled.
  EXPECT_TRUE(BitEqual((*Filled({"i=uniform:3:5"}))[1].tensor(), (*values)[1].tensor()));
}

TEST_F(Fill, Refusals) {
  for (const char* bad : {"uniform:2:1", "uniform:1", "constant:x", "gauss", "constant:nan"})
    EXPECT_EQ(Filled({bad}).status().code(), Code::kInvalidArgument) << bad;
  EXPECT_THAT(Filled({"y=constant:1"}).status().message(), HasSubstr("there is no input 'y'"));
}

}  // namespace
}  // namespace infer::bench
