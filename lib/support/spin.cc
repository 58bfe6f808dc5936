#include "lib/support/spin.h"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace infer {
namespace {

constexpr int kLooks = 32;                   // between two readings of the clock
constexpr int64_t kInterruptedNs = 200'000;  // kLooks take some 2 us
constexpr int64_t kSampleNs = 4'000'000;     // between two readings of /proc/loadavg
constexpr int64_t kSampleAfterNs = 20'000;   // of spinning: who waits less has no time for it
constexpr int64_t kCrowdedNs = 50'000'000;   // that the news holds
constexpr int64_t kCrowdedLimitNs = 2'000;   // as long as a thread on its way out needs
constexpr int kCrowdedSamples = 2;           // in a row: one may be a moment of the kernel's

void Pause() {
#ifdef __x86_64__
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Runnable threads of the whole machine; 0: unknown.
int RunnableThreads() {
  static const int file = ::open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  char text[128];
  const ssize_t n = file < 0 ? 0 : ::pread(file, text, sizeof text - 1, 0);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* at = text;
  for (int field = 0; field < 3 && at; ++field)
    if ((at = std::strchr(at, ' '))) ++at;
  return at ? std::atoi(at) : 0;
}

struct Crowd {
  std::atomic<int> pretended{-1};
  std::atomic<int64_t> until{0};
  std::atomic<int64_t> next_sample{0};
  std::atomic<int> in_a_row{0};
  const int processors = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const bool passive = [] {
    const char* policy = std::getenv("OMP_WAIT_POLICY");
    return policy && ::strcasecmp(policy, "passive") == 0;
  }();
};
Crowd& TheCrowd() {
  static Crowd crowd;
  return crowd;
}

void Sample(Crowd& crowd, int64_t now) {
  int64_t due = crowd.next_sample;
  if (now < due || !crowd.next_sample.compare_exchange_strong(due, now + kSampleNs)) return;
  if (RunnableThreads() <= crowd.processors)
    crowd.in_a_row = 0;
  else if (++crowd.in_a_row >= kCrowdedSamples)
    crowd.until = now + kCrowdedNs;
}

bool IsCrowdedAt(const Crowd& crowd, int64_t now) {
  if (const int pretended = crowd.pretended; pretended >= 0) return pretended != 0;
  return crowd.passive || now < crowd.until;
}

}  // namespace

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool IsCrowded() { return IsCrowdedAt(TheCrowd(), NowNs()); }

void PretendCrowded(int crowded) { TheCrowd().pretended = crowded; }

void SpinTime::Learn(int64_t gap_ns) {
  // A longer spin would have met it: spin as long as can be. Else half as long next time.
  limit_ns_ = gap_ns <= kMostNs ? kMostNs : std::max(kLeastNs, limit_ns_ / 2);
}

Spin::Spin(int64_t limit_ns) : begin_(NowNs()), now_(begin_) {
  limit_ = IsCrowdedAt(TheCrowd(), now_) ? std::min(limit_ns, kCrowdedLimitNs) : limit_ns;
}

bool Spin::Again() {
  Pause();
  if (++looks_ % kLooks != 0) return true;
  const int64_t before = std::exchange(now_, NowNs());
  Crowd& crowd = TheCrowd();
  if (now_ - before > kInterruptedNs) crowd.until = now_ + kCrowdedNs;
  if (elapsed_ns() > kSampleAfterNs) Sample(crowd, now_);
  return elapsed_ns() < limit_ && !(elapsed_ns() > kCrowdedLimitNs && IsCrowdedAt(crowd, now_));
}

}  // namespace infer
