#pragma once
/// y = epilogue(a w + bias) for constant w as seven products of quarters instead of eight:
/// Strassen, "Gaussian elimination is not optimal" (1969), one level, with the sums of a made while
/// it is packed, those of w while compiling, and each product added from registers to the one or
/// two quarters of y that it belongs to, as in Huang et al., "Strassen's Algorithm Reloaded"
/// (2016).
///
/// Error against the exact value, relative to the largest of its row: <= 2e-5, as stated for
/// Winograd's convolution (tests/suites/product_suite.cc). Level 2 only, therefore. The packed
/// weights take 7/4 of their plain size.
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/simd/panels.h"

namespace infer {

/// a [rows, depth] and y [rows, columns], both dense.
struct StrassenGemm {
  const simd::Panels* panels = nullptr;
  Appended appended = {};  ///< not residual_last
  int64_t rows = 0, depth = 0, columns = 0;
  int64_t lanes = 1;  ///< threads that there is scratch for

  static constexpr const char* kName = "own:strassen:";

  /// Enough of each extent that an eighth less work outweighs the sums.
  bool Pays() const;
  int64_t scratch_bytes() const;
  /// w[k][n] at from[k * k_stride + n * n_stride], as Run() wants it; does not depend on `rows`.
  std::shared_ptr<const Buffer> Pack(const float* from, int64_t k_stride, int64_t n_stride) const;
  /// `bias` [columns] or nullptr. The same bits for any number of threads.
  void Run(const float* a, const float* w, const float* bias, float* y, float* scratch) const;

 private:
  struct Block;
  int64_t width() const { return int64_t{2} * panels->lanes; }  ///< columns of a panel
  int64_t pairs() const { return BlocksOf(columns, 2 * width()); }
  int64_t row_block() const;
  int64_t sweeps() const;       ///< of k
  int64_t half_blocks() const;  ///< of k, in a half of a sweep
  int64_t panel_floats() const { return half_blocks() * panels->lanes * width(); }
  int64_t upper() const { return (row_block() + 1) / 2; }  ///< rows in the upper quarters, at most
  int64_t sum_floats() const { return upper() * half_blocks() * panels->lanes; }
  int64_t group_pitch() const;
  void PackPair(const float* from, int64_t k_stride, int64_t n_stride, int64_t sweep, int64_t pair,
                float* to) const;
  void SumRows(const float* a, const Block& block, float* sums) const;
  void Group(const Block& block, int64_t first_pair, int64_t count, float* results) const;
  void Panel(const Block& block, int64_t sweep, int product, const float* w, const float* next,
             float* results, const float* bias) const;
};

}  // namespace infer
