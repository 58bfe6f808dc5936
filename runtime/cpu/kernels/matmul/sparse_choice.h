#pragma once
/// Whether a product by constant weights gains by leaving their zeros out, and in which form.
#include <mutex>
#include <optional>

#include "runtime/cpu/kernels/matmul/sparse_product.h"

namespace infer {

/// Of one step. Thread-safe. By counted work alone (SparseWork, DenseWork), so that the choice is
/// the same in each run.
class SparseChoice {
 public:
  /// `level`: with 2 the dense product may be Strassen's. `threads`: that there is scratch for.
  SparseChoice(int level, int threads) : level_(level), threads_(threads) {}

  /// The product but for its epilogue and how its operands lie; Unsupported says what zeros there
  /// are and what they would gain.
  Result<SparseProduct> Make(const WeightMatrix& w, const SparseShape& shape) const;

 private:
  int level_, threads_;
  mutable std::mutex mutex_;
  mutable std::optional<double> sample_;
  mutable std::optional<SparseCounts> counts_;
  mutable std::shared_ptr<const SparseWeights> packed_[3];
};

}  // namespace infer
