#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "lib/support/exceptions.h"
#include "lib/support/fork.h"
#include "lib/support/parallel.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/patience.h"

namespace infer::engine {
namespace {

using std::chrono::nanoseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

class MonotonicClock final : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::duration_cast<nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

/// Tasks by moment, and those that are due at once in their order.
class TaskQueue {
 public:
  void Push(Task task) {
    bool sleeps = false;
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(task));
      there_ = true;
      sleeps = ready_.size() > looking_;
    }
    if (sleeps) came_.notify_one();
  }

  /// Whether one more task would wait for another to end.
  bool IsBusy() {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(ready_.size()) >= idle_;
  }

  /// One more thread serves, or is about to.
  void CountThread() {
    const std::lock_guard lock(mutex_);
    ++idle_;
  }

  void PushAt(int64_t ns, Task task) {
    {
      const std::lock_guard lock(mutex_);
      later_.emplace(ns, std::move(task));
    }
    came_.notify_one();
  }

  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = there_ = true;
      ready_.clear();
      later_.clear();
    }
    came_.notify_all();
  }

  /// Runs tasks until Close. With `patience` the thread looks for the next before it sleeps.
  void Serve(Patience* patience) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (closing_) return;
      Task task = Next();
      if (!task) {
        Await(lock, patience);
        continue;
      }
      --idle_;
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      ++idle_;
    }
  }

 private:
  Task Next() {
    Task task;
    if (!later_.empty() &&
        SteadyTime(nanoseconds(later_.begin()->first)) <= std::chrono::steady_clock::now()) {
      task = std::move(later_.begin()->second);
      later_.erase(later_.begin());
    } else if (!ready_.empty()) {
      task = std::move(ready_.front());
      ready_.pop_front();
      there_ = !ready_.empty();
    }
    return task;
  }

  /// Until something may have come.
  void Await(std::unique_lock<std::mutex>& lock, Patience* patience) {
    if (!patience) return Sleep(lock);
    const auto begin = std::chrono::steady_clock::now();
    ++looking_;
    lock.unlock();
    const bool came = patience->Look([this] { return there_.load(std::memory_order_relaxed); });
    lock.lock();
    --looking_;
    if (!came && ready_.empty() && !closing_) Sleep(lock);
    patience->Waited(std::chrono::steady_clock::now() - begin);
  }

  void Sleep(std::unique_lock<std::mutex>& lock) {
    if (later_.empty())
      came_.wait(lock);
    else
      came_.wait_until(lock, SteadyTime(nanoseconds(later_.begin()->first)));
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Task> ready_;
  std::atomic<bool> there_{false};  // ready_ is not empty: for those who look without the mutex
  size_t looking_ = 0;              // threads that do
  int64_t idle_ = 0;  // threads that run no task; below 0 where one was not counted yet
  std::multimap<int64_t, Task> later_;
  bool closing_ = false;
};

struct Queues {
  std::array<TaskQueue, kPlaces> at;
  TaskQueue timer;
};

class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(int threads) : width_(threads) {
    try {
      for (int i = 0; i < threads; ++i) StartAt(Place::kPool);
      threads_.emplace_back([q = queues_] { q->timer.Serve(nullptr); });
    } catch (...) {
      End();
      throw;
    }
  }
  ~ThreadExecutor() override { End(); }

  int width() const override { return width_; }
  void Post(Task task, Place place) override {
    At(*queues_, HasThread(place) ? place : Place::kPool).Push(std::move(task));
  }
  void Run(Task work, Task then) override {
    work();
    then();
  }
  void Deliver(Task task) override { queues_->timer.Push(std::move(task)); }
  void WakeAt(int64_t ns, Task task) override { queues_->timer.PushAt(ns, std::move(task)); }

 private:
  static TaskQueue& At(Queues& queues, Place place) {
    return queues.at[static_cast<size_t>(place)];
  }

  /// Starts one where all are busy and more may be had.
  bool HasThread(Place place) {
    if (place == Place::kPool) return true;
    const std::lock_guard lock(starting_);
    const int& started = started_[static_cast<size_t>(place)];
    const int most = place == Place::kBeside ? 2 * width_ : 1;
    try {
      if (started < most && At(*queues_, place).IsBusy()) StartAt(place);
    } catch (...) {
      // The task waits for a thread that is there; where there is none, for one of the pool.
    }
    return started > 0;
  }

  /// Throws std::system_error.
  void StartAt(Place place) {
    threads_.emplace_back([q = queues_, place] {
      Patience patience;
      At(*q, place).Serve(place == Place::kAside || place == Place::kLoad ? nullptr : &patience);
    });
    At(*queues_, place).CountThread();
    ++started_[static_cast<size_t>(place)];
  }

  void End() {
    const bool forked = ForksSoFar() != forks_;
    if (forked) {  // the child has none of the threads, and maybe a queue that one had locked
      (void)new (std::nothrow) std::shared_ptr<Queues>(queues_);
      for (std::thread& t : threads_) t.detach();
      return;
    }
    for (TaskQueue& q : queues_->at) q.Close();
    queues_->timer.Close();
    for (std::thread& t : threads_)
      if (t.get_id() == std::this_thread::get_id())
        t.detach();  // it ends when it comes back to its queue, which it owns a share of
      else
        t.join();
  }

  int width_;
  std::mutex starting_;  // of threads, behind the constructor
  std::array<int, kPlaces> started_ = {};
  uint64_t forks_ = ForksSoFar();
  std::shared_ptr<Queues> queues_ = std::make_shared<Queues>();
  std::vector<std::thread> threads_;
};

}  // namespace

std::shared_ptr<const Clock> SteadyClock() { return std::make_shared<MonotonicClock>(); }

Result<std::shared_ptr<Executor>> MakeThreadExecutor(int threads) {
  try {
    return std::shared_ptr<Executor>(
        std::make_shared<ThreadExecutor>(threads > 0 ? threads : AvailableCores()));
  } catch (...) {
    return StatusOfException("while threads of the engine were started");
  }
}

}  // namespace infer::engine
