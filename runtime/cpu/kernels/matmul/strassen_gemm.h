#pragma once
/// y = epilogue(a w + bias) for constant w as seven products of quarters instead of eight:
/// Strassen, "Gaussian elimination is not optimal" (1969), one level, with the sums of a made while
/// it is packed, and each product added from registers to the one or two quarters of y that it
/// belongs to, as in Huang et al., "Strassen's Algorithm Reloaded" (2016). There are two forms of w
/// (docs/adr/0079-strassens-sums-while-multiplying.md):
///
/// - PanelGemm's panels: a sum of two quarters is made by the first rows that it multiplies, in
///   scratch, for the rows that follow.
/// - `kept`: the seven sums, 7/4 of the weights, from which these cannot be made again. Faster
///   where many rows meet them.
///
/// Error against the exact value, relative to the largest of its row: <= 2e-5, as stated for
/// Winograd's convolution (tests/suites/product_suite.cc). Level 2 only, therefore.
#include "runtime/cpu/kernels/matmul/panel_gemm.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

/// a [rows, depth] and y [rows, columns], both dense.
struct StrassenGemm {
  const simd::Panels* panels = nullptr;
  Appended appended = {};  ///< not residual_last
  int64_t rows = 0, depth = 0, columns = 0;
  int64_t lanes = 1;  ///< threads that there is scratch for
  bool kept = false;

  /// Rows from which sums may be kept.
  static constexpr int64_t kKeptRows = 160;

  std::string name() const { return Cat("own:strassen", kept ? "-kept:" : ":", panels->isa); }
  /// Enough of each extent that an eighth less work outweighs the sums.
  bool Pays() const;
  int64_t scratch_bytes() const;
  PanelGemm plain() const { return {panels, appended, rows, depth, columns}; }
  /// w[k][n] at from[k * k_stride + n * n_stride], as Run() wants it; does not depend on `rows`.
  std::shared_ptr<const Buffer> Pack(const float* from, int64_t k_stride, int64_t n_stride) const;
  /// `bias` [columns] or nullptr. The same bits for any number of threads.
  void Run(const float* a, const float* w, const float* bias, float* y, float* scratch) const;

 private:
  struct Block;
  struct Item;
  /// A quarter of a pair of panels of w: [blocks * lanes][width], less than a half by a panel where
  /// depth and columns end.
  struct Part {
    const float* at = nullptr;
    int64_t blocks = 0, width = 0;
  };
  struct Lines {
    const float* at = nullptr;
    int per_block = 0;  ///< of k
  };
  int64_t width() const { return int64_t{2} * panels->lanes; }  ///< columns of a panel
  int64_t pairs() const { return BlocksOf(columns, 2 * width()); }
  int64_t group() const;  ///< pairs for which the sums of a are read once, at most
  int64_t row_block() const;
  int64_t sweeps() const;       ///< of k
  int64_t half_blocks() const;  ///< of k, in a half of a sweep
  int64_t panel_floats() const { return half_blocks() * panels->lanes * width(); }
  int64_t upper() const { return (row_block() + 1) / 2; }  ///< rows in the upper quarters, at most
  int64_t sum_floats() const { return upper() * half_blocks() * panels->lanes; }
  int64_t group_pitch() const;
  int64_t lane_floats() const;  ///< of scratch
  Part PartOf(const float* w, int64_t sweep, int64_t pair, int quarter) const;
  const float* KeptPanel(const float* w, int64_t sweep, int64_t pair, int64_t product) const;
  void PackPair(const float* from, int64_t k_stride, int64_t n_stride, int64_t sweep, int64_t pair,
                float* to) const;
  void MakePanel(const Part& of, const Part* with, bool minus, float* to) const;
  void SumRows(const float* a, const Block& block, float* sums) const;
  void Group(const Block& block, int64_t first_pair, int64_t count, float* scratch) const;
  void Weights(const Block& block, const Item& item, float* made, simd::WideCall& call) const;
  void Panel(const Block& block, const Item& item, float* made, float* results,
             const float* bias) const;
  Lines Ahead(const Block& block, const Item& item, int64_t run) const;
};

/// Whether a product of `rows` rows made of operand `x` keeps the sums of its weights: where there
/// are many rows, and extents that the model fixes, so that no other plan needs the weights in
/// another form beside them.
bool MayKeepSums(const Operand& x, int64_t rows, bool low_memory);

}  // namespace infer
