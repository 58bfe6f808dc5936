#pragma once
/// Facts of the machine and process that a measurement depends on.
#include <cstdint>
#include <string>

namespace infer {

struct HostFacts {
  std::string cpu_model;
  std::string isa;  ///< best of sse4, avx2, avx512, avx512_vnni that the processor has
  int logical_cpus = 0;
  int usable_cores = 0;  ///< physical, within affinity and cgroup quota
  int64_t memory_bytes = 0;
  std::string os;  ///< kernel name and release
  std::string compiler;
  std::string build_type;
  std::string governor;  ///< "" when the kernel does not say
  double load_1min = 0;
};
HostFacts GetHostFacts();

/// Processor seconds of the whole machine since it started; < 0 where the system does not say.
struct MachineSeconds {
  double busy = -1;    ///< of all processes, what a hypervisor took included
  double stolen = -1;  ///< what a hypervisor took
};
MachineSeconds GetMachineSeconds();
/// Processor seconds of this process.
double OwnCpuSeconds();

/// Highest resident set of this process so far, in bytes.
int64_t PeakResidentBytes();
/// Resident set of this process now, in bytes; 0 where the system does not say.
int64_t ResidentBytes();

}  // namespace infer
