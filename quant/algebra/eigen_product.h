#pragma once
/// Products of Eigen's matrices by product.h. For .cc files.
#include <Eigen/Core>

#include "quant/algebra/product.h"

namespace infer {

/// The view of a matrix, map or block that lies in memory.
template <class M>
MatrixView<const typename M::Scalar> ViewOf(const M& m) {
  return {m.data(), m.rows(), m.cols(), m.rowStride(), m.colStride()};
}
template <class M>
MatrixView<typename M::Scalar> MutableViewOf(M& m) {
  return {m.data(), m.rows(), m.cols(), m.rowStride(), m.colStride()};
}

/// a * b, of matrices, maps or blocks.
template <class A, class B>
Eigen::Matrix<typename A::Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> Multiply(
    const A& a, const B& b) {
  using T = typename A::Scalar;
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> c;
  c.setZero(a.rows(), b.cols());
  AddProduct<T>(T{1}, ViewOf(a), ViewOf(b), MutableViewOf(c));
  return c;
}

}  // namespace infer
