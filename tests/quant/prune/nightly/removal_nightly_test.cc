/// The promise of groups and of Shrink, over many random networks: the long form of
/// ../groups_test.cc.
#include "tests/quant/prune/removal_property.h"

namespace infer {
namespace {

TEST(RemovalNightly, ZeroUnitsCanGo) {
  RemovalCounts counts;
  for (uint64_t seed = 100000; seed < 106000; ++seed) {
    CheckRandomRemoval(seed, counts);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GE(counts.graphs, 5000);
  EXPECT_GE(counts.narrowed, counts.graphs);
  RecordProperty("narrowed", std::to_string(counts.narrowed));
}

}  // namespace
}  // namespace infer
