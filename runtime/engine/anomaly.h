#pragma once
/// Whether latency or errors of a model have stepped up: figures of slots of five seconds in, what
/// is unusual out. No threads, no clock.
///
/// Usual is what the last ten minutes show, without the last five slots: median and spread (MAD) of
/// log latency, share of errors. A figure is unusual where four of the last five slots were at
/// least 1.4 times (errors: 1.3 times) the usual, and
/// either each of these by four spreads or more (robust z), or the cumulative sum of deviations, of
/// which a slot counts two spreads at most, reaches what five such slots make (change point; Page
/// 1954), and even the two least of the five deviate.
/// Bursts shorter than four slots are therefore none. Behind an anomaly, and behind a step down,
/// the new level is learnt, and nothing is told for the 17 slots that this takes, as at the begin.
#include <array>
#include <deque>
#include <string_view>
#include <vector>

#include "runtime/engine/telemetry.h"

namespace infer::engine {

/// What one slot showed.
struct SlotFigures {
  int64_t slot = 0;               ///< its number; a later one has a larger one
  int64_t ended = 0, errors = 0;  ///< without cancelled ones
  int64_t succeeded = 0;          ///< of them
  double p50_ns = 0, p99_ns = 0;  ///< of those
};
/// Errors are requests that failed, timed out or were rejected.
SlotFigures FiguresOf(const Times& times, int64_t slot);

enum class Figure : uint8_t { kP50, kP99, kErrors };
inline constexpr size_t kFigures = 3;
std::string_view Name(Figure f);

struct ErrorCounts {
  double ended = 0, errors = 0;
};

struct Anomaly {
  int64_t slot = 0;  ///< at the end of which it was seen
  Figure figure = Figure::kP50;
  enum class By : uint8_t { kFar, kChange } by = By::kFar;
  double value = 0, usual = 0;  ///< nanoseconds, or a share of requests
  double z = 0;                 ///< of the value: its distance in spreads
};
std::string_view Name(Anomaly::By by);

/// Finds steps in deviations, each in spreads.
class StepTest {
 public:
  enum class Step : uint8_t { kNone, kFar, kChange, kDown };
  /// `much`: 1 or -1 where the slot is far enough above or below the usual to matter, else 0.
  Step Add(double z, int much);
  void Clear() { *this = {}; }

 private:
  struct Slot {
    double z;
    int much;
  };
  std::deque<Slot> last_;
  double up_ = 0, down_ = 0;
};

/// The last ten minutes without the last five slots.
template <typename T>
class UsualSlots {
 public:
  void Add(T value) {
    last_.push_back(value);
    if (last_.size() <= 5) return;
    values_.push_back(last_.front());
    last_.pop_front();
    if (values_.size() > 120) values_.pop_front();
  }
  bool known() const { return values_.size() >= 12; }
  const std::deque<T>& values() const { return values_; }
  void Clear() { *this = {}; }

 private:
  std::deque<T> last_, values_;
};

/// Watches one model. Not thread-safe.
class AnomalyWatch {
 public:
  static constexpr int64_t kSlotNs = kTelemetrySlotNs;
  /// A slot that is not later than the last one is not looked at. A percentile counts where ten
  /// requests of its slot are beyond it: p50 of 20, p99 of 1,000.
  std::vector<Anomaly> See(const SlotFigures& figures);

 private:
  int64_t last_slot_ = -1;
  std::array<UsualSlots<double>, 2> logs_;  // of p50 and p99
  UsualSlots<ErrorCounts> errors_;
  std::array<StepTest, kFigures> tests_;
};

}  // namespace infer::engine
