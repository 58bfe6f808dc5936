#include "tools/common/signals.h"

#include <unistd.h>

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

std::atomic<int> g_signal{0};
std::mutex g_last_words_lock;
std::function<void()> g_last_words;

}  // namespace

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
  waiter_ = std::jthread([this, set](const std::stop_token& ended) {
    while (!ended.stop_requested()) {
      const timespec tick{0, 50'000'000};
      const int n = sigtimedwait(&set, nullptr, &tick);
      if (n <= 0) continue;
      g_signal.store(n);
      stop_.request_stop();
      for (int i = 0; i < 16 && !ended.stop_requested(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (ended.stop_requested()) return;
      {
        const std::scoped_lock lock(g_last_words_lock);
        if (const auto words = std::exchange(g_last_words, {})) words();
      }
      RemoveUnfinishedFiles();
      _exit(128 + n);
    }
  });
}

SignalGuard::~SignalGuard() {
  waiter_.request_stop();
  waiter_.join();
}

}  // namespace infer
