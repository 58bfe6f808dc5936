#pragma once
/// Processors for instances: which NUMA node, or which cores, each context of each model runs on.
/// All of it is arithmetic on a Topology, which a test may invent.
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/support/pinning.h"
#include "lib/support/topology.h"

namespace infer::engine {

enum class Placement : uint8_t {
  kAnywhere,  ///< threads run where the system puts them
  kNodes,     ///< an instance keeps to one NUMA node, if that has as many cores as a run has lanes
  kCores,     ///< as kNodes, and each lane of a run keeps to one core
};

std::string_view Name(Placement placement);  ///< "anywhere", "nodes", "cores"
std::optional<Placement> PlacementOf(std::string_view name);

/// Where one instance runs.
struct Home {
  int node = -1;           ///< the system's number; -1: more than one
  std::vector<int> cores;  ///< Topology::Cpu::core, one for each lane that it was counted for
  std::vector<int> nodes;  ///< positions in Topology::nodes that they belong to
  LaneMasks masks = {};    ///< for PinScope
};

/// The instances of all models of an engine. Thread-safe.
class Homes : public std::enable_shared_from_this<Homes> {
 public:
  /// Pre: `placement` is not kAnywhere, `topology` has a node.
  Homes(Placement placement, Topology topology);

  /// Where one more instance goes whose runs take `lanes` (>= 1) lanes: among `nodes` (numbers of
  /// the system's; empty: all), the one with the smallest share of its cores spoken for, then the
  /// first. A run of more lanes than any of them has cores is spread over all of them. The place is
  /// free again when the result goes. InvalidArgument: a node that is not there.
  Result<std::shared_ptr<const Home>> Place(int lanes, const std::vector<int>& nodes);

  /// A run there begins, or has ended.
  void Began(const Home& home) { Count(home, running_, 1); }
  void Ended(const Home& home) { Count(home, running_, -1); }
  /// Lanes of runs that go on where a run of it would: of its node, or of its cores.
  int Busy(const Home& home) const;

 private:
  void Count(const Home& home, std::vector<int>& lanes, int sign);
  double ShareSpokenFor(const Topology::Node& node, int more) const;
  std::vector<size_t> Candidates(int lanes, const std::vector<int>& nodes) const;
  LaneMasks MasksOf(const Home& home) const;

  const Placement placement_;
  const Topology topology_;
  mutable std::mutex mutex_;
  std::vector<int> spoken_for_, running_;  // lanes by core
};

}  // namespace infer::engine
