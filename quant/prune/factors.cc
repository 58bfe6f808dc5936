#include "quant/prune/factors.h"

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "quant/prune/damped.h"

namespace infer {
namespace {

using FactorFloats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows per input from which one damping is enough.
constexpr int64_t kManyRows = 10;
constexpr double kLittleDamping = 0.01, kMuchDamping = 0.1;
/// Values below this share of the largest do not shrink a factor further.
constexpr double kLeastValue = 1e-6;

MomentMatrix DoublesOf(std::span<const float> v, int64_t rows, int64_t columns) {
  return Eigen::Map<const FactorFloats>(v.data(), rows, columns).cast<double>();
}

struct FactorCandidate {
  FactorOptions options;
  std::string name;
};

std::vector<FactorCandidate> FactorCandidates(const FactorJob& job, const LayerMoments& sample) {
  const std::string shift = job.takes_shift ? "+bias" : "";
  std::vector<FactorCandidate> all;
  const bool few = sample.rows < kManyRows * job.plane.depth();
  for (const double damping : {kLittleDamping, kMuchDamping})
    if (damping == kLittleDamping || few)
      all.push_back({{damping, true, job.takes_shift}, "fitted" + shift});
  all.push_back({{kLittleDamping, false, job.takes_shift}, "weighted" + shift});
  return all;
}

/// The left side of a singular value decomposition: A = U S Z^T with a thin U.
struct LeftSide {
  MomentMatrix u;              ///< [rows, min(rows, columns)], orthonormal columns
  std::vector<double> values;  ///< of S, descending
};

/// U and S^2 are the eigenvectors and eigenvalues of A A^T, or of R^T's where A = Q R is taller
/// than wide (then U = Q times them), so that the columns of U are orthonormal in either case, and
/// span what A does where all are taken. Squares halve the digits of small values: those below 1e-8
/// of the largest are noise. That does no harm here. A cut after r values errs by the eigenvalues
/// that it leaves out, each of which is right to 1e-16 of the largest; values scale factors only
/// from kLeastValue up, far above the noise. Eigen's BDCSVD, whose small values are right, compiles
/// for more than twice as long. Nothing: squares that are no numbers, or no convergence.
std::optional<LeftSide> LeftSideOf(const MomentMatrix& a) {
  const bool tall = a.rows() > a.cols();
  std::optional<Eigen::HouseholderQR<Eigen::MatrixXd>> qr;
  if (tall) qr.emplace(a);
  const MomentMatrix square =
      tall ? MomentMatrix(qr->matrixQR().topRows(a.cols()).triangularView<Eigen::Upper>()) : a;
  const Eigen::MatrixXd gram = Multiply(square, MomentMatrix(square.transpose()));
  if (!gram.allFinite()) return std::nullopt;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(gram);
  if (eigen.info() != Eigen::Success || !eigen.eigenvectors().allFinite()) return std::nullopt;
  LeftSide side;
  const Eigen::MatrixXd vectors = eigen.eigenvectors().rowwise().reverse();  // they come ascending
  if (tall) {
    Eigen::MatrixXd u = Eigen::MatrixXd::Zero(a.rows(), a.cols());
    u.topRows(a.cols()) = vectors;
    u.applyOnTheLeft(qr->householderQ());
    side.u = u;
  } else {
    side.u = vectors;
  }
  for (Eigen::Index i = eigen.eigenvalues().size(); i-- > 0;)
    side.values.push_back(std::sqrt(std::max(eigen.eigenvalues()[i], 0.0)));
  return side;
}

double RootOfShare(double error, double energy) {
  return energy > 0 ? std::sqrt(error / energy) : 0;
}

}  // namespace

PrunedMatrix ProductOf(const WeightPlane& plane, const LowRankFactors& f) {
  const Eigen::Map<const FactorFloats> left(f.left.data(), plane.rows, f.rank);
  const Eigen::Map<const FactorFloats> right(f.right.data(), f.rank, plane.depth());
  const FactorFloats product = Multiply(left, right);
  return {{product.data(), product.data() + product.size()},
          f.shift,
          KeepMask(static_cast<size_t>(plane.size()), 1)};
}

Result<LayerFactors> LayerFactors::Make(const WeightPlane& plane, std::span<const float> dense,
                                        const LayerMoments& moments, const FactorOptions& options) {
  INFER_CHECK(plane.groups == 1);
  LayerFactors f;
  f.plane_ = &plane;
  f.moments_ = &moments;
  f.with_shift_ = options.with_shift;
  const int64_t d = plane.depth(), r = plane.rows;
  MomentMatrix target = DoublesOf(dense, r, d), whitened = target;
  if (options.weighted) {
    if (moments.h.empty() || !moments.finite())
      return Unsupported("the second moments are not finite");
    // Made twice rather than copied: a second [d, d] in f64 would be the largest part of all.
    const auto damped = [&] {
      return DampedOf(plane, dense, moments, options.damping, options.with_shift);
    };
    if (options.outputs) {
      INFER_ASSIGN(const MomentMatrix least, LeastErring(damped()));
      target = least.transpose();
    }
    MomentMatrix h = damped().h;
    INFER_TRY(FactorCholesky(MutableViewOf(h)));
    h.triangularView<Eigen::StrictlyUpper>().setZero();
    whitened = Multiply(target, h);
  }
  if (!whitened.allFinite()) return Unsupported("the second moments cannot be factorised");
  auto left = LeftSideOf(whitened);
  if (!left) return Unsupported("the singular values of the layer cannot be computed");
  f.values_ = std::move(left->values);
  f.left_.assign(left->u.data(), left->u.data() + left->u.size());
  f.target_.assign(target.data(), target.data() + target.size());
  return f;
}

LowRankFactors LayerFactors::At(int64_t rank) const {
  INFER_CHECK(rank >= 1 && rank <= full_rank());
  const int64_t d = plane_->depth(), r = plane_->rows;
  const Eigen::Map<const MomentMatrix> all(left_.data(), r, full_rank());
  const Eigen::Map<const MomentMatrix> target(target_.data(), r, d);
  MomentMatrix left = all.leftCols(rank);
  MomentMatrix right = Multiply(MomentMatrix(left.transpose()), target);
  const double rows = std::sqrt(static_cast<double>(std::max<int64_t>(moments_->rows, 1)));
  for (int64_t k = 0; k < rank; ++k) {
    const double value =
        std::max(values_[static_cast<size_t>(k)], kLeastValue * values_.front()) / rows;
    const double scale = value > 0 ? std::sqrt(value) : 1.0;
    left.col(k) *= scale;
    right.row(k) /= scale;
  }
  LowRankFactors f;
  f.rank = rank;
  f.left.resize(static_cast<size_t>(left.size()));
  f.right.resize(static_cast<size_t>(right.size()));
  Eigen::Map<FactorFloats>(f.left.data(), r, rank) = left.cast<float>();
  Eigen::Map<FactorFloats>(f.right.data(), rank, d) = right.cast<float>();
  if (with_shift_) {
    PrunedMatrix product = ProductOf(*plane_, f);
    ShiftMeans(*plane_, {moments_, 1}, product);
    f.shift = std::move(product.shift);
  }
  return f;
}

Result<FactoredLayer> FactorLayer(const FactorJob& job, MomentsPair&& moments) {
  if (moments.fit.size() != 1 || moments.fit.front().h.empty() || moments.fit.front().rows == 0)
    return Unsupported("nothing is known of what the layer multiplies");
  const LayerMoments& fit = moments.fit.front();
  const bool has_judge = moments.held_out.front().rows > 0;
  const std::span<const LayerMoments> judge = has_judge ? moments.held_out : moments.fit;
  const double energy = OutputEnergy(judge);
  std::optional<FactorCandidate> best;
  double least = 0;
  for (const FactorCandidate& c : FactorCandidates(job, fit)) {
    INFER_ASSIGN(const LayerFactors made, LayerFactors::Make(job.plane, job.dense, fit, c.options));
    const double error = PrunedError(job.plane, ProductOf(job.plane, made.At(job.rank)), judge);
    if (best && !(error < least)) continue;
    best = c;
    least = error;
  }
  FactoredLayer out;
  {
    INFER_ASSIGN(
        const LayerFactors plain,
        LayerFactors::Make(job.plane, job.dense, fit, {.outputs = false, .weighted = false}));
    out.plain_error = RootOfShare(
        PrunedError(job.plane, ProductOf(job.plane, plain.At(job.rank)), judge), energy);
  }
  out.layer.method = best->name;
  out.layer.error = RootOfShare(least, energy);
  out.layer.dense_error = RootOfShare(
      PrunedError(job.plane, Masked(job.dense, KeepMask(job.dense.size(), 1)), judge), energy);
  if (has_judge) {  // from here on all rows fit
    moments.fit.front().Add(moments.held_out.front());
    moments.held_out.clear();
  }
  INFER_ASSIGN(const LayerFactors chosen,
               LayerFactors::Make(job.plane, job.dense, moments.fit.front(), best->options));
  out.factors = chosen.At(job.rank);
  out.layer.matrix = ProductOf(job.plane, out.factors);
  return out;
}

}  // namespace infer
