#include "tools/bench/core_probe.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "lib/support/measure.h"
#include "lib/support/strings.h"

namespace infer::bench {
namespace {

constexpr size_t kMostCpus = 8;
constexpr int kRounds = 9;

/// Keeps the multiplier busy: eight chains hide its latency, so that a second thread on the same
/// core finds no room.
double MultiplyMs() {
  constexpr int kChains = 8;
  constexpr int64_t kSteps = 1'000'000;
  volatile uint64_t sink = 1;
  uint64_t x[kChains];
  for (int c = 0; c < kChains; ++c) x[c] = sink + static_cast<uint64_t>(c);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < kSteps; ++i)
    for (uint64_t& chain : x) {
      chain *= 6364136223846793005ull;
      // Not to be turned into one product, nor into vectors.
      asm volatile("" : "+r"(chain));
    }
  const double ms = MsSince(start);
  uint64_t sum = 0;
  for (uint64_t chain : x) sum += chain;
  sink = sum;
  return ms;
}

struct Spinner {
  int cpu;
  double ms = 0;
  int error = 0;
};

/// Runs all spinners at once, each on its processor; the slowest one's time.
double Together(std::span<Spinner> spinners) {
  std::atomic<size_t> ready{0};
  std::vector<std::jthread> threads;
  const auto spin = [&ready, all = spinners.size()](Spinner& s) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(s.cpu, &mask);
    s.error = ::pthread_setaffinity_np(::pthread_self(), sizeof mask, &mask);
    ready.fetch_add(1);
    while (ready.load() < all) std::this_thread::yield();
    if (s.error == 0) s.ms = MultiplyMs();
  };
  try {
    for (Spinner& s : spinners) threads.emplace_back([&s, &spin] { spin(s); });
  } catch (...) {
    ready.fetch_add(spinners.size());  // nobody waits for a thread that could not be started
    threads.clear();
    throw;
  }
  threads.clear();
  double slowest = 0;
  for (const Spinner& s : spinners) slowest = std::max(slowest, s.ms);
  return slowest;
}

}  // namespace

Result<std::vector<CorePair>> ProbeCores(std::span<const int> cpus) {
  cpus = cpus.first(std::min(cpus.size(), kMostCpus));
  std::vector<CorePair> pairs;
  for (size_t i = 0; i < cpus.size(); ++i)
    for (size_t k = i + 1; k < cpus.size(); ++k) {
      double alone = 0, both = 0;
      for (int round = 0; round < kRounds; ++round) {
        Spinner a[] = {{cpus[i]}}, b[] = {{cpus[k]}}, two[] = {{cpus[i]}, {cpus[k]}};
        const double slower = std::max(Together(a), Together(b)), together = Together(two);
        for (const Spinner& s : two)
          if (s.error) return IoError(Cat("processor ", s.cpu, ": ", std::strerror(s.error)));
        alone = round == 0 ? slower : std::min(alone, slower);
        both = round == 0 ? together : std::min(both, together);
      }
      pairs.push_back({.a = cpus[i], .b = cpus[k], .slowdown = alone > 0 ? both / alone : 1});
    }
  return pairs;
}

}  // namespace infer::bench
