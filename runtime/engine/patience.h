#pragma once
/// How long a thread that waits for another looks before it sleeps. To be woken takes longer than
/// many a model runs, so short waits are worth looking; long ones are not.
#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/support/parallel.h"

namespace infer::engine {

/// `Clock`: a parameter for tests alone.
template <typename Clock = std::chrono::steady_clock>
class BasicPatience {
 public:
  /// Looks whether `there()` holds, without sleeping, as long as the waits before were short.
  /// Behind long ones some look all the same: a client that was answered by a sleeper wakes late
  /// itself, so that the next wait is long because the last was, and stays so until somebody looks.
  template <typename There>
  bool Look(const There& there) {
    if (there()) return true;
    if (!IsWorthIt() || AvailableCores() < 2) return false;
    const auto until = Clock::now() + std::chrono::nanoseconds(kMostNs);
    while (Clock::now() < until) {
      std::this_thread::yield();  // whoever is waited for may be due on this processor
      if (there()) {
        trust_ = kTrust;
        return true;
      }
    }
    trust_ = 0;
    return false;
  }
  /// What a wait took, looking and sleeping.
  void Waited(std::chrono::nanoseconds wait) {
    mean_ns_ += (std::min<int64_t>(wait.count(), 8 * kMostNs) - mean_ns_) / 4;
  }

 private:
  bool IsWorthIt() {
    if (mean_ns_ <= kMostNs) return true;
    if (trust_ > 0) {
      --trust_;
      return true;
    }
    return ++passed_ % kTryEvery == 0;
  }

  static constexpr int64_t kMostNs = 50'000;
  /// Of waits behind long ones one in so many looks, and where it was right so many more do.
  static constexpr int kTryEvery = 16, kTrust = 8;
  int64_t mean_ns_ = 0;
  int trust_ = 0, passed_ = 0;
};

using Patience = BasicPatience<>;

}  // namespace infer::engine
