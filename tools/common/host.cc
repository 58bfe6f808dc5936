#include "tools/common/host.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <thread>

#include "lib/support/isa.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

std::string CpuModel() {
  std::ifstream f("/proc/cpuinfo");
  for (std::string line; std::getline(f, line);)
    if (line.rfind("model name", 0) == 0)
      if (const size_t colon = line.find(':'); colon != std::string::npos)
        return std::string(Trim(std::string_view(line).substr(colon + 1)));
  return "unknown";
}

std::string BestIsa() {
#if defined(__x86_64__)
  if (HasIsa(Isa::kVnni)) return "avx512_vnni";
  if (HasIsa(Isa::kAvx512)) return "avx512";
  if (HasIsa(Isa::kAvx2)) return "avx2";
  if (__builtin_cpu_supports("sse4.1")) return "sse4";
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "generic";
#endif
}

}  // namespace

HostFacts GetHostFacts() {
  HostFacts h;
  h.cpu_model = CpuModel();
  h.isa = BestIsa();
  h.logical_cpus = static_cast<int>(std::thread::hardware_concurrency());
  h.usable_cores = AvailableCores();
  h.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  if (utsname u; uname(&u) == 0) h.os = Cat(u.sysname, " ", u.release);
#if defined(__clang__)
  h.compiler = Cat("clang ", __clang_major__, ".", __clang_minor__);
#else
  h.compiler = Cat("gcc ", __GNUC__, ".", __GNUC_MINOR__);
#endif
#ifdef NDEBUG
  h.build_type = "release";
#else
  h.build_type = "debug";
#endif
  std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") >> h.governor;
  double load = 0;
  if (getloadavg(&load, 1) == 1) h.load_1min = load;
  return h;
}

MachineSeconds GetMachineSeconds() {
  std::ifstream f("/proc/stat");
  std::string cpu;
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice already.
  double t[8] = {};
  if (!(f >> cpu) || cpu != "cpu") return {};
  for (double& v : t)
    if (!(f >> v)) return {};
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return {.busy = (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / ticks, .stolen = t[7] / ticks};
}

double OwnCpuSeconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

int64_t ResidentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t PeakResidentBytes() {
  // Of getrusage the high-water mark is also that of the process which started this one.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (int64_t kib = 0; std::sscanf(line.c_str(), "VmHWM: %ld kB", &kib) == 1)
      return std::max(kib * 1024, ResidentBytes());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::max(int64_t{usage.ru_maxrss} * 1024, ResidentBytes());
}

}  // namespace infer
