#pragma once
/// Shapes of NumPy's matmul, shared by every operator that multiplies batches of matrices.
#include <functional>

#include "lib/ops/op_def.h"

namespace infer {

/// Extents of one static product: Y[batch..., m, n] = A[batch..., m, k] B[batch..., k, n].
struct MatMulGeometry {
  int64_t m = 1, n = 1, k = 1;
  Dims batch;               ///< broadcast batch extents
  Dims output;              ///< Y's extents, with the axes of 1-D operands removed
  Dims a_offset, b_offset;  ///< element offset of each (flat) batch in A and B; empty when Y is
  int64_t num_batches() const { return static_cast<int64_t>(a_offset.size()); }
};

/// numpy.matmul's rules; a 1-D A is a row, a 1-D B a column. InvalidModel when they do not fit.
Result<Shape> MatMulShape(const Shape& a, const Shape& b);
Result<MatMulGeometry> ReadMatMulGeometry(const Dims& a, const Dims& b);

/// Sums of products in double (see gemm_reference.h); operands of any real type but u64 beyond
/// 2^53. `store(batch, row, col0, count, sums)`.
void MatMulReference(
    const MatMulGeometry& g, const Tensor& a, const Tensor& b,
    const std::function<void(int64_t, int64_t, int64_t, int64_t, const double*)>& store);

/// The axes of an operand of com.microsoft::FusedMatMul in the order in which it is multiplied:
/// transBatch moves axis 0 behind the batch axes, trans swaps the last two then.
std::vector<int> FusedMatMulAxes(int rank, bool trans, bool trans_batch);
/// The same of operand 0 or 1 of a call.
std::vector<int> FusedMatMulAxes(const OpCall& call, int rank, size_t operand);

/// 2 m n k per batch; 0 where shapes are not static.
int64_t MatMulFlops(const OpCall& call, size_t a, size_t b);

}  // namespace infer
