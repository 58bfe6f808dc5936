#pragma once
/// The sweep of second-order compression over the inputs of a layer: one input after the other is
/// fixed, and those still to come make up for the error. GPTQ fixes codes (quant/algorithm/gptq.h),
/// SparseGPT zeros (quant/prune/second_order.h).
///
/// Source: Frantar et al., GPTQ (arXiv 2210.17323), Cholesky form with lazy block updates.
#include <span>
#include <vector>

#include "lib/support/function_ref.h"
#include "lib/support/status.h"

namespace infer {

/// The upper factor U of the inverse, H^-1 = U^T U, of a symmetric positive definite H [n, n]. With
/// H = R R^T, R upper, U is R^-1; R is the Cholesky factor of H read backwards, so H is never
/// inverted. Unsupported: H cannot be factorised.
Result<std::vector<float>> InverseFactor(std::span<const double> h, int64_t n);
/// The same where `h` is not needed any more: no second [n, n] in f64.
Result<std::vector<float>> InverseFactorInPlace(std::span<double> h, int64_t n);

class InputSweep {
 public:
  /// `u`: of InverseFactor, [depth, depth]. `x`: the weights, [depth, rows], an input per row, in
  /// the order of `u`.
  InputSweep(std::vector<float> u, std::vector<float> x, int64_t depth, int64_t rows);

  /// The weights of input `i` as they are now.
  std::span<const float> x(int64_t i) const;
  /// U(i, i): 1 / pivot^2 is what the squared error of input i is divided by.
  float pivot(int64_t i) const;
  /// Fixes the inputs [begin, begin + count): `fix` writes what each weight of input i lost, over
  /// its pivot, to `errors`. Later inputs of the block follow at once, those behind it at the end.
  using Fix =
      FunctionRef<void(int64_t i, std::span<const float> x, float pivot, std::span<float> errors)>;
  void Block(int64_t begin, int64_t count, Fix fix);

 private:
  std::vector<float> u_, x_, errors_;
  int64_t depth_, rows_;
};

}  // namespace infer
