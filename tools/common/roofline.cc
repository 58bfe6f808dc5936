#include "tools/common/roofline.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>

#include "lib/support/measure.h"
#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/peak_loops.h"

namespace infer {
namespace {

constexpr double kBurstMs = 2;
constexpr int kBursts = 10;  // the best counts: others were disturbed
constexpr int64_t kLargestSweep = int64_t{128} << 20;

/// Of the data cache of this level; sysconf tells a virtual machine what its host has. 0: none
/// known.
int64_t CacheBytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string dir = Cat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    std::string type, size;
    int at = 0;
    if (!(std::ifstream(dir + "level") >> at)) break;
    std::ifstream(dir + "type") >> type;
    if (at != level || type == "Instruction" || !(std::ifstream(dir + "size") >> size)) continue;
    const auto number = static_cast<int64_t>(std::strtoll(size.c_str(), nullptr, 10));
    return number << (size.ends_with('M') ? 20 : size.ends_with('K') ? 10 : 0);
  }
  return 0;
}

/// The largest amount per second that `lanes` threads together do; one call of `work(lane, n)` does
/// `amount` * n.
template <typename F>
double BestRate(int lanes, double amount, const F& work) {
  // How much work a burst is, one lane tells: on a busy machine several wait for each other so long
  // that any amount seems enough.
  int64_t n = 1;
  for (double ms = 0; n < (int64_t{1} << 40); n *= ms < kBurstMs / 20 ? 10 : 2) {
    const auto start = std::chrono::steady_clock::now();
    work(0, n);
    ms = MsSince(start);
    if (ms >= kBurstMs / 2) break;
  }
  double best = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    const auto start = std::chrono::steady_clock::now();
    ParallelFor(lanes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t lane = begin; lane < end; ++lane) work(lane, n);
    });
    best = std::max(best, amount * static_cast<double>(n) * lanes / MsSince(start) * 1e3);
  }
  return best;
}

double ReadRate(int lanes, int64_t bytes_per_lane, const PeakLoops& loops, const Buffer& memory) {
  const int64_t step = bytes_per_lane / 1024 * 1024;
  return BestRate(lanes, static_cast<double>(step),
                  [&](int64_t lane, int64_t n) {
                    const std::byte* p = memory.data() + lane * step;
                    for (int64_t i = 0; i < n; ++i) loops.read(p, step);
                  }) /
         1e9;
}

Roofline Measured(int lanes) {
  const auto start = std::chrono::steady_clock::now();
  Roofline r;
  const LaneLease lease(lanes);
  r.lanes = lease.lanes();
  const PeakLoops loops = BestPeakLoops();
  r.f32_gflops = BestRate(r.lanes, loops.f32_ops, [&](int64_t, int64_t n) { loops.f32(n); }) / 1e9;
  r.int8_gops = BestRate(r.lanes, loops.int8_ops, [&](int64_t, int64_t n) { loops.int8(n); }) / 1e9;
  const int64_t l1 = std::max(CacheBytes(1), int64_t{32} << 10);
  const int64_t l2 = std::max(CacheBytes(2), int64_t{256} << 10);
  const int64_t l3 = CacheBytes(3);
  const int64_t largest = std::max(l2 * r.lanes, l3);
  const int64_t sweep = std::min(kLargestSweep, std::max(2 * largest, int64_t{32} << 20));
  const auto memory = Buffer::Allocate(static_cast<size_t>(std::max(sweep, l2 * r.lanes)));
  // Pages that were never written are one page of zeros.
  ParallelFor(r.lanes, 1, [&](int64_t begin, int64_t end) {
    const int64_t size = static_cast<int64_t>(memory->size()) / r.lanes;
    std::fill(memory->mutable_data() + begin * size, memory->mutable_data() + end * size,
              std::byte{1});
  });
  auto level = [&](const char* name, int64_t holds, int64_t bytes_per_lane) {
    r.levels.push_back({name, holds, ReadRate(r.lanes, bytes_per_lane, loops, *memory)});
  };
  level("L1", l1 * r.lanes, l1 / 2);
  level("L2", l2 * r.lanes, l2 / 2);
  if (l3 > 2 * l2) level("L3", l3, std::min(l3 / 2, sweep) / r.lanes);
  level("memory", 0, sweep / r.lanes);
  r.measured_ms = MsSince(start);
  return r;
}

}  // namespace

const MemoryLevel& Roofline::LevelOf(int64_t bytes) const {
  for (const MemoryLevel& level : levels)
    if (bytes <= level.bytes) return level;
  return levels.back();
}

double Roofline::FloorMs(const StepInfo& step, const Cost& cost, int64_t program_bytes) const {
  const bool is_int8 = step.precision.ends_with("s32");
  const double peak = is_int8 ? int8_gops : f32_gflops;
  const int64_t moved = cost.bytes_read + cost.bytes_written;
  // A look-up reads few rows of its table.
  const int64_t constants = std::min(step.constant_bytes, cost.bytes_read);
  const double compute = static_cast<double>(cost.flops) / peak;
  const double traffic =
      static_cast<double>(constants) / LevelOf(program_bytes).gb_per_s +
      static_cast<double>(moved - constants) / LevelOf(moved - constants).gb_per_s;
  return std::max(compute, traffic) / 1e6;
}

std::string Roofline::ToString() const {
  std::vector<std::string> read;
  for (const MemoryLevel& l : levels) read.push_back(Cat(l.name, " ", Fixed(l.gb_per_s, 0)));
  return Cat("FMA ", Fixed(f32_gflops, 0), " GFLOP/s, int8 ", Fixed(int8_gops, 0), " GOP/s, ",
             Join(read, ", "), " GB/s");
}

const Roofline& MeasuredRoofline(int lanes) {
  static std::mutex mutex;
  static std::map<int, Roofline> measured;
  const std::lock_guard lock(mutex);
  auto it = measured.find(lanes);
  if (it == measured.end()) it = measured.emplace(lanes, Measured(lanes)).first;
  return it->second;
}

Json ToJson(const Roofline& r) {
  Json levels = Json::array();
  for (const MemoryLevel& l : r.levels)
    levels.push_back({{"name", l.name}, {"bytes", l.bytes}, {"gb_per_s", l.gb_per_s}});
  return {{"lanes", r.lanes},
          {"f32_gflops", r.f32_gflops},
          {"int8_gops", r.int8_gops},
          {"levels", std::move(levels)},
          {"measured_ms", r.measured_ms}};
}

}  // namespace infer
