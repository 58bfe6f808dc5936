#pragma once
/// Dense products and Cholesky factors for the algorithms that rest on second moments (GPTQ,
/// SparseGPT, ALPS). Eigen, which they use for all else, is compiled for the oldest processor;
/// these run on the instructions of this one (product_loops.h), on the lanes of the calling thread.
/// The bits do not depend on the number of lanes.
#include <cstdint>

#include "lib/support/status.h"

namespace infer {

/// A matrix of another owner, by the distance of its rows and columns in numbers.
template <class T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 1;

  MatrixView transposed() const { return {data, columns, rows, column_stride, row_stride}; }
  MatrixView block(int64_t row, int64_t column, int64_t height, int64_t width) const {
    return {data + row * row_stride + column * column_stride, height, width, row_stride,
            column_stride};
  }
  T& at(int64_t row, int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
};

/// The same for reading.
template <class T>
MatrixView<const T> Const(MatrixView<T> m) {
  return {m.data, m.rows, m.columns, m.row_stride, m.column_stride};
}

enum class Part : uint8_t {
  kWhole,
  kLower  ///< the diagonal and below; numbers above it may be overwritten
};

/// c [m, n] += factor * a [m, depth] * b [depth, n]. Rows or columns of c are dense. Pre: c
/// overlaps neither a nor b. T: float or double.
template <class T>
void AddProduct(T factor, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
                Part part = Part::kWhole);

/// Second moments below it count as zeros: near its smallest numbers f32 loses the digits of sums
/// of squares, which cannot be factorised then.
inline constexpr double kLeastMoment = 1e-30;

/// L with L L^T = a, over the lower triangle of the square matrix a; what lies above the diagonal
/// is neither read nor kept. Unsupported where a is not positive definite.
Status FactorCholesky(MatrixView<double> a);

/// The inverse of the lower triangle of the square matrix l, in its place, zeros above. Pre: no 0
/// on the diagonal.
void InvertLower(MatrixView<double> l);

/// The inverse of the symmetric matrix of which a holds the lower triangle, in its place, both
/// triangles. Unsupported where it is not positive definite.
Status InvertSymmetric(MatrixView<double> a);

}  // namespace infer
