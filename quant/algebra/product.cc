#include "quant/algebra/product.h"

#include <algorithm>
#include <vector>

#include "lib/support/parallel.h"
#include "quant/algebra/product_loops.h"

namespace infer {
namespace {

constexpr int64_t kDepth = 256;  // of a packed block
constexpr int64_t kStrips =
    8;  // of tiles below each other, over which a panel of b stays in the nearest cache

/// Packs `count` columns of `from` [depth, width] beginning at `first` as [depth][width_of_tile],
/// zeros behind the last.
template <class T>
void PackStrip(MatrixView<const T> from, int64_t first, int64_t width_of_tile, T factor, T* to) {
  const int64_t count = std::min(width_of_tile, from.columns - first);
  for (int64_t k = 0; k < from.rows; ++k, to += width_of_tile) {
    const T* row = from.data + k * from.row_stride + first * from.column_stride;
    if (from.column_stride == 1 && factor == T{1})
      std::copy(row, row + count, to);
    else
      for (int64_t j = 0; j < count; ++j) to[j] = factor * row[j * from.column_stride];
    std::fill(to + count, to + width_of_tile, T{0});
  }
}

/// One block of the depth: a^T [depth, m], b [depth, n].
template <class T>
class DepthBlock {
 public:
  DepthBlock(const TileLoop<T>& loop, MatrixView<T> c, bool lower)
      : loop_(loop),
        c_(c),
        lower_(lower),
        panels_((c.columns + loop.columns - 1) / loop.columns),
        strips_((c.rows + loop.rows - 1) / loop.rows) {}

  void Add(T factor, MatrixView<const T> a_transposed, MatrixView<const T> b) {
    depth_ = b.rows;
    packed_.resize(static_cast<size_t>(panels_ * loop_.columns * depth_));
    ParallelFor(panels_, 4, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        PackStrip(b, p * loop_.columns, loop_.columns, T{1}, Panel(p));
    });
    ParallelFor((strips_ + kStrips - 1) / kStrips, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> strips(static_cast<size_t>(kStrips * loop_.rows * depth_));
      std::vector<T> edge(static_cast<size_t>(loop_.rows * loop_.columns));
      for (int64_t k = begin; k < end; ++k) {
        const int64_t first = k * kStrips, last = std::min(strips_, first + kStrips);
        for (int64_t s = first; s < last; ++s)
          PackStrip(a_transposed, s * loop_.rows, loop_.rows, factor,
                    strips.data() + (s - first) * loop_.rows * depth_);
        for (int64_t p = 0; p < panels_; ++p)
          for (int64_t s = first; s < last; ++s)
            AddTile(s, p, strips.data() + (s - first) * loop_.rows * depth_, edge);
      }
    });
  }

 private:
  T* Panel(int64_t p) { return packed_.data() + p * loop_.columns * depth_; }

  void AddTile(int64_t strip, int64_t panel, const T* a, std::vector<T>& edge) {
    const int64_t row = strip * loop_.rows, column = panel * loop_.columns;
    if (lower_ && column >= row + loop_.rows) return;
    T* const at = c_.data + row * c_.row_stride + column;
    const int64_t rows = std::min(loop_.rows, c_.rows - row),
                  columns = std::min(loop_.columns, c_.columns - column);
    if (rows == loop_.rows && columns == loop_.columns)
      return loop_.add(depth_, a, Panel(panel), at, c_.row_stride);
    std::fill(edge.begin(), edge.end(), T{0});
    loop_.add(depth_, a, Panel(panel), edge.data(), loop_.columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        at[i * c_.row_stride + j] += edge[static_cast<size_t>(i * loop_.columns + j)];
  }

  const TileLoop<T>& loop_;
  const MatrixView<T> c_;
  const bool lower_;
  const int64_t panels_, strips_;
  int64_t depth_ = 0;
  std::vector<T> packed_;
};

}  // namespace

template <class T>
void AddProduct(T factor, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
                Part part) {
  INFER_CHECK(a.rows == c.rows && b.columns == c.columns && a.columns == b.rows);
  if (c.rows == 0 || c.columns == 0) return;
  if (c.column_stride != 1 && part == Part::kWhole)
    return AddProduct<T>(factor, b.transposed(), a.transposed(), c.transposed(), part);
  INFER_CHECK(c.column_stride == 1);
  DepthBlock<T> block(TheProductLoops().of<T>(), c, part == Part::kLower);
  const MatrixView<const T> rows = a.transposed();
  for (int64_t at = 0; at < b.rows; at += kDepth) {
    const int64_t count = std::min(kDepth, b.rows - at);
    block.Add(factor, rows.block(at, 0, count, rows.columns), b.block(at, 0, count, b.columns));
  }
}

template void AddProduct<float>(float, MatrixView<const float>, MatrixView<const float>,
                                MatrixView<float>, Part);
template void AddProduct<double>(double, MatrixView<const double>, MatrixView<const double>,
                                 MatrixView<double>, Part);

}  // namespace infer
