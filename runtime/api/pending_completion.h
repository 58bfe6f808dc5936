#pragma once
/// A completion for implementations of devices: whoever executes the commands calls End.
#include <condition_variable>
#include <mutex>

#include "runtime/api/device.h"

namespace infer {

class PendingCompletion : public Completion {
 public:
  bool done() const override {
    std::lock_guard lock(mutex_);
    return done_;
  }
  Status Wait() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return done_; });
    return status_;
  }

 protected:
  /// Once, from any thread.
  void End(Status status) {
    std::lock_guard lock(mutex_);
    status_ = std::move(status);
    done_ = true;
    ended_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  Status status_;
};

}  // namespace infer
