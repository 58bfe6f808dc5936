#pragma once
/// Second moments made regular, in f64. For .cc files.
#include "quant/algebra/eigen_product.h"
#include "quant/prune/moments.h"

namespace infer {

using MomentMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Of one group of depth d with r rows.
struct DampedMoments {
  MomentMatrix h;  ///< [d, d], positive definite
  MomentMatrix c;  ///< [d, r], with the damping's pull towards the dense weights
};

/// `damping` of the mean of H's diagonal is added to the diagonal, 1 where H is 0, and at
/// least what the sums' rounding may have taken: about the mean, inputs that hardly vary leave
/// little else. `about_mean`:
/// moments about the means of X and Y, as of a layer whose results may shift by a constant.
/// `dense`: the group's weights [r, d]. Pre: m has h.
DampedMoments DampedOf(const WeightPlane& plane, std::span<const float> dense,
                       const LayerMoments& m, double damping, bool about_mean);

/// The weights that err least, transposed: [d, r], H^-1 C. H is factorised where it lies: a second
/// [d, d] in f64 is 170 MB for 4,608 inputs. Unsupported: H cannot be factorised.
Result<MomentMatrix> LeastErring(DampedMoments&& m);

}  // namespace infer
