#include "tools/common/pinning.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tools/common/self.h"

namespace infer {

Result<std::vector<int>> FirstCpus(int n) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0)
    return IoError(Cat("sched_getaffinity: ", std::strerror(errno)));
  std::vector<int> first, second;
  std::set<std::pair<int, int>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string dir = Cat("/sys/devices/system/cpu/cpu", cpu, "/topology/");
    int package = 0, core = cpu;
    std::ifstream(dir + "physical_package_id") >> package;
    std::ifstream(dir + "core_id") >> core;
    (cores.emplace(package, core).second ? first : second).push_back(cpu);
  }
  first.insert(first.end(), second.begin(), second.end());
  if (static_cast<size_t>(n) > first.size())
    return InvalidArgument(Cat("--threads ", n, ": this process may use ", first.size(),
                               " processors, and every thread is to have one"));
  first.resize(static_cast<size_t>(n));
  return first;
}

Status PinLanes(char** argv, int threads) {
  if (std::getenv("OMP_PLACES") || std::getenv("OMP_PROC_BIND")) return {};
  const int lanes = threads > 0 ? threads : AvailableCores();
  INFER_ASSIGN(const std::vector<int> cpus, FirstCpus(lanes));
  std::string places;
  for (int cpu : cpus) places += Cat(places.empty() ? "" : ",", "{", cpu, "}");
  if (::setenv("OMP_PLACES", places.c_str(), 1) != 0 || ::setenv("OMP_PROC_BIND", "close", 1) != 0)
    return ResourceExhausted(Cat("setenv: ", std::strerror(errno)));
  INFER_ASSIGN(const std::string self, SelfPath());
  ::execv(self.c_str(), argv);
  return IoError(Cat("--pin: the program cannot be started again: ", std::strerror(errno)));
}

}  // namespace infer
