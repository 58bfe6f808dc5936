#include "lib/support/spin.h"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "lib/support/retry.h"

namespace infer {
namespace {

constexpr int64_t kSampleNs = 4'000'000;    // between two readings of /proc/loadavg
constexpr int64_t kSampleAfterNs = 20'000;  // of spinning: who waits less has no time for it
constexpr int64_t kNewsNs = 50'000'000;     // that a reading is believed
constexpr int kAll = std::numeric_limits<int>::max();

/// Runnable threads of the whole machine; 0: unknown.
int RunnableThreads() {
  static const int file = Retry([] { return ::open("/proc/loadavg", O_RDONLY | O_CLOEXEC); });
  char text[128];
  const ssize_t n = file < 0 ? 0 : ::pread(file, text, sizeof text - 1, 0);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* at = text;
  for (int field = 0; field < 3 && at; ++field) {
    at = std::strchr(at, ' ');
    if (at) ++at;
  }
  return at ? std::atoi(at) : 0;
}

bool PolicyIs(const char* name) {
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  return policy && ::strcasecmp(policy, name) == 0;
}

/// What else wants the processors.
class Crowd {
 public:
  std::atomic<int> ours{0}, pretended{-1};
  const bool passive = PolicyIs("passive");

  /// Reads again where the last reading is old.
  void Look(int64_t now) {
    int64_t due = next_look_.load(std::memory_order_relaxed);
    if (now < due || active_ || !next_look_.compare_exchange_strong(due, now + kSampleNs)) return;
    const int runnable = RunnableThreads();
    const int free = std::min(processors_, processors_ - (runnable - ours));
    // Others that were there in one reading only may be a moment of the kernel's.
    const int both = std::max(free, last_free_.exchange(free));
    if (runnable == 0 || both >= processors_) {
      until_ = 0;
      return;
    }
    free_ = both;
    full_ = runnable > processors_;
    until_ = now + kNewsNs;
  }
  bool any_news() const { return until_ != 0 || pretended >= 0; }
  /// Processors that others leave; kAll: all of them.
  int Free(int64_t now) const {
    if (const int p = pretended; p >= 0) return p;
    return now < until_ ? free_.load() : kAll;
  }
  bool IsFull(int64_t now) const {
    if (const int p = pretended; p >= 0) return p <= 0;
    return now < until_ && full_;
  }

 private:
  const bool active_ = PolicyIs("active");
  const int processors_ = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  std::atomic<int64_t> next_look_{0}, until_{0};
  std::atomic<int> free_{0};
  std::atomic<bool> full_{false};
  std::atomic<int> last_free_{kAll};
};
Crowd& TheCrowd() {
  static Crowd crowd;
  return crowd;
}

}  // namespace

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int UsefulLanes(int lanes) {
  Crowd& crowd = TheCrowd();
  if (!crowd.any_news()) return lanes;
  const int64_t now = NowNs();
  crowd.Look(now);
  const int64_t free = crowd.Free(now);
  return 2 * free >= lanes ? static_cast<int>(std::min<int64_t>(free, lanes)) : lanes;
}

void CountRunnable(int change) { TheCrowd().ours += change; }

void PretendFreeProcessors(int processors) { TheCrowd().pretended = processors; }

void SpinTime::Learn(int64_t gap_ns) {
  // A longer spin would have met it: spin as long as can be. Else half as long next time.
  limit_ns_ = gap_ns <= kMostNs ? kMostNs : std::max(kLeastNs, limit_ns_ / 2);
}

bool Spin::LookAround() {
  const int64_t now = NowNs();
  Crowd& crowd = TheCrowd();
  if (begin_ == 0) {
    begin_ = now;
    if (crowd.passive) limit_ = 0;
  }
  const int64_t spun = now - begin_;
  if (spun > kSampleAfterNs || spun >= limit_) crowd.Look(now);
  return spun < limit_ && !crowd.IsFull(now);
}

}  // namespace infer
