#pragma once
/// Inner loops of operators that walk along an axis: running sums and products, folds of integers,
/// places of largest numbers, elements by indices, ranges, weighted pixels. Compiled once per
/// instruction set (folds.inc). But for add_taps, the results are those of the reference kernels,
/// bit for bit.
#include <cstdint>

#include "runtime/cpu/simd/elements.h"

namespace infer::simd {

/// Lines that run side by side: element i of line k is x[i * step + k * apart].
struct RunningLines {
  int64_t n = 0, step = 1;  ///< step < 0: from the end; x is the first element of the walk
  int64_t lines = 0, apart = 1;
  bool exclusive = false;
};

/// Folds of integers, in i64, which wraps.
enum class Fold : uint8_t { kSum, kProduct, kMax, kMin, kCount };
constexpr int64_t FoldStart(Fold f) {
  return f == Fold::kSum ? 0 : f == Fold::kProduct ? 1 : f == Fold::kMax ? INT64_MIN : INT64_MAX;
}

/// Element i of n: x[i * step + index i * axis_stride], where an index below 0 counts from the end
/// of `extent`.
struct PickedRow {
  int64_t n = 0, step = 0, extent = 0, axis_stride = 1;
};

struct Folds {
  using RunningFn = void (*)(const void* x, void* y, const RunningLines& l);
  /// [sum or product][element]; floats run in double, integers wrap. nullptr for f16, bf16, bool.
  RunningFn running[2][kElements];
  /// The fold of n elements, started with `start`.
  using RowFn = int64_t (*)(const void* x, int64_t n, int64_t start);
  /// y[c] = fold(y[c], x[c]).
  using ColumnsFn = void (*)(const void* x, int64_t* y, int64_t n);
  /// nullptr for floats and u64.
  RowFn row[static_cast<int>(Fold::kCount)][kElements];
  ColumnsFn columns[static_cast<int>(Fold::kCount)][kElements];
  /// Where x[o * step] is above best[o], or at[o] < 0, it becomes best[o], and first + o * places
  /// becomes at[o]; for o < n.
  void (*larger)(const float* x, int64_t step, int32_t first, int32_t places, float* best,
                 int32_t* at, int64_t n);
  /// false: an index is out of range, for which the one of index 0 stands.
  using PickFn = bool (*)(const void* x, const void* indices, void* y, const PickedRow& r);
  PickFn pick[4][2];  ///< [log2 of the width][i32 or i64]
  /// y[i] = x[at[i]].
  using GatherFn = void (*)(const void* x, const int32_t* at, void* y, int64_t n);
  GatherFn gather[4];  ///< by log2 of the width
  /// y[c] = y[c] + sum_t weight[t] * x[at[t] + c], or the largest of y[c] and the products;
  /// c < channels.
  using TapsFn = void (*)(const float* x, const int64_t* at, const float* weight, int64_t taps,
                          int64_t channels, float* y);
  TapsFn add_taps, largest_tap;
  /// low and high over x, too; a NaN counts for neither.
  void (*range)(const float* x, int64_t n, float* low, float* high);
};

/// Chosen like TheLoops().
const Folds& TheFolds();

}  // namespace infer::simd
