#include "quant/algorithm/input_sweep.h"

#include <Eigen/Core>
#include <algorithm>
#include <utility>

#include "quant/algebra/eigen_product.h"

namespace infer {
namespace {

using SweepMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using SweepDoubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

Result<std::vector<float>> InverseFactor(std::span<const double> h, int64_t n) {
  std::vector<double> own(h.begin(), h.end());
  return InverseFactorInPlace(own, n);
}

Result<std::vector<float>> InverseFactorInPlace(std::span<double> h, int64_t n) {
  std::reverse(h.begin(), h.end());
  Eigen::Map<SweepDoubles> inverse(h.data(), n, n);
  INFER_TRY(FactorCholesky(MutableViewOf(inverse)));
  InvertLower(MutableViewOf(inverse));
  if (!inverse.allFinite()) return Unsupported("the second moments cannot be factorised");
  std::vector<float> u(static_cast<size_t>(n * n));
  Eigen::Map<SweepMatrix>(u.data(), n, n) = inverse.reverse().cast<float>();
  return u;
}

InputSweep::InputSweep(std::vector<float> u, std::vector<float> x, int64_t depth, int64_t rows)
    : u_(std::move(u)), x_(std::move(x)), depth_(depth), rows_(rows) {}

std::span<const float> InputSweep::x(int64_t i) const {
  return std::span(x_).subspan(static_cast<size_t>(i * rows_), static_cast<size_t>(rows_));
}

float InputSweep::pivot(int64_t i) const { return u_[static_cast<size_t>(i * depth_ + i)]; }

void InputSweep::Block(int64_t begin, int64_t count, Fix fix) {
  errors_.resize(static_cast<size_t>(count * rows_));
  const Eigen::Map<const SweepMatrix> u(u_.data(), depth_, depth_);
  Eigen::Map<SweepMatrix> x(x_.data(), depth_, rows_), errors(errors_.data(), count, rows_);
  for (int64_t i = begin; i < begin + count; ++i) {
    fix(i, this->x(i), u(i, i),
        std::span(errors_).subspan(static_cast<size_t>((i - begin) * rows_),
                                   static_cast<size_t>(rows_)));
    const int64_t rest = begin + count - i - 1;
    x.middleRows(i + 1, rest).noalias() -=
        u.row(i).segment(i + 1, rest).transpose() * errors.row(i - begin);
  }
  const int64_t rest = depth_ - begin - count;
  AddProduct<float>(-1, ViewOf(u).block(begin, begin + count, count, rest).transposed(),
                    ViewOf(errors), MutableViewOf(x).block(begin + count, 0, rest, rows_));
}

}  // namespace infer
