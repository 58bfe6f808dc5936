#include "tools/common/signals.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "lib/support/file.h"

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int> g_signal{0};
std::atomic<double> g_timeout{0};  // seconds; 0: none
std::atomic<Clock::rep> g_deadline{0};
std::atomic<bool> g_timed_out{false};
std::mutex g_last_words_lock;
std::function<void()> g_last_words;

bool DeadlinePassed() {
  return g_timeout.load() > 0 && Clock::now().time_since_epoch().count() >= g_deadline.load();
}

/// Without memory of its own: there may be none.
void SayTimedOut() {
  char text[96];
  const int n =
      std::snprintf(text, sizeof text, "timed out after %g s (--timeout)\n", g_timeout.load());
  if (n > 0) (void)!::write(STDERR_FILENO, text, static_cast<size_t>(n));
}

/// Wakes the waiting thread. Nobody else gets it, and who does not wait for it ignores it.
constexpr int kWake = SIGURG;
constexpr timespec kTick{0, 50'000'000};

/// Gives the command the time that it has to end by itself; then ends the process.
void EndUnlessEnded(const std::stop_token& ended, int code) {
  sigset_t wake;
  sigemptyset(&wake);
  sigaddset(&wake, kWake);
  for (int i = 0; i < 16 && !ended.stop_requested(); ++i) sigtimedwait(&wake, nullptr, &kTick);
  if (ended.stop_requested()) return;
  {
    const std::scoped_lock lock(g_last_words_lock);
    try {
      if (const auto words = std::exchange(g_last_words, {})) words();
    } catch (...) {
      // A report that there is no memory for: the process ends all the same.
    }
  }
  if (code == kExitTimedOut) SayTimedOut();
  RemoveUnfinishedFiles();
  _exit(code);
}

}  // namespace

void SetTimeout(double seconds) {
  const auto span = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::min(seconds, 1e9)));
  g_deadline.store((Clock::now() + span).time_since_epoch().count());
  g_timeout.store(seconds);
}

double TimedOut() { return g_timed_out.load() ? g_timeout.load() : 0; }

void SetLastWords(std::function<void()> words) {
  const std::scoped_lock lock(g_last_words_lock);
  g_last_words = std::move(words);
}

int CaughtSignal() { return g_signal.load(); }

void NoteSignal(int n) {
  int none = 0;
  g_signal.compare_exchange_strong(none, n);
}

SignalGuard::SignalGuard() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, s);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  sigaddset(&set, kWake);
  waiter_ = std::jthread([this, set](const std::stop_token& ended) {
    // Blocked before the first look at `ended`: a wake-up behind that look stays pending.
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    while (!ended.stop_requested()) {
      const int caught = sigtimedwait(&set, nullptr, &kTick);
      const int n = caught == kWake ? 0 : caught;
      if (n <= 0 && !DeadlinePassed()) continue;
      if (n > 0)
        g_signal.store(n);
      else
        g_timed_out.store(true);
      stop_.request_stop();
      return EndUnlessEnded(ended, n > 0 ? 128 + n : kExitTimedOut);
    }
  });
}

SignalGuard::~SignalGuard() {
  waiter_.request_stop();
  pthread_kill(waiter_.native_handle(), kWake);  // every command would end a tick later
  waiter_.join();
}

}  // namespace infer
