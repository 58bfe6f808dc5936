#pragma once
/// How long a thread that waits for another looks before it sleeps. To be woken takes longer than
/// many a model runs, so short waits are worth looking; long ones are not.
#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/support/parallel.h"

namespace infer::engine {

class Patience {
 public:
  /// Looks whether `there()` holds, without sleeping, as long as the waits before were short.
  template <typename There>
  bool Look(const There& there) {
    if (there()) return true;
    if (mean_ns_ > kMostNs || AvailableCores() < 2) return false;
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kMostNs);
    while (std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();  // whoever is waited for may be due on this processor
      if (there()) return true;
    }
    return false;
  }
  /// What a wait took, looking and sleeping.
  void Waited(std::chrono::nanoseconds wait) {
    mean_ns_ += (std::min<int64_t>(wait.count(), 8 * kMostNs) - mean_ns_) / 4;
  }

 private:
  static constexpr int64_t kMostNs = 50'000;
  int64_t mean_ns_ = 0;
};

}  // namespace infer::engine
