#pragma once
/// Where a measurement was taken: what may explain a difference between two of them, and what a
/// reader has to be warned of.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/common/host.h"

namespace infer::bench {

struct CacheFacts {
  int level = 0;
  std::string type;  ///< "Data", "Instruction", "Unified"
  int64_t bytes = 0;
  int shared_by = 0;  ///< logical processors
};

struct Environment {
  std::string date;  ///< RFC 3339, UTC
  HostFacts host;
  std::string host_name;
  bool hypervisor = false;  ///< a virtual machine: cores may be threads of one, and be taken away
  double load_1min = 0, load_5min = 0, load_15min = 0;
  std::vector<int> affinity;            ///< logical processors that the process may use
  std::vector<std::vector<int>> cores;  ///< of these, those that the system says share a core
  std::vector<CacheFacts> caches;       ///< of the first of them
  std::vector<std::string> governors;   ///< in use on them; empty where the kernel does not say
  double mhz = 0;                       ///< of the fastest of them now; 0: not told
  std::string git_revision;  ///< of the build, "-dirty" behind it; "" outside a repository
  std::map<std::string, std::string> libraries;  ///< name to version
  std::map<std::string, std::string> variables;  ///< environment that changes speed: OMP_*, INFER_*
};
Environment CaptureEnvironment();

/// Of the fastest of these processors now; 0 where the system does not say.
double MegahertzNow(const std::vector<int>& cpus);

/// What a reader should know before believing numbers from here: a debug build, a busy machine, a
/// governor that changes the clock.
std::vector<std::string> Warnings(const Environment& e);

}  // namespace infer::bench
