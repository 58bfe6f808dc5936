#include "quant/prune/second_order.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/support/parallel.h"
#include "quant/prune/damped.h"

namespace infer {
namespace {

using PruneMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using PruneView = Eigen::Map<const PruneMatrix>;

constexpr int64_t kRowChunk = 96;  // of rows that are refitted together
/// Steps of conjugate gradients; of a large layer, which begins near its end, fewer.
constexpr int kRefitSteps = 60, kLargeRefitSteps = 20;
constexpr int64_t kLargeDepth = 2048;
constexpr double kRefitTolerance = 1e-4;  // of the residual, to where it began
constexpr double kFirstPenalty = 0.1, kPenaltyGrowth = 1.6;
constexpr int kPenalties = 10, kStepsOfPenalty = 3;

PruneView GroupRows(const WeightPlane& plane, std::span<const float> all, size_t g) {
  return {all.data() + static_cast<int64_t>(g) * plane.rows * plane.depth(), plane.rows,
          plane.depth()};
}

/// Rows [begin, begin + n) of a group whose H and T are given: conjugate gradients on the weights
/// that `support` keeps, preconditioned by the diagonal. `v` begins anywhere on the support.
void RefitRows(const PruneView& h, const PruneMatrix& target, const PruneMatrix& support,
               PruneMatrix& v) {
  const Eigen::ArrayXf inverse_diagonal = h.diagonal().array().inverse();
  const PruneMatrix missing = target - v;
  PruneMatrix r = Multiply(missing, h).cwiseProduct(support);
  PruneMatrix z = r.array().rowwise() * inverse_diagonal.transpose();
  PruneMatrix p = z;
  const auto dots = [](const PruneMatrix& a, const PruneMatrix& b) -> Eigen::ArrayXd {
    return a.cwiseProduct(b).cast<double>().rowwise().sum();
  };
  Eigen::ArrayXd rz = dots(r, z);
  const Eigen::ArrayXd enough = rz * (kRefitTolerance * kRefitTolerance);
  const int steps = v.cols() > kLargeDepth ? kLargeRefitSteps : kRefitSteps;
  for (int step = 0; step < steps; ++step) {
    const PruneMatrix hp = Multiply(p, h).cwiseProduct(support);
    const Eigen::ArrayXd curve = dots(p, hp);
    Eigen::ArrayXf alpha(v.rows());
    for (int64_t i = 0; i < v.rows(); ++i)
      alpha(i) = curve(i) > 0 && rz(i) > enough(i) ? static_cast<float>(rz(i) / curve(i)) : 0.0f;
    if ((alpha == 0).all()) return;
    v.array() += p.array().colwise() * alpha;
    r.array() -= hp.array().colwise() * alpha;
    z = r.array().rowwise() * inverse_diagonal.transpose();
    const Eigen::ArrayXd next = dots(r, z);
    Eigen::ArrayXf beta(v.rows());
    for (int64_t i = 0; i < v.rows(); ++i)
      beta(i) = rz(i) > 0 ? static_cast<float>(next(i) / rz(i)) : 0.0f;
    p = (z.array() + p.array().colwise() * beta).matrix();
    rz = next;
  }
}

/// (H + penalty I)^-1.
Result<PruneMatrix> PenaltyInverse(const PruneMatrix& h, double penalty) {
  MomentMatrix sum = h.cast<double>();
  sum.diagonal().array() += penalty;
  INFER_TRY(InvertSymmetric(MutableViewOf(sum)));
  return PruneMatrix(sum.cast<float>());
}

}  // namespace

std::vector<float> MagnitudeScores(std::span<const float> dense) {
  std::vector<float> scores(dense.begin(), dense.end());
  for (float& s : scores) s = std::abs(s);
  return scores;
}

std::vector<float> WandaScores(const WeightPlane& plane, std::span<const float> dense,
                               std::span<const LayerMoments> moments) {
  std::vector<float> scores = MagnitudeScores(dense);
  const int64_t depth = plane.depth();
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / depth, k = static_cast<int64_t>(i) % depth;
    const LayerMoments& m = moments[static_cast<size_t>(row / plane.rows)];
    scores[i] *= static_cast<float>(std::sqrt(m.squares[static_cast<size_t>(k)]));
  }
  return scores;
}

PrunedMatrix Masked(std::span<const float> dense, KeepMask keep) {
  PrunedMatrix p{{dense.begin(), dense.end()}, {}, std::move(keep)};
  for (size_t i = 0; i < p.keep.size(); ++i)
    if (!p.keep[i]) p.weights[i] = 0;
  return p;
}

double PrunedError(const WeightPlane& plane, const PrunedMatrix& pruned,
                   std::span<const LayerMoments> moments) {
  double sum = 0;
  const int64_t d = plane.depth();
  for (size_t g = 0; g < moments.size(); ++g) {
    const LayerMoments& m = moments[g];
    const PruneMatrix v = GroupRows(plane, pruned.weights, g);
    const PruneMatrix vh = Multiply(v, PruneView(m.h.data(), d, d));
    const PruneView c(m.c.data(), d, plane.rows);
    sum += v.cwiseProduct(vh - 2.0f * c.transpose()).cast<double>().sum() + m.energy;
    if (pruned.shift.empty()) continue;
    const Eigen::VectorXd made =
        v.cast<double>() * Eigen::Map<const Eigen::VectorXd>(m.sum_x.data(), d);
    for (int64_t r = 0; r < plane.rows; ++r) {
      const double b = pruned.shift[g * static_cast<size_t>(plane.rows) + static_cast<size_t>(r)];
      sum +=
          2 * b * (made(r) - m.sum_y[static_cast<size_t>(r)]) + static_cast<double>(m.rows) * b * b;
    }
  }
  return std::max(sum, 0.0);
}

double OutputEnergy(std::span<const LayerMoments> moments) {
  double sum = 0;
  for (const LayerMoments& m : moments) sum += m.energy;
  return sum;
}

void ShiftMeans(const WeightPlane& plane, std::span<const LayerMoments> moments, PrunedMatrix& p) {
  p.shift.assign(static_cast<size_t>(plane.all_rows()), 0.0);
  for (size_t g = 0; g < moments.size(); ++g) {
    const LayerMoments& m = moments[g];
    if (m.rows == 0) continue;
    const Eigen::VectorXd made = GroupRows(plane, p.weights, g).cast<double>() *
                                 Eigen::Map<const Eigen::VectorXd>(m.sum_x.data(), plane.depth());
    for (int64_t r = 0; r < plane.rows; ++r)
      p.shift[g * static_cast<size_t>(plane.rows) + static_cast<size_t>(r)] =
          (m.sum_y[static_cast<size_t>(r)] - made(r)) / static_cast<double>(m.rows);
  }
}

Result<SecondOrder> SecondOrder::Make(const WeightPlane& plane, std::span<const float> dense,
                                      const SparsityPattern& pattern, int64_t units,
                                      std::span<const LayerMoments> moments,
                                      const SecondOrderOptions& options) {
  SecondOrder s;
  s.plane_ = &plane;
  s.pattern_ = &pattern;
  s.dense_ = dense;
  s.moments_ = moments;
  s.units_ = units;
  s.with_shift_ = options.with_shift;
  s.damping_ = options.damping;
  const int64_t d = plane.depth(), r = plane.rows;
  for (size_t g = 0; g < moments.size(); ++g) {
    const LayerMoments& m = moments[g];
    const PruneView w = GroupRows(plane, dense, g);
    DampedMoments damped = DampedOf(plane, std::span(w.data(), static_cast<size_t>(w.size())), m,
                                    options.damping, options.with_shift);
    Group group;
    group.target.assign(w.data(), w.data() + w.size());
    group.h.resize(static_cast<size_t>(d * d));
    Eigen::Map<PruneMatrix>(group.h.data(), d, d) = damped.h.cast<float>();
    if (options.outputs) {
      INFER_ASSIGN(const MomentMatrix least, LeastErring(std::move(damped)));
      Eigen::Map<PruneMatrix>(group.target.data(), r, d) = least.transpose().cast<float>();
    }
    s.groups_.push_back(std::move(group));
  }
  return s;
}

std::vector<float> SecondOrder::TargetScores() const {
  std::vector<float> scores(dense_.size());
  const int64_t d = plane_->depth(), size = plane_->rows * d;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (int64_t i = 0; i < size; ++i) {
      const int64_t k = i % d;
      const float t = groups_[g].target[static_cast<size_t>(i)];
      const size_t at = g * static_cast<size_t>(size) + static_cast<size_t>(i);
      scores[at] = dense_[at] == 0 ? 0 : t * t * groups_[g].h[static_cast<size_t>(k * d + k)];
    }
  return scores;
}

Result<PrunedMatrix> SecondOrder::Sweep() {
  return SweepOf({*plane_, *pattern_, dense_, units_}, {});
}

Result<PrunedMatrix> SecondOrder::SweepCodes(const BlockQuantized& grid, int least) {
  return SweepOf({*plane_, *pattern_, dense_, units_, nullptr, &grid, least}, {});
}

Result<PrunedMatrix> SecondOrder::SweepCodesOf(const PrunedMatrix& pruned,
                                               const BlockQuantized& grid, int least) {
  return SweepOf({*plane_, *pattern_, dense_, units_, &pruned.keep, &grid, least}, pruned.weights);
}

/// The f64 sums are made again, since kept they would be the largest part of all.
Result<std::vector<float>> SecondOrder::FactorOf(size_t group) const {
  const PruneView w = GroupRows(*plane_, dense_, group);
  DampedMoments damped = DampedOf(*plane_, std::span(w.data(), static_cast<size_t>(w.size())),
                                  moments_[group], damping_, with_shift_);
  return InverseFactorInPlace(std::span(damped.h.data(), static_cast<size_t>(damped.h.size())),
                              plane_->depth());
}

Result<PrunedMatrix> SecondOrder::SweepOf(const MaskSweepRequest& request,
                                          std::span<const float> start) {
  const int64_t d = plane_->depth(), rows = plane_->rows;
  std::vector<InputSweep> sweeps;
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& g = groups_[i];
    if (g.factor.empty()) {
      INFER_ASSIGN(g.factor, FactorOf(i));
    }
    const float* const from =
        start.empty() ? g.target.data() : start.data() + i * static_cast<size_t>(rows * d);
    std::vector<float> x(g.target.size());
    Eigen::Map<PruneMatrix>(x.data(), d, rows) = PruneView(from, rows, d).transpose();
    sweeps.emplace_back(g.factor, std::move(x), d, rows);
  }
  PrunedMatrix p = SweepMask(request, std::move(sweeps));
  if (with_shift_) ShiftMeans(*plane_, moments_, p);
  return p;
}

Result<KeepMask> SecondOrder::AlternatingMask() const {
  const WeightPlane& plane = *plane_;
  const int64_t d = plane.depth(), rows = plane.rows;
  struct State {
    PruneMatrix h, pull, sparse, dual, weights, inverse;  // with a unit diagonal of H
  };
  std::vector<State> states;
  for (const Group& g : groups_) {
    State s;
    const PruneView h(g.h.data(), d, d);
    const Eigen::ArrayXf scale = h.diagonal().array().sqrt();
    s.h = (h.array().colwise() / scale).rowwise() / scale.transpose();
    s.weights = PruneView(g.target.data(), rows, d).array().rowwise() * scale.transpose();
    s.pull = Multiply(s.weights, s.h);
    s.dual = PruneMatrix::Zero(rows, d);
    states.push_back(std::move(s));
  }
  std::vector<float> scores(dense_.size());
  KeepMask keep;
  // The sparse matrix of this pattern that is nearest to weights + dual / penalty.
  const auto project = [&](float penalty) {
    for (size_t g = 0; g < states.size(); ++g) {
      State& s = states[g];
      s.sparse = s.weights + s.dual / penalty;
      for (int64_t i = 0; i < s.sparse.size(); ++i) {
        const size_t at = g * static_cast<size_t>(rows * d) + static_cast<size_t>(i);
        const float x = dense_[at] == 0 ? 0 : s.sparse.data()[i];
        s.sparse.data()[i] = x;
        scores[at] = x * x;
      }
    }
    keep = KeepBest(plane, *pattern_, scores, units_);
    for (size_t g = 0; g < states.size(); ++g)
      for (int64_t i = 0; i < rows * d; ++i)
        if (!keep[g * static_cast<size_t>(rows * d) + static_cast<size_t>(i)])
          states[g].sparse.data()[i] = 0;
  };
  project(1.0f);
  double penalty = kFirstPenalty;
  for (int k = 0; k < kPenalties; ++k, penalty *= kPenaltyGrowth) {
    const auto rho = static_cast<float>(penalty);
    for (State& s : states) {
      INFER_ASSIGN(s.inverse, PenaltyInverse(s.h, penalty));
    }
    for (int step = 0; step < kStepsOfPenalty; ++step) {
      for (State& s : states) {
        const PruneMatrix pull = s.pull + rho * s.sparse - s.dual;
        s.weights = Multiply(pull, s.inverse);
      }
      project(rho);
      for (State& s : states) s.dual += rho * (s.weights - s.sparse);
    }
  }
  return keep;
}

PrunedMatrix SecondOrder::Refit(KeepMask keep, std::span<const float> start) const {
  const WeightPlane& plane = *plane_;
  const int64_t d = plane.depth(), rows = plane.rows;
  PrunedMatrix p;
  p.weights.resize(dense_.size());
  const int64_t chunks = (rows + kRowChunk - 1) / kRowChunk;
  ParallelFor(static_cast<int64_t>(groups_.size()) * chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto g = static_cast<size_t>(i / chunks);
      const int64_t first = i % chunks * kRowChunk, n = std::min(kRowChunk, rows - first);
      const auto offset = (static_cast<int64_t>(g) * rows + first) * d;
      const PruneMatrix target = PruneView(groups_[g].target.data() + first * d, n, d);
      PruneMatrix support(n, d);
      for (int64_t k = 0; k < n * d; ++k) {
        const auto at = static_cast<size_t>(offset + k);
        support.data()[k] = keep[at] && dense_[at] != 0 ? 1.0f : 0.0f;
      }
      PruneMatrix v = start.empty() ? target : PruneMatrix(PruneView(start.data() + offset, n, d));
      v = v.cwiseProduct(support);
      RefitRows(PruneView(groups_[g].h.data(), d, d), target, support, v);
      Eigen::Map<PruneMatrix>(p.weights.data() + offset, n, d) = v;
    }
  });
  p.keep = std::move(keep);
  if (with_shift_) ShiftMeans(plane, moments_, p);
  return p;
}

}  // namespace infer
