/// Homes of instances, on topologies that this machine has not.
#include "runtime/engine/placement.h"

#include <gtest/gtest.h>

#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

/// Nodes with so many cores each, of `threads` hardware threads.
Topology Invented(const std::vector<int>& cores_of_nodes, int threads = 1) {
  Topology t;
  int core = 0, cpu = 0;
  for (size_t node = 0; node < cores_of_nodes.size(); ++node) {
    t.nodes.push_back({.number = static_cast<int>(node), .cpus = {}});
    for (int c = 0; c < cores_of_nodes[node]; ++c, ++core)
      for (int i = 0; i < threads; ++i)
        t.nodes.back().cpus.push_back({.number = cpu++, .core = core});
  }
  return t;
}

std::shared_ptr<Homes> Of(Placement placement, Topology topology) {
  return std::make_shared<Homes>(placement, std::move(topology));
}

using HomePtr = std::shared_ptr<const Home>;

TEST(Placement, InstancesGoRoundTheNodes) {
  const auto homes = Of(Placement::kNodes, Invented({8, 8}));
  std::vector<HomePtr> taken;
  std::vector<int> nodes;
  for (int i = 0; i < 6; ++i) {
    taken.push_back(*homes->Place(4, {}));
    nodes.push_back(taken.back()->node);
  }
  EXPECT_EQ(nodes, (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_TRUE(taken[1]->masks == LaneMasks{CpuMask({8, 9, 10, 11, 12, 13, 14, 15})});
}

TEST(Placement, LargerNodesTakeMore) {
  const auto homes = Of(Placement::kNodes, Invented({12, 4}));
  std::array<int, 2> instances = {};
  std::vector<HomePtr> taken;
  for (int i = 0; i < 8; ++i) {
    taken.push_back(*homes->Place(2, {}));
    ++instances[static_cast<size_t>(taken.back()->node)];
  }
  EXPECT_EQ(instances, (std::array<int, 2>{6, 2}));
}

TEST(Placement, AnInstanceTooLargeForANodeIsSpread) {
  const auto homes = Of(Placement::kNodes, Invented({2, 6, 6}));
  EXPECT_EQ((*homes->Place(4, {}))->node, 1);
  const HomePtr wide = *homes->Place(8, {});
  EXPECT_EQ(wide->node, -1);
  EXPECT_EQ(wide->nodes.size(), 3u);
  // Of two nodes that are named, too.
  EXPECT_EQ((*homes->Place(8, {1, 2}))->nodes, (std::vector<int>{1, 2}));
}

TEST(Placement, NamedNodesAreKept) {
  const auto homes = Of(Placement::kNodes, Invented({4, 4}));
  std::vector<HomePtr> taken;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(*homes->Place(2, {1}));
    EXPECT_EQ(taken.back()->node, 1);
  }
  EXPECT_EQ((*homes->Place(2, {}))->node, 0);
  const auto refused = homes->Place(2, {2});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(), "this process may use no processor of NUMA node 2");
}

TEST(Placement, WhatIsGoneMakesRoom) {
  const auto homes = Of(Placement::kNodes, Invented({4, 4}));
  HomePtr first = *homes->Place(2, {});
  const HomePtr second = *homes->Place(2, {});
  first.reset();
  EXPECT_EQ((*homes->Place(2, {}))->node, 0);
}

TEST(Placement, LanesHaveCoresOfTheirOwnWhileThereAreSome) {
  const auto homes = Of(Placement::kCores, Invented({4, 4}, 2));
  std::vector<HomePtr> taken;
  std::vector<int> lanes_on(8, 0);
  for (int i = 0; i < 4; ++i) {
    taken.push_back(*homes->Place(2, {}));
    EXPECT_EQ(taken.back()->masks.size(), 2u);
    for (int core : taken.back()->cores) ++lanes_on[static_cast<size_t>(core)];
  }
  EXPECT_EQ(lanes_on, std::vector<int>(8, 1));
  // A lane may use both hardware threads of its core.
  EXPECT_TRUE(taken[0]->masks == (LaneMasks{CpuMask({0, 1}), CpuMask({2, 3})}));
  // Where all have one, some get two.
  taken.push_back(*homes->Place(3, {}));
  EXPECT_EQ(taken.back()->cores.size(), 3u);
}

TEST(Placement, MoreLanesThanCoresShareThem) {
  const auto homes = Of(Placement::kCores, Invented({1, 1}));
  EXPECT_EQ((*homes->Place(5, {}))->cores, (std::vector<int>{0, 1, 0, 1, 0}));
}

TEST(Placement, BusyCountsWhatRunsThere) {
  const auto homes = Of(Placement::kNodes, Invented({4, 4}));
  const HomePtr a = *homes->Place(2, {0}), b = *homes->Place(2, {0}), c = *homes->Place(2, {1});
  homes->Began(*a);
  EXPECT_EQ(homes->Busy(*b), 2);
  EXPECT_EQ(homes->Busy(*c), 0);
  homes->Ended(*a);
  EXPECT_EQ(homes->Busy(*b), 0);
}

TEST(Placement, NamesAreReadBack) {
  for (Placement p : {Placement::kAnywhere, Placement::kNodes, Placement::kCores})
    EXPECT_EQ(PlacementOf(Name(p)), p);
  EXPECT_FALSE(PlacementOf("node").has_value());
}

/// An engine of two invented nodes of two processors, whose runs tell where they are.
class PlacedEngine : public testing::Test {
 protected:
  void SetUp() override {
    if (Status can = CanPinLanes(); !can.ok()) GTEST_SKIP() << can.message();
    engine_ =
        *Engine::Make({.threads = 4, .placement = Placement::kNodes, .topology = Invented({2, 2})});
  }
  ModelSource Telling(RunHook then = {}) {
    ModelSource source =
        SourceOf(kRowsModel, [this, then](const std::vector<Datum>& in, const RunOptions& how) {
          const CpuMask* mask = MaskOfLane(0);
          {
            const std::lock_guard lock(mutex_);
            nodes_.push_back(!mask ? -1 : *mask == CpuMask({2, 3}) ? 1 : 0);
          }
          return then ? then(in, how) : Status();
        });
    source.lanes = 2;
    return source;
  }
  std::vector<int> Nodes() {
    const std::lock_guard lock(mutex_);
    return nodes_;
  }

  std::mutex mutex_;
  std::vector<int> nodes_;  // of runs, as they began
  std::unique_ptr<Engine> engine_;
};

TEST_F(PlacedEngine, RunsAreWhereTheirInstancesLive) {
  ASSERT_TRUE(engine_->Load("m", Telling(), {.instances = 2, .warm_inputs = {Filled(1, 1)}}).ok());
  EXPECT_EQ(Nodes(), (std::vector<int>{0, 1}));  // warmed there, too
  EXPECT_EQ(StatsOf(*engine_).nodes, (std::vector<int>{0, 1}));
  const CpuMask before = CpuMask::OfThisThread();
  EXPECT_EQ(engine_->Infer(For(1)).end, State::kSucceeded);
  EXPECT_TRUE(CpuMask::OfThisThread() == before);  // it may be this thread that ran
  EXPECT_GE(Nodes().back(), 0);
}

TEST_F(PlacedEngine, TakesTheInstanceOnTheNodeWithLessToDo) {
  Gate gate;
  for (const char* name : {"a", "b"})
    ASSERT_TRUE(engine_->Load(name, Telling(gate.hook()), {.instances = 2}).ok());
  std::vector<std::future<Outcome>> answers;
  for (const char* name : {"a", "b", "a", "b"}) {
    answers.push_back(engine_->Submit({.model = name, .inputs = {Filled(1, 1)}}));
    gate.Await(static_cast<int>(answers.size()));
  }
  const std::vector<int> nodes = Nodes();
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_NE(nodes[0], nodes[1]);  // the second model's run is not beside the first one's
  EXPECT_NE(nodes[2], nodes[0]);  // the other instance of the model
  EXPECT_NE(nodes[3], nodes[1]);
  gate.Open();
  for (auto& a : answers) EXPECT_EQ(a.get().end, State::kSucceeded);
}

TEST_F(PlacedEngine, RefusesNodesThatAreNotThere) {
  const Status refused = engine_->Load("m", Telling(), {.nodes = {7}});
  EXPECT_EQ(refused.message(), "this process may use no processor of NUMA node 7");
  ASSERT_TRUE(engine_->Load("m", Telling(), {.instances = 2, .nodes = {1}}).ok());
  EXPECT_EQ(StatsOf(*engine_).nodes, (std::vector<int>{1, 1}));
}

TEST(Placement, NodesWithoutAPlacementAreRefused) {
  const auto engine = Made();
  const Status refused = engine->Load("m", SourceOf(kRowsModel), {.nodes = {0}});
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("places no instances"), std::string::npos);
  EXPECT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  EXPECT_TRUE(StatsOf(*engine).nodes.empty());
}

}  // namespace
}  // namespace infer::engine
