#pragma once
/// Data by index: what calibration and comparison read. Any source (arrays in memory, mapped files,
/// decoded images) fits, is read one run at a time, and may be read again.
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/support/status.h"
#include "lib/tensor/datum.h"

namespace infer {

struct Samples {
  int64_t count = 0;  ///< runs
  /// The graph's inputs of run `i`, in graph order. Pre: 0 <= i < count.
  std::function<Result<std::vector<Datum>>(int64_t i)> get;
  /// Labels of run `i`, one per row of scores of the first output; null when there are none.
  std::function<Result<std::vector<int64_t>>(int64_t i)> labels = nullptr;
  bool random = false;  ///< drawn numbers, of which no task is measured
};

/// The runs `which` of `all`, in that order.
Samples Subset(const Samples& all, std::vector<int64_t> which);
/// Samples over arrays in memory: runs[i] are the inputs of run i.
Samples InMemory(std::vector<std::vector<Datum>> runs);

/// Told after each run: (runs done, runs in all).
using Progress = std::function<void(int64_t done, int64_t total)>;

}  // namespace infer
