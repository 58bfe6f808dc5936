#pragma once
/// The processors that this process may use, by NUMA node and core.
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer {

struct Topology {
  struct Cpu {
    int number = 0;  ///< of the hardware thread, as the system counts them
    int core = 0;    ///< equal for hardware threads of one core; from 0, over all nodes
  };
  struct Node {
    int number = 0;  ///< as the system counts them
    std::vector<Cpu> cpus;

    int cores() const;
  };
  std::vector<Node> nodes;  ///< those with at least one processor

  int cores() const;
};

/// Numbers of a list such as "0-3,8" (the kernel's cpulist format). InvalidArgument where it is
/// none.
Result<std::vector<int>> ParseCpuList(const std::string& text);

/// Of the processors `allowed`, from `system` ("/sys"): devices/system/node/node*/cpulist and
/// devices/system/cpu/cpu*/topology. What is not written there is taken to be one node, and a core
/// for each processor.
Topology ReadTopology(const std::string& system, const std::vector<int>& allowed);

/// Of the calling thread's processors when this was first called. Never has no node.
const Topology& ThisTopology();

}  // namespace infer
