/// Topologies that are written into a folder, and lanes that are pinned to real processors.
#include "lib/support/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/support/lane_pool.h"
#include "lib/support/parallel.h"
#include "lib/support/pinning.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

void WriteLine(const fs::path& path, const std::string& line) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << line << "\n";
}

/// A /sys of two nodes; `threads` hardware threads a core, numbered as Linux does: first ones
/// first.
class FakeSystem {
 public:
  FakeSystem(int cores_per_node, int threads)
      : root_(fs::path(testing::TempDir()) /
              Cat("sys_", getpid(), "_", cores_per_node, "_", threads)) {
    const int cores = 2 * cores_per_node;
    WriteLine(root_ / "devices/system/node/online", "0-1");
    for (int node = 0; node < 2; ++node) {
      std::string list;
      for (int t = 0; t < threads; ++t) {
        const int first = t * cores + node * cores_per_node;
        list += Cat(t ? "," : "", first, "-", first + cores_per_node - 1);
      }
      WriteLine(root_ / Cat("devices/system/node/node", node, "/cpulist"), list);
    }
    for (int cpu = 0; cpu < cores * threads; ++cpu) {
      const fs::path topology = root_ / Cat("devices/system/cpu/cpu", cpu, "/topology");
      WriteLine(topology / "physical_package_id", Cat(cpu % cores / cores_per_node));
      WriteLine(topology / "core_id", Cat(cpu % cores_per_node));  // as numbered in a package
      all_.push_back(cpu);
    }
  }
  ~FakeSystem() { fs::remove_all(root_); }
  std::string root() const { return root_.string(); }
  const std::vector<int>& all() const { return all_; }

 private:
  fs::path root_;
  std::vector<int> all_;
};

std::vector<int> NumbersOf(const Topology::Node& node) {
  std::vector<int> numbers;
  for (const Topology::Cpu& cpu : node.cpus) numbers.push_back(cpu.number);
  return numbers;
}

TEST(Topology, ReadsTheKernelsLists) {
  EXPECT_EQ(*ParseCpuList("0"), (std::vector<int>{0}));
  EXPECT_EQ(*ParseCpuList("0-3,8,10-11"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  for (const char* broken : {"", "-1", "3-1", "1,", ",1", "1-", "a", "1 2", "0-99999999", "0x1"})
    EXPECT_FALSE(ParseCpuList(broken).ok()) << broken;
}

TEST(Topology, HasNodesAndTheirCores) {
  const FakeSystem system(4, 2);
  const Topology t = ReadTopology(system.root(), system.all());
  ASSERT_EQ(t.nodes.size(), 2u);
  EXPECT_EQ(t.nodes[0].cores(), 4);
  EXPECT_EQ(t.cores(), 8);
  EXPECT_EQ(NumbersOf(t.nodes[1]), (std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15}));
  // Cores of two packages have the same core_id, and are two cores.
  EXPECT_NE(t.nodes[0].cpus[0].core, t.nodes[1].cpus[0].core);
  EXPECT_EQ(t.nodes[1].cpus[0].core, t.nodes[1].cpus[4].core);
}

TEST(Topology, HasOnlyProcessorsThatMayBeUsed) {
  const FakeSystem system(4, 1);
  const Topology t = ReadTopology(system.root(), {5, 6});
  ASSERT_EQ(t.nodes.size(), 1u);
  EXPECT_EQ(t.nodes[0].number, 1);
  EXPECT_EQ(NumbersOf(t.nodes[0]), (std::vector<int>{5, 6}));
}

TEST(Topology, WithoutASystemIsOneNodeOfCores) {
  const Topology t = ReadTopology("/nowhere", {0, 1, 2});
  ASSERT_EQ(t.nodes.size(), 1u);
  EXPECT_EQ(t.nodes[0].number, 0);
  EXPECT_EQ(t.cores(), 3);
}

TEST(Topology, OfThisMachineHasTheCoresOfTheBudget) {
  EXPECT_GE(ThisTopology().cores(), AvailableCores());
}

/// The processors on which the parts of a team ran, by lane. Parts that wait for each other are
/// each on a thread of their own, whatever else the machine does.
std::vector<int> WhereLanesRun(int lanes) {
  std::vector<int> cpus(static_cast<size_t>(lanes), -1);
  Team& team = Team::OfThisThread();
  team.GrowTo(lanes);
  EXPECT_EQ(team.size(), lanes);
  std::atomic<int> begun{0};
  const auto part = [&](int i) {
    ++begun;
    while (begun < lanes) std::this_thread::yield();
    cpus[static_cast<size_t>(i)] = sched_getcpu();
  };
  if (team.size() == lanes) team.Run(lanes, part, lanes);
  team.ShrinkTo(1);
  return cpus;
}

std::vector<int> Processors() {
  std::vector<int> all;
  for (const Topology::Node& node : ThisTopology().nodes)
    for (const Topology::Cpu& cpu : node.cpus) all.push_back(cpu.number);
  return all;
}

TEST(Pinning, LanesRunWhereTheirMasksSay) {
  const std::vector<int> all = Processors();
  if (all.size() < 2 || !CanPinLanes().ok()) GTEST_SKIP() << "needs two processors, unbound";
  const CpuMask before = CpuMask::OfThisThread();
  for (const int only : {all[0], all[1]}) {
    const LaneMasks masks = {CpuMask({only})};
    const PinScope scope(&masks);
    for (int cpu : WhereLanesRun(2)) EXPECT_EQ(cpu, only);
  }
  EXPECT_TRUE(CpuMask::OfThisThread() == before);
}

TEST(Pinning, EachLaneHasItsOwn) {
  const std::vector<int> all = Processors();
  if (all.size() < 2 || !CanPinLanes().ok()) GTEST_SKIP() << "needs two processors, unbound";
  const LaneMasks masks = {CpuMask({all[1]}), CpuMask({all[0]})};
  const PinScope scope(&masks);
  EXPECT_EQ(WhereLanesRun(2), (std::vector<int>{all[1], all[0]}));
}

/// A lane that was pinned for one run goes where it likes in the next.
TEST(Pinning, EndsWithTheScope) {
  const std::vector<int> all = Processors();
  if (all.size() < 2 || !CanPinLanes().ok()) GTEST_SKIP() << "needs two processors, unbound";
  const LaneMasks masks = {CpuMask({all[0]})};
  {
    const PinScope scope(&masks);
    WhereLanesRun(2);
  }
  const LaneLease lease(2);
  std::atomic<int> pinned{0};
  ParallelFor(64, 1, [&](int64_t, int64_t) { pinned += CpuMask::OfThisThread() == masks[0]; });
  EXPECT_EQ(pinned, 0);
}

TEST(Pinning, WithinALeaseOrWithoutMasksChangesNothing) {
  const CpuMask before = CpuMask::OfThisThread();
  const LaneMasks none, masks = {CpuMask({Processors()[0]})};
  {
    const PinScope nothing(nullptr), empty(&none);
    EXPECT_EQ(MaskOfLane(0), nullptr);
  }
  const LaneLease lease(1);
  const PinScope inner(&masks);
  EXPECT_EQ(MaskOfLane(0), nullptr);
  EXPECT_TRUE(CpuMask::OfThisThread() == before);
}

}  // namespace
}  // namespace infer
