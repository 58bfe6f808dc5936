#pragma once
/// The requests of one version of a model that wait, limited by count and bytes. Not thread-safe.
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>

#include "runtime/engine/batch_trials.h"
#include "runtime/engine/pending.h"

namespace infer::engine {

struct QueueLimits {
  int64_t max_requests = 1024;
  int64_t max_bytes = int64_t{256} << 20;  ///< of inputs; one request may have more if none waits
};

/// Requests that may share a run, by priority.
struct Bucket {
  std::array<std::list<PendingPtr>, kPriorities> levels;  ///< in the order in which they came
  std::array<std::list<PendingPtr>, kPriorities> late;    ///< by deadline
  std::multiset<int64_t> deadlines;
  int64_t rows = 0;

  int64_t size() const;
  bool empty() const { return size() == 0; }
  /// The next by Order of the `levels` most urgent levels; nullptr: they are empty. Those that it
  /// finds behind Pending::late_ns become late.
  Pending* First(int64_t now_ns, int64_t ageing_ns, int levels);
  Waiters Facts() const;

 private:
  void SetLate(size_t level);
};

/// Who cannot be served in time should not be served in the place of those who can: where requests
/// come faster than they are answered, those that waited longest would begin last of all with next
/// to no time left, and be stopped in their runs. A request is late from 1.5 mean runs before its
/// deadline on; BatchRules begins a batch 2 mean runs before, so that waiting makes none late.
class RequestQueue {
 public:
  explicit RequestQueue(QueueLimits limits) : limits_(limits) {}

  /// "" or why a request of so many bytes is not taken.
  std::string Refuses(int64_t bytes) const;
  /// `run_ns`: the mean of what runs took; 0: not known.
  void Push(PendingPtr p, int64_t run_ns);
  /// Pre: `p` is in the queue.
  PendingPtr Remove(Pending& p);
  /// At least one request of the `levels` most urgent levels, and others of them while their rows
  /// do not exceed max_rows. Pre: there is one.
  std::vector<PendingPtr> Take(Bucket& bucket, int64_t max_rows, int64_t now_ns, int64_t ageing_ns,
                               int levels);

  struct Choice {
    Bucket* bucket = nullptr;  ///< nullptr: none may begin
    Order order;
    Fired why = Fired::kFull;
    BatchAdvice advice;        ///< how many rows
    int64_t next_ns = kNever;  ///< when one may begin, if nothing changes
  };
  /// Knowledge of runs of a shape.
  struct Known {
    /// nullptr: nothing. Unset: nothing of any.
    std::function<const BatchTimes*(const ShapeKey&)> times = {};
    /// For which there is memory, of so many at least 1. Unset: for as many as the rules say.
    std::function<int64_t(const ShapeKey&, int64_t max_rows)> rows = {};
  };
  /// Of the buckets that may begin the one whose first request of the `levels` most urgent levels
  /// comes first.
  Choice Choose(const BatchRules& rules, int64_t now_ns, int64_t run_ns, int64_t ageing_ns,
                bool draining, int levels, const Known& known);

  bool empty() const { return requests_ == 0; }
  int64_t rows() const { return rows_; }
  QueueState state() const {
    return {requests_, bytes_, limits_.max_requests, limits_.max_bytes, 0};
  }
  /// In no particular order.
  std::vector<PendingPtr> All() const;

 private:
  QueueLimits limits_;
  int64_t requests_ = 0, bytes_ = 0, rows_ = 0;
  std::map<ShapeKey, Bucket> buckets_;  // without empty ones
};

}  // namespace infer::engine
