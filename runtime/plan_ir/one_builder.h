#pragma once
/// One builder for a value that several threads want: the first makes it, the others wait.
#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/support/parallel.h"
#include "lib/support/status.h"
#include "lib/support/stop.h"

namespace infer {

/// Keeps nothing: `find` of Get looks into the caller's cache. Thread-safe.
template <typename Key, typename Value>
class OneBuilder {
 public:
  using Pointer = std::shared_ptr<const Value>;
  /// Calls its argument once it has the lanes that it waits for.
  using BuildFn = std::function<Result<Pointer>(const std::function<void()>& has_lanes)>;

  /// What `find` knows; else what another thread makes for the key, or what `build` makes, which
  /// puts it where `find` looks. A wait ends with Cancelled when the thread's StopScopes ask. Where
  /// another's build fails or is cancelled, the thread builds for itself. A thread that holds lanes
  /// does not wait for a builder that may itself wait for lanes: it builds, too.
  Result<Pointer> Get(const Key& key, const std::function<Pointer()>& find, const BuildFn& build) {
    for (;;) {
      if (Pointer found = find()) return found;
      std::unique_lock lock(mutex_);
      const auto it = std::find_if(builds_.begin(), builds_.end(),
                                   [&](const auto& b) { return b->key == key; });
      if (it == builds_.end()) return Begin(key, find, build, lock);
      const std::shared_ptr<Build> other = *it;
      if (HoldsLanes() && !other->has_lanes) {
        lock.unlock();
        return build([] {});
      }
      lock.unlock();
      INFER_TRY(Await(*other));
    }
  }

 private:
  struct Build {
    Key key;
    bool has_lanes = false, ended = false;
  };

  Result<Pointer> Begin(const Key& key, const std::function<Pointer()>& find, const BuildFn& build,
                        std::unique_lock<std::mutex>& lock) {
    // Another one may have ended since the look before the lock.
    if (Pointer found = find()) return found;
    const auto own = std::make_shared<Build>(Build{key, HoldsLanes()});
    builds_.push_back(own);
    lock.unlock();
    struct End {
      OneBuilder& all;
      const std::shared_ptr<Build>& own;
      ~End() {
        const std::lock_guard held(all.mutex_);
        own->ended = true;
        std::erase(all.builds_, own);
        all.changed_.notify_all();
      }
    } const end{*this, own};
    return build([&] {
      const std::lock_guard held(mutex_);
      own->has_lanes = true;
    });
  }

  Status Await(const Build& other) {
    const StopWait stop([this] {
      const std::lock_guard held(mutex_);
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    const auto over = [&] { return other.ended || StopRequested(); };
    if (stop.deadline() == kNoDeadline)
      changed_.wait(lock, over);
    else
      changed_.wait_until(lock, stop.deadline(), over);
    return other.ended ? Status() : CheckStop();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Build>> builds_;
};

}  // namespace infer
