#include "quant/prune/statistics.h"

#include <gmock/gmock.h>

#include <cmath>

#include "lib/ir/editor.h"
#include "quant/prune/structured.h"
#include "tests/quant/prune/judged_test.h"

namespace infer {
namespace {

using testing::ElementsAre;

/// Normalizations in front of activations, which no layer can take up; the first two feed others.
constexpr std::string_view kPreActivated = R"(graph g(x: f32[1,3,8,8]) -> (z) {
  w1 = const f32[32,3,3,3] ~1
  y1 = Conv(x, w1) {pads = [1, 1, 1, 1]}
  r1 = Relu(y1)
  w2 = const f32[16,32,3,3] ~2
  y2 = Conv(r1, w2) {pads = [1, 1, 1, 1]}
  a2 = Relu(y2)
  s2 = const f32[16] ~12
  b2 = const f32[16] ~13
  m2 = const f32[16] ~14
  v2 = const f32[16] {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
  n2 = BatchNormalization(a2, s2, b2, m2, v2)
  r2 = Relu(n2)
  p = GlobalAveragePool(r2)
  z = Flatten(p)
})";

class StatisticsTest : public JudgedTest {
 protected:
  static Graph Net() { return MustParse(std::string(kPreActivated)); }
};

TEST_F(StatisticsTest, NothingMovesWhereNothingIsPruned) {
  const Graph golden = Net();
  EXPECT_THAT(EstimatedStatistics(golden), ElementsAre("n2"));
  Graph g = golden.Clone();
  const std::vector<std::string> names = EstimatedStatistics(g);
  ASSERT_TRUE(EstimateStatistics(golden, g, names, NormalSamples(g, 12, 1), *backend_, {}).ok());
  for (const char* name : {"m2", "v2"})
    for (int64_t i = 0; i < 16; ++i)
      EXPECT_EQ(g.FindValue(name)->constant()->At(i), golden.FindValue(name)->constant()->At(i));
}

/// A model all of whose channels are three times as large computes the same with new statistics.
TEST_F(StatisticsTest, TakesUpWhatChannelsLostOrGained) {
  const Graph golden = Net();
  Graph g = golden.Clone();
  Tensor w2 = g.FindValue("w2")->constant()->Clone();
  for (int64_t i = 0; i < w2.num_elements(); ++i) w2.Set(i, 3 * w2.At(i));
  GraphEditor(g).SetConstant(g.FindValue("w2"), std::move(w2));
  const Samples samples = NormalSamples(golden, 24, 1);
  const double before = Decibels(golden, g);
  ASSERT_TRUE(EstimateStatistics(golden, g, EstimatedStatistics(g), samples, *backend_, {}).ok());
  for (int64_t i = 0; i < 16; ++i) EXPECT_NEAR(g.FindValue("v2")->constant()->At(i), 9, 1e-3) << i;
  EXPECT_GT(Decibels(golden, g), before + 3);
}

TEST_F(StatisticsTest, PrunedModelsGetTheirOwnWhereThatHelps) {
  const Graph golden = Net();
  Graph g = golden.Clone();
  ChannelOptions o;
  o.multiple = 4;
  o.goal = {ChannelGoal::Kind::kFlops, 0.8};
  const auto r = PruneChannels(g, NormalSamples(g, 24, 1), *backend_, o);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->statistics, 1);
  double moved = 0;
  for (int64_t i = 0; i < g.FindValue("v2")->constant()->num_elements(); ++i)
    moved += std::abs(g.FindValue("v2")->constant()->At(i) - 1);
  EXPECT_GT(moved, 1e-3);
}

TEST_F(StatisticsTest, SharedAndComputedStatisticsStay) {
  Graph g = MustParse(R"(graph g(x: f32[1,2,4,4]) -> (z) {
    s = const f32[2] {1, 1}
    m = const f32[2] {0, 0}
    n = BatchNormalization(x, s, m, m, s)
    z = Relu(n)
  })");
  EXPECT_TRUE(EstimatedStatistics(g).empty());
}

}  // namespace
}  // namespace infer
