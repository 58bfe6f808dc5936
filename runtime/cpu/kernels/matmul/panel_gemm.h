#pragma once
/// y = epilogue(a w + bias) for constant w: our own matrix product on simd::Panels. What it gains
/// over oneDNN's, which is as fast on data in the cache, is that the next panel of w is on its way
/// while this one is multiplied: bert-base 0.94, gpt2-small 0.96, vit-b16 0.97 of the time, one
/// thread, AVX-512 (docs/adr/0007-own-kernels-where-they-win.md).
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/panels.h"
#include "runtime/plan_ir/weight_source.h"

namespace infer {

/// w[k][n] at from[k * k_stride + n * n_stride] as [panel of 2 * lanes columns][k, padded to whole
/// blocks of lanes][2 * lanes], zeros in the padding; a last panel of at most lanes columns as
/// [k][lanes].
std::shared_ptr<const Buffer> PackPanels(const float* from, int64_t depth, int64_t k_stride,
                                         int64_t columns, int64_t n_stride, int lanes);

/// The weights that PackPanels made `panels` of, back in their places: to[k * k_stride + n *
/// n_stride].
void UnpackPanels(const float* panels, int64_t depth, int64_t k_stride, int64_t columns,
                  int64_t n_stride, int lanes, float* to);

/// a [rows, depth] and y [rows, columns], both dense.
struct PanelGemm {
  const simd::Panels* panels = nullptr;
  Appended appended = {};  ///< not residual_last: y holds sums over a part of k in between
  int64_t rows = 0, depth = 0, columns = 0;

  std::string name() const { return Cat("own:gemm:", panels->isa); }
  /// Weights that take less to multiply than a call of oneDNN costs.
  static constexpr int64_t kLittle = 1 << 13;

  /// One row by a large matrix is read faster by oneDNN's product of a vector. From two rows on
  /// this is faster, 1.2 to 7 times below twelve, where oneDNN reads the matrix again for each row
  /// (docs/performance.md#few-rows).
  bool Pays() const { return rows >= 2 || depth * columns <= kLittle; }
  int64_t scratch_bytes() const;
  /// w[k][n] at from[k * k_stride + n * n_stride], as Run() wants it; does not depend on `rows`.
  std::shared_ptr<const Buffer> Pack(const float* from, int64_t k_stride, int64_t n_stride) const {
    return PackPanels(from, depth, k_stride, columns, n_stride, panels->lanes);
  }
  /// The weights that Pack() made `packed` of.
  void Unpack(const float* packed, int64_t k_stride, int64_t n_stride, float* to) const {
    UnpackPanels(packed, depth, k_stride, columns, n_stride, panels->lanes, to);
  }
  /// `w` from Pack(); `bias` [columns] or nullptr. The same bits for any number of threads:
  /// an element is summed along k in order.
  void Run(const float* a, const float* w, const float* bias, float* y, float* scratch) const {
    Run(a, {}, w, bias, y, scratch);
  }

  /// Factors of a: [depth] for every `rows` rows, `stride` floats apart.
  struct Gates {
    const float* by = nullptr;
    int64_t rows = 1, stride = 0;
  };
  void Run(const float* a, const Gates& gates, const float* w, const float* bias, float* y,
           float* scratch) const;

 private:
  struct Sweep;
  int64_t width() const { return int64_t{2} * panels->lanes; }  ///< columns of a panel
  int64_t row_block() const;
  int64_t sweep_blocks() const;  ///< of k, at once
  void PackRows(const float* a, const Gates& gates, const Sweep& sweep, float* to) const;
  void Panel(const Sweep& sweep, const float* rows_of_a, const float* w, const float* bias,
             float* y, int64_t panel) const;
  void Tile(simd::WideCall call, int rows_of_tile, int64_t columns_of_tile,
            const Sweep& sweep) const;
};

/// A function that makes the weights of extents `dims` again of what PanelGemm::Pack made of them,
/// w[k][n] at k * k_stride + n * n_stride.
WeightSource::UnpackFn Unpacking(const PanelGemm& gemm, int64_t k_stride, int64_t n_stride,
                                 const Dims& dims);

}  // namespace infer
