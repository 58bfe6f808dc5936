#pragma once
/// Two factors of a layer's weights, by the second moments of what it reads: no graph here.
///
/// A layer y = X W^T with weights V of rank r errs by |X V^T - Y|^2, which is tr((V - T) H (V -
/// T)^T) and a constant: H = X^T X, T the weights that err least. With H = L L^T (Cholesky) that is
/// |V L - T L|^2, so the best V L is the singular value decomposition T L = U S Z^T cut off after r
/// values (Eckart and Young). Taking the whitening back needs no inverse of L: U_r S_r Z_r^T L^-1 =
/// U_r (U_r^T T). All of it in f64, H damped: inputs that are always 0 do no harm, and at full rank
/// the product is T.
///
/// Sources: the cut after whitening is that of SVD-LLM (Wang et al., arXiv 2403.07378); with T of
/// the dense model's outputs it is reduced-rank regression (Izenman 1975).
#include "quant/prune/choose.h"

namespace infer {

struct LowRankFactors {
  int64_t rank = 0;
  std::vector<float> left;    ///< [rows, rank]
  std::vector<float> right;   ///< [rank, depth]
  std::vector<double> shift;  ///< by row, added to the result; empty: none
};

/// left times right, nothing masked.
PrunedMatrix ProductOf(const WeightPlane& plane, const LowRankFactors& factors);

struct FactorOptions {
  double damping = 0.01;  ///< of the mean diagonal of H, added to the diagonal
  bool outputs = true;  ///< T: aim for the dense model's outputs; else for the layer's own weights
  bool with_shift = false;  ///< moments about the mean: results may shift by a constant
  bool weighted = true;     ///< false: H is taken to be the identity, the plain decomposition
};

/// The decomposition of one layer, from which factors of any rank are cut.
class LayerFactors {
 public:
  /// Pre: one group, moments with h; `plane` and `moments` outlive the object. Unsupported: the
  /// moments cannot be factorised, or are not finite.
  static Result<LayerFactors> Make(const WeightPlane& plane, std::span<const float> dense,
                                   const LayerMoments& moments, const FactorOptions& options);
  int64_t full_rank() const { return static_cast<int64_t>(values_.size()); }
  /// Singular values, descending.
  std::span<const double> values() const { return values_; }
  /// Numbers between the products have the root mean square sqrt(value / sqrt(rows of X)): the two
  /// factors share the scale, which training and 8-bit codes like. Pre: 1 <= rank <= full_rank().
  LowRankFactors At(int64_t rank) const;

 private:
  const WeightPlane* plane_ = nullptr;
  const LayerMoments* moments_ = nullptr;
  bool with_shift_ = false;
  std::vector<double> values_;
  std::vector<double> left_;    // [rows, full rank], orthonormal columns
  std::vector<double> target_;  // [rows, depth]: T
};

struct FactorJob {
  WeightPlane plane;  ///< one group
  std::span<const float> dense;
  int64_t rank = 0;
  bool takes_shift = false;  ///< as LayerJob
};

/// A layer in two factors.
struct FactoredLayer {
  LowRankFactors factors;
  /// The product. Its method: "fitted" (to the dense model's outputs) or "weighted" (to its own
  /// weights), "+bias" where its results shift.
  LayerResult layer;
  double plain_error = -1;  ///< of the plain decomposition at this rank, as LayerResult::error
};

/// Tries both aims, keeps what errs least on held-out rows, and makes it again from all, which are
/// summed where the moments lie. Errors as LayerFactors::Make, and Unsupported: no moments.
Result<FactoredLayer> FactorLayer(const FactorJob& job, MomentsPair&& moments);

}  // namespace infer
