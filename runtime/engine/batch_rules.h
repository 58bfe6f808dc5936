#pragma once
/// When a batch begins: a value in, a decision out. No threads, no clock.
#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/engine/executor.h"

namespace infer::engine {

struct BatchRules {
  /// A run has at most so many rows (extents of the batch axis), unless one request has more.
  int64_t max_rows = 1;
  /// So long the oldest request may wait for others while an instance is free. 0: requests are
  /// stacked only where they wait for an instance anyway.
  int64_t max_delay_ns = 0;
  /// A request of high priority is not made to wait for others.
  bool high_waits = false;
  /// Runs have fewer rows where trials say that this is faster (batch_trials.h), and so few that
  /// deadlines are met; max_rows is the most.
  bool adapts = false;
};

/// Why a batch began.
enum class Fired : uint8_t {
  kFull,      ///< no more rows fit
  kWaited,    ///< the oldest has waited as long as it may
  kDeadline,  ///< a later begin would miss a deadline
  kPriority,  ///< a request of high priority is in it
  kDrain,     ///< nothing more will come
  kEnough,    ///< more rows were slower in trials, or would miss a deadline
  kTrial,     ///< it has another number of rows than usual, to be compared
  kMemory,    ///< more rows would not fit into the memory budget, or their bytes are not known yet
};
inline constexpr size_t kFiredReasons = 8;
std::string_view Name(Fired f);

/// Why a run served one request alone.
enum class Single : uint8_t {
  kModel,      ///< the model or its rules do not batch
  kNoneOther,  ///< no other request waited
  kShape,      ///< those that waited had other shapes
  kRows,       ///< the next would have been too many rows
  kRerun,      ///< a batch that it was in had failed
  kSlower,     ///< more rows were slower in trials
  kTried,      ///< the run was such a trial
  kLate,       ///< more rows would have missed a deadline
  kMemory,     ///< more rows would not have fitted into the memory budget, or their bytes were not
               ///< known yet
};
inline constexpr size_t kSingleReasons = 9;
std::string_view Name(Single s);

/// What became of a request where a model has buckets (ModelOptions::buckets).
enum class Padding : uint8_t {
  kPadded,   ///< to the extent of a bucket
  kExact,    ///< it has the extent of a bucket
  kLonger,   ///< than every bucket: as it is
  kShort,    ///< the model picks places that it does not have: as it is
  kMask,     ///< a row of its mask shows nothing: as it is
  kRefuted,  ///< it was padded, and run again as it is: the run failed, or had no finite outputs
};
inline constexpr size_t kPaddings = 6;
std::string_view Name(Padding p);

/// Waiting requests that may share a run, as the rules see them.
struct Waiters {
  int64_t rows = 0;
  int64_t oldest_ns = kNever;             ///< when it came
  int64_t earliest_deadline_ns = kNever;  ///< of all
  bool has_high = false;
};

struct Decision {
  int64_t at_ns = kNever;  ///< when it begins, if nothing changes; not above `now`: at once
  Fired why = Fired::kFull;
};

/// `run_ns`: the mean of what runs took; 0: not known. A deadline is met by a run that takes up to
/// twice as long; where nothing is known, a request with a deadline is not made to wait. Pre:
/// somebody waits, and an instance is free.
Decision Decide(const BatchRules& rules, const Waiters& waiters, int64_t run_ns, bool draining);

/// What decides which of the waiting requests comes first: the moment at which it came, later by
/// `ageing_ns` for each step of priority below high. A request is therefore overtaken only by
/// requests that came less than 2 * ageing_ns after it, and none starves.
struct Order {
  int64_t key = kNever;
  int64_t id = 0;
  auto operator<=>(const Order&) const = default;
};

}  // namespace infer::engine
