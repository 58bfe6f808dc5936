#include "quant/prune/damped.h"

#include <algorithm>

#include "quant/algebra/product.h"

namespace infer {
namespace {

/// Of sums in f32: what their rounding may take off an eigenvalue, as a share of the trace.
constexpr double kSumRounding = 0x1p-22;

}  // namespace

DampedMoments DampedOf(const WeightPlane& plane, std::span<const float> dense,
                       const LayerMoments& m, double damping, bool about_mean) {
  using Floats =
      Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  const int64_t d = plane.depth(), r = plane.rows;
  DampedMoments s{Floats(m.h.data(), d, d).cast<double>(), Floats(m.c.data(), d, r).cast<double>()};
  const double rounding = kSumRounding * s.h.trace();
  if (about_mean && m.rows > 0) {
    const Eigen::Map<const Eigen::VectorXd> x(m.sum_x.data(), d), y(m.sum_y.data(), r);
    // By rows: the product of two vectors as a whole would be another [d, d].
    for (int64_t k = 0; k < d; ++k)
      s.h.row(k) -= x(k) * x.transpose() / static_cast<double>(m.rows);
    s.c.noalias() -= x * y.transpose() / static_cast<double>(m.rows);
  }
  const double mean = s.h.diagonal().mean(), added = mean > kLeastMoment
                                                         ? std::max(damping * mean, rounding)
                                                         : std::max(1.0, rounding);
  s.h.diagonal().array() += added;
  s.c += added * Floats(dense.data(), r, d).cast<double>().transpose();
  return s;
}

Result<MomentMatrix> LeastErring(DampedMoments&& m) {
  INFER_TRY(FactorCholesky(MutableViewOf(m.h)));
  InvertLower(MutableViewOf(m.h));
  // H^-1 C with H = L L^T.
  const MomentMatrix half = Multiply(m.h, m.c);
  MomentMatrix weights = MomentMatrix::Zero(m.c.rows(), m.c.cols());
  AddProduct<double>(1, ViewOf(m.h).transposed(), ViewOf(half), MutableViewOf(weights));
  if (!weights.allFinite()) return Unsupported("the second moments cannot be factorised");
  return weights;
}

}  // namespace infer
