#pragma once
/// How many rows a run may have for the memory that it takes: values in, a number out. No threads,
/// no clock.
///
/// Activations are planned buffers, each of a size that grows with the rows on a straight line, and
/// their sum is the largest of what lives at once. Such a maximum of lines lies, between two
/// numbers of rows that were seen, at or below the straight line between them, and beyond the
/// largest at or below what is in proportion to it. So the bytes expected here are the most that a
/// run takes. Kernels that change with the rows may take more once: from then on it is known.
#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/engine/executor.h"

namespace infer::engine {

class BatchMemory {
 public:
  /// A run of so many rows succeeded, and took so much for activations.
  void Ran(int64_t rows, int64_t bytes);
  /// A run of so many rows, of several requests, failed for want of memory: half as many from now
  /// on, and one more again behind every kForgiven runs of as many as are left.
  void Refused(int64_t rows);
  /// Activations of a run, at most; 0: no run was seen.
  int64_t Bytes(int64_t rows) const;
  /// The most rows, up to `most`, for which Bytes are within `room`, and that memory was not
  /// refused to. At least 1: one request runs whatever it takes. 1 as well where no run was seen,
  /// but with room without limit (kNever). Pre: most >= 1.
  int64_t RowsWithin(int64_t room, int64_t most) const;

  static constexpr int64_t kForgiven = 64;

 private:
  static constexpr size_t kMostPoints = 64;
  std::map<int64_t, int64_t> bytes_;  // by rows; grows with them
  int64_t limit_ = kNever;            // rows, by refusals
  int64_t at_limit_ = 0;              // runs of so many since then
};

}  // namespace infer::engine
