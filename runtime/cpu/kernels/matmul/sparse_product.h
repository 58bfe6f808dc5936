#pragma once
/// y = epilogue(x w + bias) for constant w most of which is zero: zeros are neither stored nor
/// multiplied. Gain over the best dense kernel: docs/pruning.md, "Speed by zeros".
///
/// A zero that is not multiplied is no reason for another result: where x holds infinities or NaN,
/// outputs that a dense product makes NaN are NaN (docs/adr/0044-sparse-products.md).
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/matmul/sparse_weights.h"

namespace infer {

/// How rows lie: column c of row r of an image at image * i + r * row + c / lanes * block +
/// c % lanes, in floats.
struct SparseLying {
  int64_t image = 0, row = 0, block = 0;
};

struct SparseShape {
  int64_t images = 1, rows = 0;  ///< rows of an image
  int64_t depth = 0, columns = 0;
};

/// Work of a product in multiplications of a whole vector, as measured on whole products: what the
/// choice between forms, and between them and a dense product, hangs on.
double DenseWork(const SparseShape& shape, int lanes, bool seven_products);
double SparseWork(const SparseShape& shape, SparseForm form, int64_t stored, int lanes);

struct SparseProduct {
  const simd::Sparse* loops = nullptr;
  Appended appended = {};  ///< not residual_last
  SparseShape shape = {};
  SparseLying x = {}, y = {};
  int64_t lanes = 1;  ///< threads that there is scratch for
  std::shared_ptr<const SparseWeights> w = {};

  std::string name() const;
  int64_t scratch_bytes() const { return lanes * together() * tile_floats() * 4; }
  /// `bias` [columns] or nullptr. The same bits for any number of threads: an element is summed in
  /// an order that hangs on the extents alone.
  void Run(const float* from, const float* bias, float* to, float* scratch) const;

 private:
  struct Tile;
  struct Work;
  bool panels() const { return w->form == SparseForm::kPanels; }
  RowRuns runs() const;
  Tile TileAt(int64_t i) const;
  int64_t tiles() const { return shape.images * runs().count(); }
  int64_t tile_floats() const;
  int64_t chunk_floats() const;
  int64_t together() const;  ///< tiles for which weights are read once
  bool PackTile(const Work& work, const Tile& tile, float* packed) const;
  void Spoil(const Work& work, const Tile& tile, int64_t first, int64_t end) const;
  bool SpoilRow(const float* row, float* y, int64_t first, int64_t end) const;
  void PanelGroup(const Work& work, const Tile& tile, const float* packed, int64_t g) const;
  void ListGroup(const Work& work, const Tile& tile, const float* packed, int64_t g) const;
  void Activate(const Tile& tile, float* y, int64_t first, int64_t end) const;
  void Part(const Work& work, int64_t begin, int64_t end, int64_t ranges, float* packed) const;
};

}  // namespace infer
