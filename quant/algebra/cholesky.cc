#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>

#include "quant/algebra/eigen_product.h"

namespace infer {
namespace {

using Small = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using SmallMap = Eigen::Map<Small, 0, Eigen::OuterStride<>>;

constexpr int64_t kBlock = 64;  // factorised and inverted by Eigen
constexpr int64_t kWide =
    256;  // columns of one product with a triangle, whose zeros are multiplied, too

SmallMap MapOf(MatrixView<double> m) {
  return SmallMap(m.data, m.rows, m.columns, Eigen::OuterStride<>(m.row_stride));
}

/// The inverse of the lower triangle of a small matrix, zeros above.
Small InverseOfLower(MatrixView<double> l) {
  Small inverse = Small::Identity(l.rows, l.rows);
  MapOf(l).triangularView<Eigen::Lower>().solveInPlace(inverse);
  return inverse;
}

/// m = factor * left * m.
void MultiplyLeft(double factor, const Small& left, MatrixView<double> m) {
  Small product = Small::Zero(m.rows, m.columns);
  AddProduct<double>(factor, ViewOf(left), Const(m), MutableViewOf(product));
  MapOf(m) = product;
}

}  // namespace

Status FactorCholesky(MatrixView<double> a) {
  INFER_CHECK(a.rows == a.columns && a.column_stride == 1);
  const int64_t n = a.rows;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at), rest = n - at - count;
    const MatrixView<double> corner = a.block(at, at, count, count);
    SmallMap map = MapOf(corner);
    const Eigen::LLT<Small> llt(map);
    if (llt.info() != Eigen::Success) return Unsupported("the second moments cannot be factorised");
    map.triangularView<Eigen::Lower>() = llt.matrixL();
    if (rest == 0) break;
    const Small inverse = InverseOfLower(corner);
    const MatrixView<double> panel = a.block(at + count, at, rest, count);
    Small product = Small::Zero(rest, count);
    AddProduct<double>(1, Const(panel), ViewOf(inverse).transposed(), MutableViewOf(product));
    MapOf(panel) = product;
    AddProduct<double>(-1, Const(panel), Const(panel).transposed(),
                       a.block(at + count, at + count, rest, rest), Part::kLower);
  }
  return {};
}

void InvertLower(MatrixView<double> l) {
  INFER_CHECK(l.rows == l.columns && l.column_stride == 1);
  const int64_t n = l.rows;
  MapOf(l).triangularView<Eigen::StrictlyUpper>().setZero();
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    const MatrixView<double> corner = l.block(at, at, count, count);
    const Small inverse = InverseOfLower(corner);
    // The rows left of the corner: -(corner)^-1 L X, X the inverse so far. A block of columns of X
    // begins at its own row.
    Small left = Small::Zero(count, at);
    for (int64_t column = 0; column < at; column += kWide) {
      const int64_t width = std::min(kWide, at - column), depth = at - column;
      AddProduct<double>(1, Const(l.block(at, column, count, depth)),
                         Const(l.block(column, column, depth, width)),
                         MutableViewOf(left).block(0, column, count, width));
    }
    MapOf(l.block(at, 0, count, at)) = left;
    if (at > 0) MultiplyLeft(-1, inverse, l.block(at, 0, count, at));
    MapOf(corner).triangularView<Eigen::Lower>() = inverse;
  }
}

Status InvertSymmetric(MatrixView<double> a) {
  INFER_TRY(FactorCholesky(a));
  InvertLower(a);
  const int64_t n = a.rows;
  Small inverse = Small::Zero(n, n);
  for (int64_t at = 0; at < n; at += kWide) {
    const int64_t count = std::min(kWide, n - at), end = at + count;
    const MatrixView<const double> rows = Const(a.block(at, 0, count, end));
    AddProduct<double>(1, rows.transposed(), rows, MutableViewOf(inverse).block(0, 0, end, end),
                       Part::kLower);
  }
  MapOf(a) = inverse;
  MapOf(a).triangularView<Eigen::StrictlyUpper>() = inverse.transpose();
  return {};
}

}  // namespace infer
