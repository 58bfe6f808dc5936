#include "lib/support/fork.h"

#include <pthread.h>

#include <atomic>

namespace infer {
namespace {

std::atomic<uint64_t>& Forks() {
  static std::atomic<uint64_t> forks{0};
  return forks;
}

}  // namespace

uint64_t ForksSoFar() {
  static const int watched = ::pthread_atfork(nullptr, nullptr, [] { ++Forks(); });
  (void)watched;
  return Forks().load(std::memory_order_relaxed);
}

}  // namespace infer
