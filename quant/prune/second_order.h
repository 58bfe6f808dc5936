#pragma once
/// Masks and weights of one layer by the second moments of what it reads: no graph here. With the
/// moments H and the weights T that err least without any zero, a sparse V errs by
/// tr((V - T) H (V - T)^T) more. H is damped, factorised in f64.
///
/// Sources: SparseGPT (Frantar and Alistarh, arXiv 2301.00774): sweep over the inputs, masks by
/// w^2 / [H^-1]_kk in blocks of inputs, errors made up for by the inputs still to come. Masks by
/// alternating directions on H with a unit diagonal, and weights by conjugate gradients for a given
/// mask, as in ALPS (Meng et al., arXiv 2406.07831). Wanda (Sun et al., arXiv 2306.11695): scores
/// |w| times the norm of the input.
#include "quant/prune/mask_sweep.h"
#include "quant/prune/moments.h"

namespace infer {

/// |w|, or |w| times the norm of its input (`moments` by group).
std::vector<float> MagnitudeScores(std::span<const float> dense);
std::vector<float> WandaScores(const WeightPlane& plane, std::span<const float> dense,
                               std::span<const LayerMoments> moments);
PrunedMatrix Masked(std::span<const float> dense, KeepMask keep);

/// Squared error of the layer's outputs over the rows in `moments` (by group). Pre: they have h.
double PrunedError(const WeightPlane& plane, const PrunedMatrix& pruned,
                   std::span<const LayerMoments> moments);
/// |Y|^2 over these rows.
double OutputEnergy(std::span<const LayerMoments> moments);
/// Sets `shift` such that the mean of each result is the dense one's.
void ShiftMeans(const WeightPlane& plane, std::span<const LayerMoments> moments, PrunedMatrix& p);

struct SecondOrderOptions {
  double damping = 0.01;  ///< of the mean diagonal, added to the diagonal
  /// Aim for what the layer makes of the dense model's inputs (T from C), else for its own weights
  /// (T = W), as SparseGPT does.
  bool outputs = true;
  bool with_shift = false;  ///< results may shift by a constant: moments about the mean
};

class SecondOrder {
 public:
  /// `dense`, `pattern` and what `moments` view must outlive the object; `units` become zero.
  /// Unsupported: H cannot be factorised.
  static Result<SecondOrder> Make(const WeightPlane& plane, std::span<const float> dense,
                                  const SparsityPattern& pattern, int64_t units,
                                  std::span<const LayerMoments> moments,
                                  const SecondOrderOptions& options);

  /// SparseGPT's sweep. The factors that it needs are kept for the next one.
  Result<PrunedMatrix> Sweep();
  /// The same with codes on the way (MaskSweepRequest::grid, least).
  Result<PrunedMatrix> SweepCodes(const BlockQuantized& grid, int least);
  /// Codes for weights whose zeros are decided.
  Result<PrunedMatrix> SweepCodesOf(const PrunedMatrix& pruned, const BlockQuantized& grid,
                                    int least);
  /// Other units to zero than those given to Make.
  void SetUnits(int64_t units) { units_ = units; }
  /// A mask by alternating directions. Slow for large depths: about 10 factorisations.
  Result<KeepMask> AlternatingMask() const;
  /// The weights that err least for the mask; `start` (or T) is where the search begins.
  PrunedMatrix Refit(KeepMask keep, std::span<const float> start = {}) const;
  /// Scores of T with the norms of H's diagonal: Wanda's of what is aimed for.
  std::vector<float> TargetScores() const;
  /// Of a group: the damped H [d, d], and T [rows, d].
  std::span<const float> h(size_t group) const { return groups_[group].h; }
  std::span<const float> target(size_t group) const { return groups_[group].target; }
  size_t groups() const { return groups_.size(); }

 private:
  Result<std::vector<float>> FactorOf(size_t group) const;
  /// `start`: weights [all_rows, depth] that the sweep begins with; empty: T.
  Result<PrunedMatrix> SweepOf(const MaskSweepRequest& request, std::span<const float> start);
  struct Group {
    std::vector<float> h;       // damped, [d, d]
    std::vector<float> target;  // [rows, d]: T
    std::vector<float> factor;  // of InverseFactor, once a sweep has asked for it
  };
  const WeightPlane* plane_ = nullptr;
  const SparsityPattern* pattern_ = nullptr;
  std::span<const float> dense_;
  std::span<const LayerMoments> moments_;
  int64_t units_ = 0;
  bool with_shift_ = false;
  double damping_ = 0;
  std::vector<Group> groups_;
};

}  // namespace infer
