#pragma once
/// What our own products append to a tile of results while it is in L1, and how rows are cut.
#include "runtime/cpu/kernels/common/epilogue.h"
#include "runtime/cpu/kernels/common/unary_function.h"

namespace infer {

/// A residual and an activation, in either order.
struct Appended {
  /// Unsupported: something that cannot be appended.
  static Result<Appended> Of(const StepCall& call, const Epilogue& epilogue);

  int residual = -1;           ///< operand that the result holds on entry; -1: none
  bool residual_last = false;  ///< added after the activation
  std::optional<UnaryFunction> function;

  bool clamps() const { return function && function->kind == simd::Unary::kClip; }
  bool keeps_zero() const { return !function || function->keeps_zero; }
  /// Nothing, or a residual and then bounds: what a product does by itself.
  bool in_product() const { return (!function || clamps()) && !residual_last; }
  /// The activation over n values.
  void Apply(float* x, int64_t n) const { Apply(x, n, x); }
  void Apply(const float* x, int64_t n, float* y) const;
};

constexpr int64_t BlocksOf(int64_t n, int64_t block) { return (n + block - 1) / block; }

/// `rows` in runs of at most `most`, as equal as can be.
struct RowRuns {
  int64_t rows, most;
  int64_t count() const { return BlocksOf(rows, most); }
  int64_t begin(int64_t run) const { return rows * run / count(); }
  int size(int64_t run) const { return static_cast<int>(begin(run + 1) - begin(run)); }
};

}  // namespace infer
