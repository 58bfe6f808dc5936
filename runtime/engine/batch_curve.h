#pragma once
/// How long runs of so many rows take, as it was measured, and how many rows a run should have by
/// that: values in, a number out. No threads, no clock.
#include <cstdint>
#include <map>

#include "runtime/engine/batch_rules.h"

namespace infer::engine {

class BatchCurve {
 public:
  void Ran(int64_t rows, int64_t ns);
  /// What a run of so many rows is expected to take: measured (each new run counts an eighth),
  /// between two measured counts on the line between them, beyond the largest in proportion;
  /// 0: nothing is known.
  int64_t RunNs(int64_t rows) const;
  /// Rows that are worth a run: the fewest whose time for a row is within 3 % of the shortest.
  /// Counts that were not measured are tried as long as the largest measured one is that good:
  /// twice as many each time. One that was worse is tried again when that costs at most 1 % of the
  /// time spent since. Pre: most >= 1.
  int64_t WorthRows(int64_t most) const;

 private:
  double PerRow(int64_t rows) const;
  int64_t Fewest(int64_t most) const;

  static constexpr size_t kMostPoints = 64;
  std::map<int64_t, double> ns_;  // by rows
  double spent_ns_ = 0;           // since more rows than are worth it were tried
};

/// How many rows the next run of these requests should have at most.
struct BatchAdvice {
  int64_t rows = 1;
  enum class By : uint8_t { kRules, kCurve, kDeadline } by = By::kRules;
  int64_t run_ns = 0;  ///< of a run of those that wait; 0: not known
};
/// By the curve, and so few that the earliest deadline is met, where any number does. `most`: by
/// the rules.
BatchAdvice Advise(const BatchCurve& curve, const Waiters& waiters, int64_t now_ns, int64_t most);

}  // namespace infer::engine
