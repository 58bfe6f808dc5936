#include "lib/support/topology.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kMostCpus = 1 << 20;  // a longer list is an error

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Of a file with one number; `otherwise` where there is none.
int NumberIn(const std::string& path, int otherwise) {
  int number = otherwise;
  std::ifstream(path) >> number;
  return number;
}

/// The node of each processor that a node lists.
std::map<int, int> NodesOfCpus(const std::string& system) {
  const std::string folder = system + "/devices/system/node/";
  const auto nodes = ParseCpuList(FirstLine(folder + "online"));
  std::map<int, int> node_of;
  if (!nodes.ok()) return node_of;
  for (int node : *nodes) {
    const auto cpus = ParseCpuList(FirstLine(Cat(folder, "node", node, "/cpulist")));
    if (!cpus.ok()) continue;
    for (int cpu : *cpus) node_of[cpu] = node;
  }
  return node_of;
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  const int known = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int cpu = 0; cpus.empty() && cpu < known; ++cpu) cpus.push_back(cpu);
  return cpus;
}

int CountCores(const std::vector<Topology::Cpu>& cpus) {
  std::set<int> cores;
  for (const Topology::Cpu& cpu : cpus) cores.insert(cpu.core);
  return static_cast<int>(cores.size());
}

}  // namespace

int Topology::Node::cores() const { return CountCores(cpus); }

int Topology::cores() const {
  int all = 0;
  for (const Node& node : nodes) all += node.cores();
  return all;
}

Result<std::vector<int>> ParseCpuList(const std::string& text) {
  const auto refuse = [&] { return InvalidArgument(Cat("'", text, "' is no list of processors")); };
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0, last = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc() || first < 0) return refuse();
    last = first;
    if (read.ptr != end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || last < first || last >= kMostCpus) return refuse();
    for (int n = first; n <= last; ++n) numbers.push_back(n);
    at = read.ptr;
    if (at == end) break;
    if (*at != ',' || ++at == end) return refuse();
  }
  if (numbers.empty()) return refuse();
  return numbers;
}

Topology ReadTopology(const std::string& system, const std::vector<int>& allowed) {
  const std::map<int, int> node_of = NodesOfCpus(system);
  std::map<std::pair<int, int>, int> core_numbers;  // (package, core) -> from 0
  std::map<int, Topology::Node> nodes;
  for (int cpu : allowed) {
    const std::string folder = Cat(system, "/devices/system/cpu/cpu", cpu, "/topology/");
    const std::pair<int, int> core{NumberIn(folder + "physical_package_id", 0),
                                   NumberIn(folder + "core_id", cpu)};
    const int count = static_cast<int>(core_numbers.size());
    const int number = core_numbers.try_emplace(core, count).first->second;
    const auto node = node_of.find(cpu);
    Topology::Node& n = nodes[node == node_of.end() ? 0 : node->second];
    n.cpus.push_back({.number = cpu, .core = number});
  }
  Topology topology;
  for (auto& [number, node] : nodes) {
    node.number = number;
    topology.nodes.push_back(std::move(node));
  }
  return topology;
}

const Topology& ThisTopology() {
  static const Topology topology = ReadTopology("/sys", AllowedCpus());
  return topology;
}

}  // namespace infer
