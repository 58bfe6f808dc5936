#include "runtime/engine/placement.h"

#include <algorithm>
#include <set>

#include "lib/support/status.h"
#include "lib/support/strings.h"

namespace infer::engine {
namespace {

std::set<int> CoresOf(const Topology::Node& node) {
  std::set<int> cores;
  for (const Topology::Cpu& cpu : node.cpus) cores.insert(cpu.core);
  return cores;
}

}  // namespace

std::string_view Name(Placement placement) {
  switch (placement) {
    case Placement::kAnywhere: return "anywhere";
    case Placement::kNodes: return "nodes";
    case Placement::kCores: break;
  }
  return "cores";
}

std::optional<Placement> PlacementOf(std::string_view name) {
  for (Placement p : {Placement::kAnywhere, Placement::kNodes, Placement::kCores})
    if (Name(p) == name) return p;
  return std::nullopt;
}

Homes::Homes(Placement placement, Topology topology)
    : placement_(placement), topology_(std::move(topology)) {
  INFER_CHECK(placement_ != Placement::kAnywhere && !topology_.nodes.empty());
  int cores = 0;
  for (const Topology::Node& node : topology_.nodes)
    for (const Topology::Cpu& cpu : node.cpus) cores = std::max(cores, cpu.core + 1);
  spoken_for_.resize(static_cast<size_t>(cores));
  running_.resize(spoken_for_.size());
}

Result<std::shared_ptr<const Home>> Homes::Place(int lanes, const std::vector<int>& nodes) {
  INFER_CHECK(lanes >= 1);
  for (int number : nodes)
    if (std::none_of(topology_.nodes.begin(), topology_.nodes.end(),
                     [&](const Topology::Node& n) { return n.number == number; }))
      return InvalidArgument(Cat("this process may use no processor of NUMA node ", number));
  Home home;
  {
    const std::lock_guard lock(mutex_);
    std::vector<int> free;  // cores, those with the fewest lanes first
    for (size_t n : Candidates(lanes, nodes)) {
      const std::set<int> cores = CoresOf(topology_.nodes[n]);
      free.insert(free.end(), cores.begin(), cores.end());
      home.nodes.push_back(static_cast<int>(n));
    }
    std::stable_sort(free.begin(), free.end(), [&](int a, int b) {
      return spoken_for_[static_cast<size_t>(a)] < spoken_for_[static_cast<size_t>(b)];
    });
    for (int i = 0; i < lanes; ++i)
      home.cores.push_back(free[static_cast<size_t>(i) % free.size()]);
    if (home.nodes.size() == 1)
      home.node = topology_.nodes[static_cast<size_t>(home.nodes.front())].number;
    for (int core : home.cores) ++spoken_for_[static_cast<size_t>(core)];
  }
  home.masks = MasksOf(home);
  return std::shared_ptr<const Home>(new Home(std::move(home)),
                                     [homes = shared_from_this()](const Home* gone) {
                                       homes->Count(*gone, homes->spoken_for_, -1);
                                       delete gone;
                                     });
}

int Homes::Busy(const Home& home) const {
  const std::lock_guard lock(mutex_);
  int lanes = 0;
  if (placement_ == Placement::kCores) {
    for (int core : home.cores) lanes += running_[static_cast<size_t>(core)];
    return lanes;
  }
  for (int node : home.nodes)
    for (int core : CoresOf(topology_.nodes[static_cast<size_t>(node)]))
      lanes += running_[static_cast<size_t>(core)];
  return lanes;
}

void Homes::Count(const Home& home, std::vector<int>& lanes, int sign) {
  const std::lock_guard lock(mutex_);
  for (int core : home.cores) lanes[static_cast<size_t>(core)] += sign;
}

/// With the mutex held: lanes for each core of the node, if `more` came.
double Homes::ShareSpokenFor(const Topology::Node& node, int more) const {
  const std::set<int> cores = CoresOf(node);
  int lanes = more;
  for (int core : cores) lanes += spoken_for_[static_cast<size_t>(core)];
  return static_cast<double>(lanes) / static_cast<double>(cores.size());
}

/// With the mutex held: positions of the node, or of all nodes, that the instance runs on.
std::vector<size_t> Homes::Candidates(int lanes, const std::vector<int>& nodes) const {
  std::vector<size_t> all, best;
  double least = 0;
  for (size_t i = 0; i < topology_.nodes.size(); ++i) {
    const Topology::Node& node = topology_.nodes[i];
    if (!nodes.empty() && std::count(nodes.begin(), nodes.end(), node.number) == 0) continue;
    all.push_back(i);
    const double share = ShareSpokenFor(node, lanes);
    if (node.cores() < lanes || (!best.empty() && share >= least)) continue;
    best = {i};
    least = share;
  }
  return best.empty() ? all : best;
}

LaneMasks Homes::MasksOf(const Home& home) const {
  const bool of_cores = placement_ == Placement::kCores;
  const size_t count = of_cores ? home.cores.size() : 1;
  LaneMasks masks;
  for (size_t i = 0; i < count; ++i) {
    std::vector<int> cpus;
    for (int node : home.nodes)
      for (const Topology::Cpu& cpu : topology_.nodes[static_cast<size_t>(node)].cpus)
        if (!of_cores || cpu.core == home.cores[i]) cpus.push_back(cpu.number);
    masks.emplace_back(cpus);
  }
  return masks;
}

}  // namespace infer::engine
