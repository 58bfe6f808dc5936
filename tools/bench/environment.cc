#include "tools/bench/environment.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/build_facts.h"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): glibc hides it

namespace infer::bench {
namespace {

const std::string kCpus = "/sys/devices/system/cpu/cpu";

std::string FirstWord(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

std::string NowUtc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc));
}

std::vector<int> Affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  return cpus;
}

std::vector<std::vector<int>> Cores(const std::vector<int>& cpus) {
  std::map<std::pair<int, int>, std::vector<int>> by_core;
  for (int cpu : cpus) {
    const std::string dir = Cat(kCpus, cpu, "/topology/");
    int package = 0, core = cpu;
    std::ifstream(dir + "physical_package_id") >> package;
    std::ifstream(dir + "core_id") >> core;
    by_core[{package, core}].push_back(cpu);
  }
  std::vector<std::vector<int>> cores;
  for (auto& [id, shared] : by_core) cores.push_back(std::move(shared));
  return cores;
}

/// Members of a list like "0-3,8".
int CountOfList(const std::string& list) {
  int64_t count = 0;
  for (const std::string& part : Split(list, ',')) {
    const std::vector<std::string> ends = Split(part, '-');
    const auto first = ParseInt(ends.front()), last = ParseInt(ends.back());
    if (first && last) count += *last - *first + 1;
  }
  return static_cast<int>(count);
}

int64_t BytesOfSize(std::string text) {
  int64_t unit = 1;
  if (text.ends_with('K')) unit = 1024;
  if (text.ends_with('M')) unit = 1024 * 1024;
  if (unit > 1) text.pop_back();
  return ParseInt(text).value_or(0) * unit;
}

std::vector<CacheFacts> Caches(int cpu) {
  std::vector<CacheFacts> caches;
  for (int i = 0;; ++i) {
    const std::string dir = Cat(kCpus, cpu, "/cache/index", i, "/");
    const std::string type = FirstWord(dir + "type");
    if (type.empty()) return caches;
    caches.push_back({.level = static_cast<int>(ParseInt(FirstWord(dir + "level")).value_or(0)),
                      .type = type,
                      .bytes = BytesOfSize(FirstWord(dir + "size")),
                      .shared_by = CountOfList(FirstWord(dir + "shared_cpu_list"))});
  }
}

bool HasHypervisor() {
  std::ifstream f("/proc/cpuinfo");
  for (std::string line; std::getline(f, line);)
    if (line.starts_with("flags")) return line.find(" hypervisor") != std::string::npos;
  return false;
}

std::map<std::string, std::string> Variables() {
  std::map<std::string, std::string> found;
  for (char** v = environ; v && *v; ++v) {
    const std::string text = *v;
    const size_t at = text.find('=');
    const bool ours = text.starts_with("OMP_") || text.starts_with("GOMP_") ||
                      text.starts_with("INFER_") || text.starts_with("ONEDNN_") ||
                      text.starts_with("DNNL_") || text.starts_with("MALLOC_") ||
                      text.starts_with("LD_PRELOAD=");
    if (ours && at != std::string::npos) found[text.substr(0, at)] = text.substr(at + 1);
  }
  return found;
}

}  // namespace

Environment CaptureEnvironment() {
  Environment e;
  e.date = NowUtc();
  e.host = GetHostFacts();
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) e.host_name = name;
  e.hypervisor = HasHypervisor();
  double load[3] = {};
  if (::getloadavg(load, 3) == 3) {
    e.load_1min = load[0];
    e.load_5min = load[1];
    e.load_15min = load[2];
  }
  e.affinity = Affinity();
  e.cores = Cores(e.affinity);
  if (!e.affinity.empty()) e.caches = Caches(e.affinity.front());
  std::set<std::string> governors;
  for (int cpu : e.affinity) {
    const std::string governor = FirstWord(Cat(kCpus, cpu, "/cpufreq/scaling_governor"));
    if (!governor.empty()) governors.insert(governor);
  }
  e.governors.assign(governors.begin(), governors.end());
  e.mhz = MegahertzNow(e.affinity);
  e.git_revision = BuildRevision();
  e.libraries = BuildLibraries();
  e.variables = Variables();
  return e;
}

double MegahertzNow(const std::vector<int>& cpus) {
  double fastest = 0;
  for (int cpu : cpus) {
    double khz = 0;
    std::ifstream(Cat(kCpus, cpu, "/cpufreq/scaling_cur_freq")) >> khz;
    fastest = std::max(fastest, khz / 1e3);
  }
  return fastest;
}

std::vector<std::string> Warnings(const Environment& e) {
  std::vector<std::string> out;
  if (e.host.build_type != "release") out.push_back("this is a debug build");
  if (e.load_1min > 0.5 * static_cast<double>(std::max<size_t>(e.affinity.size(), 1)))
    out.push_back(Cat("the machine is busy: load ", Fixed(e.load_1min, 2), " on ",
                      e.affinity.size(), e.affinity.size() == 1 ? " processor" : " processors"));
  for (const std::string& governor : e.governors)
    if (governor != "performance")
      out.push_back(Cat("the governor is '", governor, "': the clock changes with the load"));
  return out;
}

}  // namespace infer::bench
