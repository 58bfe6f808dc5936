#include "lib/support/memory_limit.h"

#include <atomic>

namespace infer {
namespace {

std::atomic<int64_t> g_limit{INT64_MAX};
std::atomic<int64_t> g_charged{0};

}  // namespace

void SetMemoryLimit(int64_t bytes) { g_limit.store(bytes, std::memory_order_relaxed); }
int64_t MemoryLimit() { return g_limit.load(std::memory_order_relaxed); }
int64_t ChargedMemory() { return g_charged.load(std::memory_order_relaxed); }

void ChargeMemory(int64_t bytes) {
  const int64_t limit = MemoryLimit();
  int64_t before = ChargedMemory();
  do {
    if (bytes > limit || before > limit - bytes) throw MemoryLimitReached(limit);
  } while (!g_charged.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
}

void ReleaseMemory(int64_t bytes) noexcept {
  g_charged.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace infer
