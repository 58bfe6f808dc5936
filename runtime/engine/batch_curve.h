#pragma once
/// How long runs of so many rows take, as it was measured: values in, a number out. No threads, no
/// clock.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

namespace infer::engine {

class BatchCurve {
 public:
  /// The first run of each number of rows is not counted: it plans, packs and warms caches.
  void Ran(int64_t rows, int64_t ns);
  /// What a run of so many rows is expected to take: measured (each new run counts an eighth),
  /// between two measured counts on the line between them, beyond the largest in proportion;
  /// 0: nothing is known.
  int64_t RunNs(int64_t rows) const;

 private:
  static constexpr size_t kMostPoints = 64;
  std::map<int64_t, double> ns_;  // by rows
  std::set<int64_t> ran_;         // once at least
};

}  // namespace infer::engine
