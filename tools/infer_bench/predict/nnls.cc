#include "tools/infer_bench/predict/nnls.h"

#include <Eigen/Dense>
#include <algorithm>

#include "lib/support/status.h"

namespace infer::bench {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

class ActiveSet {
 public:
  ActiveSet(MatrixXd gram, VectorXd target)
      : gram_(std::move(gram)), target_(std::move(target)), x_(VectorXd::Zero(target_.size())) {}

  VectorXd Solve() {
    const double enough = 1e-11 * (1 + target_.cwiseAbs().maxCoeff());
    std::vector<bool> tried(static_cast<size_t>(x_.size()), false);
    for (Index left = 10 * x_.size(); left > 0; --left) {
      const VectorXd gradient = target_ - gram_ * x_;
      Index best = -1;
      for (Index i = 0; i < x_.size(); ++i)
        if (!IsFree(i) && !tried[static_cast<size_t>(i)] && gradient[i] > enough &&
            (best < 0 || gradient[i] > gradient[best]))
          best = i;
      if (best < 0) break;
      free_.push_back(best);
      if (Descend()) {
        tried.assign(tried.size(), false);
      } else {  // rounding alone made it look promising
        tried[static_cast<size_t>(best)] = true;
      }
    }
    return x_;
  }

 private:
  bool IsFree(Index i) const { return std::find(free_.begin(), free_.end(), i) != free_.end(); }

  /// To the least squares of the free columns, giving up those that turn negative on the way.
  /// False: the newest column did not become positive, and is not free any more.
  bool Descend() {
    const Index newest = free_.back();
    while (!free_.empty()) {
      const VectorXd s = FreeSolution();
      double step = 1;
      Index first = -1;  // to reach 0
      for (size_t k = 0; k < free_.size(); ++k) {
        const double x = x_[free_[k]], to = s[static_cast<Index>(k)];
        if (to > 0) continue;
        if (free_[k] == newest && x == 0) {
          free_.pop_back();
          return false;
        }
        if (const double reach = x / (x - to); first < 0 || reach < step)
          step = reach, first = free_[k];
      }
      for (size_t k = 0; k < free_.size(); ++k) {
        double& x = x_[free_[k]];
        x = std::max(0.0, x + step * (s[static_cast<Index>(k)] - x));
      }
      if (first < 0) return true;
      x_[first] = 0;
      std::erase_if(free_, [&](Index i) { return x_[i] == 0; });
    }
    return true;
  }

  VectorXd FreeSolution() const {
    const auto n = static_cast<Index>(free_.size());
    MatrixXd g(n, n);
    VectorXd t(n);
    for (Index i = 0; i < n; ++i) {
      t[i] = target_[free_[static_cast<size_t>(i)]];
      for (Index j = 0; j < n; ++j)
        g(i, j) = gram_(free_[static_cast<size_t>(i)], free_[static_cast<size_t>(j)]);
    }
    return g.ldlt().solve(t);
  }

  const MatrixXd gram_;
  const VectorXd target_;
  VectorXd x_;
  std::vector<Index> free_;
};

}  // namespace

std::vector<double> Nnls(std::span<const double> a, size_t columns, std::span<const double> b,
                         double ridge) {
  INFER_CHECK(a.size() == columns * b.size());
  const auto rows = static_cast<Index>(b.size()), n = static_cast<Index>(columns);
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  MatrixXd scaled = Eigen::Map<const Rows>(a.data(), rows, n);
  VectorXd norms = scaled.colwise().norm();
  for (Index i = 0; i < n; ++i)
    if (norms[i] > 0) scaled.col(i) /= norms[i];
  MatrixXd gram = scaled.transpose() * scaled;
  gram.diagonal().array() += ridge;
  const VectorXd target = scaled.transpose() * Eigen::Map<const VectorXd>(b.data(), rows);
  const VectorXd x = ActiveSet(std::move(gram), target).Solve();
  std::vector<double> out(columns, 0);
  for (Index i = 0; i < n; ++i)
    if (norms[i] > 0) out[static_cast<size_t>(i)] = x[i] / norms[i];
  return out;
}

}  // namespace infer::bench
