#pragma once
/// What became of the requests of one model: counts, and times by outcome and phase, in total, in
/// the last 1, 10 and 60 seconds, and in slots of five seconds. Record may be called by many
/// threads at once, and nobody waits for a reader.
#include <array>
#include <memory>
#include <mutex>

#include "runtime/engine/histogram.h"
#include "runtime/engine/request.h"

namespace infer::engine {

enum class Phase : uint8_t { kQueue, kBatch, kCompute, kTotal };
inline constexpr size_t kPhases = 4;
std::string_view Name(Phase p);

/// Nanoseconds by end (EndIndex) and phase. An end counts in the phases that it reached and always
/// in kTotal.
struct Times {
  std::array<std::array<Histogram, kPhases>, kEnds> by;

  void Record(State end, const Phases& phases);
  void Merge(const Times& other);
  void Clear();
  int64_t ended(State end) const {
    return by[EndIndex(end)][static_cast<size_t>(Phase::kTotal)].count() +
           by[EndIndex(end)][static_cast<size_t>(Phase::kTotal)].overflow();
  }
  int64_t ended() const;  ///< in all
  /// Of those that ended: that succeeded; 1 where none ended.
  double success_rate() const;
  int64_t bytes() const;
};

/// Times of runs of one number of rows, in ns, with all that keeps an instance from the next run.
/// The first run is not counted: it plans, packs and warms caches.
struct RunTimes {
  int64_t runs = 0;
  double mean = 0;
  double squares = 0;  ///< sum of squared distances to the mean (Welford 1962)
  bool warm = false;
  void Add(double ns);
  double standard_error() const;  ///< of the mean; 0 below two runs
};

inline constexpr int64_t kTelemetrySlotNs = 5'000'000'000;

struct TelemetryView {
  Times total;
  Times last_1s, last_10s,
      last_60s;       ///< whole slots of 1 s, 1 s and 10 s, the current one included
  int64_t slot = -1;  ///< the last slot that is over, counted since the clock's origin
  Times last_slot;    ///< what ended in it: for AnomalyWatch (anomaly.h)
};

class Telemetry {
 public:
  void Record(State end, const Phases& phases, int64_t now_ns);
  TelemetryView View(int64_t now_ns) const;
  int64_t bytes() const;

 private:
  struct Slot {
    std::atomic<int64_t> number{-1};  ///< which stretch of time it holds
    Times times;
  };
  /// Slots of equal length, each used again when all have been.
  template <size_t kSlots>
  struct Ring {
    std::array<Slot, kSlots> slots;
    Times& At(int64_t number, std::mutex& turning);
    void MergeSince(int64_t first, int64_t last, Times& into) const;
  };

  Times total_;
  Ring<11> seconds_;  // one more than the window, so that a turned slot has just left it
  Ring<7> tens_;
  std::mutex turning_;
};

}  // namespace infer::engine
