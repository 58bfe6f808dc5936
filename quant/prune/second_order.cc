#include "quant/prune/second_order.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/support/parallel.h"
#include "quant/algorithm/input_sweep.h"
#include "quant/prune/damped.h"

namespace infer {
namespace {

using PruneMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using PruneView = Eigen::Map<const PruneMatrix>;

constexpr int64_t kSweepBlock = 128;  // inputs whose mask is chosen together
constexpr int64_t kRowChunk = 96;     // of rows that are refitted together
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

/// Chooses zeros on the way of a sweep: the groups of a layer side by side.
class MaskSweep {
 public:
  MaskSweep(const WeightPlane& plane, const SparsityPattern& pattern, std::span<const float> dense,
            std::vector<InputSweep> sweeps)
      : plane_(plane), pattern_(pattern), dense_(dense), sweeps_(std::move(sweeps)) {
    scores_.resize(dense.size());
    result_.weights.resize(dense.size());
    result_.keep.assign(dense.size(), 1);
  }

  /// N:M chooses where a group begins; else a block of inputs gives up its part of `units`.
  PrunedMatrix Run(int64_t units) {
    const bool is_nm = pattern_.kind == SparsityPattern::Kind::kNm;
    const std::vector<int64_t> cuts = DepthCuts(plane_, pattern_, kSweepBlock);
    if (is_nm) nm_cuts_ = DepthCuts(plane_, pattern_, 1);
    const auto all = static_cast<double>(UnitsOf(plane_, pattern_));
    int64_t seen = 0, dropped = 0;
    for (size_t b = 0; b + 1 < cuts.size(); ++b) {
      const int64_t begin = cuts[b], end = cuts[b + 1];
      if (!is_nm) {
        seen += UnitsWithin(plane_, pattern_, begin, end);
        const double part = static_cast<double>(units) * static_cast<double>(seen) / all;
        const int64_t until = end == plane_.depth() ? units : static_cast<int64_t>(part);
        for (size_t g = 0; g < sweeps_.size(); ++g) Score(g, begin, end);
        DropLeast(plane_, pattern_, scores_, begin, end, until - dropped, result_.keep);
        dropped = until;
      }
      for (size_t g = 0; g < sweeps_.size(); ++g)
        sweeps_[g].Block(begin, end - begin,
                         [&](int64_t k, std::span<const float> x, float pivot,
                             std::span<float> errors) { Fix(g, k, x, pivot, errors); });
    }
    return std::move(result_);
  }

 private:
  size_t At(size_t g, int64_t row, int64_t k) const {
    return static_cast<size_t>((static_cast<int64_t>(g) * plane_.rows + row) * plane_.depth() + k);
  }

  /// Of the inputs [begin, end) of group g, as they are now.
  void Score(size_t g, int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const auto x = sweeps_[g].x(k);
      const float pivot = sweeps_[g].pivot(k);
      for (int64_t r = 0; r < plane_.rows; ++r) {
        const float over = x[static_cast<size_t>(r)] / pivot;
        scores_[At(g, r, k)] = dense_[At(g, r, k)] == 0 ? 0 : over * over;
      }
    }
  }

  void ChooseGroupOfInputs(size_t g, int64_t k) {
    const int64_t end = *std::upper_bound(nm_cuts_.begin(), nm_cuts_.end(), k);
    Score(g, k, end);
    const WeightPlane own{1, plane_.rows, plane_.channels, plane_.taps};
    const auto size = static_cast<size_t>(own.size());
    DropLeast(own, pattern_, std::span<const float>(scores_).subspan(g * size, size), k, end, 0,
              std::span(result_.keep).subspan(g * size, size));
  }

  void Fix(size_t g, int64_t k, std::span<const float> x, float pivot, std::span<float> errors) {
    if (std::binary_search(nm_cuts_.begin(), nm_cuts_.end(), k)) ChooseGroupOfInputs(g, k);
    for (int64_t r = 0; r < plane_.rows; ++r) {
      const size_t at = At(g, r, k);
      const auto i = static_cast<size_t>(r);
      const bool stays = result_.keep[at] && dense_[at] != 0;
      result_.weights[at] = stays ? x[i] : 0.0f;
      errors[i] = stays ? 0.0f : x[i] / pivot;
    }
  }

  const WeightPlane& plane_;
  const SparsityPattern& pattern_;
  std::span<const float> dense_;
  std::vector<InputSweep> sweeps_;
  std::vector<int64_t> nm_cuts_;  // where groups of N:M begin; empty: another pattern
  std::vector<float> scores_;
  PrunedMatrix result_;
};

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
  const int64_t d = plane.depth(), r = plane.rows;
  for (size_t g = 0; g < moments.size(); ++g) {
    const LayerMoments& m = moments[g];
    const PruneView w = GroupRows(plane, dense, g);
    const DampedMoments damped = DampedOf(plane, std::span(w.data(), static_cast<size_t>(w.size())),
                                          m, options.damping, options.with_shift);
    Group group;
    group.target.assign(w.data(), w.data() + w.size());
    if (options.outputs) {
      INFER_ASSIGN(const MomentMatrix least, LeastErring(damped));
      Eigen::Map<PruneMatrix>(group.target.data(), r, d) = least.transpose().cast<float>();
    }
    group.h.resize(static_cast<size_t>(d * d));
    Eigen::Map<PruneMatrix>(group.h.data(), d, d) = damped.h.cast<float>();
    group.damped.assign(damped.h.data(), damped.h.data() + damped.h.size());
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
  const int64_t d = plane_->depth(), rows = plane_->rows;
  std::vector<InputSweep> sweeps;
  for (Group& g : groups_) {
    if (g.factor.empty()) {
      INFER_ASSIGN(g.factor, InverseFactor(g.damped, d));
    }
    std::vector<float> x(g.target.size());
    Eigen::Map<PruneMatrix>(x.data(), d, rows) = PruneView(g.target.data(), rows, d).transpose();
    sweeps.emplace_back(g.factor, std::move(x), d, rows);
  }
  PrunedMatrix p = MaskSweep(*plane_, *pattern_, dense_, std::move(sweeps)).Run(units_);
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
