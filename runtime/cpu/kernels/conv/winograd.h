#pragma once
/// 3x3 convolution of stride 1 by Winograd's minimal filtering F(m x m, 3 x 3), m = 2 or 4: 2.25 or
/// 4 times fewer multiplications than the direct sum. Tiles of the input are transformed, each
/// point of a tile is one product over the channels, and the results are transformed back.
///
/// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/simd/panels.h"

namespace infer {

/// A plane of pixels in blocks of channels: [image][block][row][column][lanes] by these strides.
struct BlockedImage {
  int64_t height = 0, width = 0, blocks = 0;
  int64_t image = 0, block = 0, pixel = 0;  ///< floats from one to the next
};

struct Winograd {
  const simd::Panels* panels = nullptr;
  Appended appended = {};
  int m = 4;
  int64_t images = 0;
  BlockedImage in = {}, out = {};
  int64_t top = 0, left = 0;  ///< padding
  int64_t batch = 0;          ///< tiles at once: SetBatch()
  int64_t lanes = 1;          ///< threads that there is scratch for

  /// As many tiles as keep their points in the cache, in batches as equal as can be.
  void SetBatch();
  int64_t scratch_bytes() const;
  /// `weights` from TransformWeights(); `bias` whole blocks, or nullptr. The same bits for any
  /// number of threads.
  void Run(const float* x, const float* weights, const float* bias, float* y, float* scratch) const;

  int64_t points() const { return int64_t{m + 2} * (m + 2); }
  int64_t down() const { return BlocksOf(out.height, m); }
  int64_t across() const { return BlocksOf(out.width, m); }
  int64_t tiles() const { return images * down() * across(); }

 private:
  struct Tile;
  // Floats from one point to the next; a vector more than needed, so that points do not meet in
  // one set of the cache.
  int64_t in_stride() const { return (batch * in.blocks + 1) * panels->lanes; }
  int64_t out_stride() const { return (batch + 1) * panels->lanes; }
  void TransformInput(const float* x, float* points, int64_t first, int64_t count) const;
  void Block(const float* points, const float* weights, const float* bias, float* products,
             float* y, int64_t block, int64_t first, int64_t count) const;
  /// Transforms one tile back, appends, and writes it.
  void Output(simd::WinogradOutput tile) const;
};

/// U = G g G^T of every window of `weights` [outputs, inputs, 3, 3], computed in double, as
/// [block of outputs][point][input, padded to blocks][lanes].
std::shared_ptr<const Buffer> TransformWeights(const Tensor& weights, int m, int lanes);

}  // namespace infer
