#include "quant/prune/unit_sweep.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "lib/support/parallel.h"
#include "quant/algebra/eigen_product.h"

namespace infer {
namespace {

using SweepMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using SweepView =
    Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
using Columns = std::vector<Eigen::Index>;

/// Of the mean diagonal; where there are few rows for the inputs of a layer, they say less.
constexpr double kSweepDamping = 0.01, kFewRowsDamping = 0.1;
constexpr int64_t kEnoughRows = 10;    // per input
constexpr int64_t kStepsOfSweep = 32;  // fewer units than this go one by one

/// [[H^-1]_SS]^-1.
SweepMatrix CoreOf(const SweepMatrix& inverse, const Columns& s) {
  const SweepMatrix block = inverse(s, s);
  return block.llt().solve(SweepMatrix::Identity(block.rows(), block.cols()));
}

}  // namespace

struct UnitSweep::Reader {
  struct Group {
    SweepMatrix weights;           // [rows, depth]
    SweepMatrix inverse;           // of H, damped; empty: H is diagonal
    Eigen::VectorXd diagonal;      // of H then
    std::vector<Columns> columns;  // by unit
  };
  std::vector<Group> groups;
  double energy = 0;

  explicit Reader(const GroupReader& r, int64_t units) {
    const int64_t d = r.plane.depth();
    const std::span<const LayerMoments> moments = MomentsOf(r);
    double mean = 0;
    for (const double s : r.strength) mean += s / static_cast<double>(r.strength.size());
    for (int64_t g = 0; g < r.plane.groups; ++g) {
      Group own;
      own.weights =
          SweepView(r.dense.data() + g * r.plane.rows * d, r.plane.rows, d).template cast<double>();
      own.columns.resize(static_cast<size_t>(units));
      own.diagonal = Eigen::VectorXd::Constant(d, mean > 0 ? mean : 1.0);
      for (int64_t k = 0; k < d; ++k) {
        const int64_t u = r.unit_of_column[static_cast<size_t>(g * d + k)];
        if (u < 0) continue;
        own.columns[static_cast<size_t>(u)].push_back(k);
        if (!r.strength.empty()) own.diagonal(k) = r.strength[static_cast<size_t>(u)];
      }
      if (!moments.empty()) Invert(r, moments[static_cast<size_t>(g)], own);
      if (own.inverse.size() == 0)
        energy += (own.weights.array().square().rowwise() * own.diagonal.transpose().array()).sum();
      groups.push_back(std::move(own));
    }
  }

  /// Of the rows that may be fitted to: those held out judge what this costs.
  static std::span<const LayerMoments> MomentsOf(const GroupReader& r) {
    if (!r.moments) return {};
    for (const LayerMoments& m : r.moments->fit)
      if (!m.finite() || m.rows == 0) return {};
    return r.moments->fit;
  }

  void Invert(const GroupReader& r, const LayerMoments& m, Group& own) {
    const int64_t d = r.plane.depth();
    const auto rows = static_cast<double>(m.rows);
    if (m.h.empty()) {  // too deep: as if its inputs were independent
      own.diagonal = Eigen::Map<const Eigen::VectorXd>(m.squares.data(), d) / rows;
      return;
    }
    SweepMatrix h = SweepView(m.h.data(), d, d).template cast<double>();
    if (r.takes_shift) {
      const Eigen::Map<const Eigen::VectorXd> x(m.sum_x.data(), d);
      // By rows: the product of two vectors as a whole would be another [d, d].
      for (int64_t k = 0; k < d; ++k) h.row(k) -= x(k) * x.transpose() / rows;
    }
    h /= rows;
    own.diagonal = h.diagonal();
    const double of_group = Multiply(own.weights, h).cwiseProduct(own.weights).sum();
    const double scale = h.diagonal().mean();
    const double damping = m.rows < kEnoughRows * d ? kFewRowsDamping : kSweepDamping;
    h.diagonal().array() += scale > 0 ? damping * scale : 1.0;
    if (!InvertSymmetric(MutableViewOf(h)).ok()) return;
    energy += std::max(of_group, 0.0);
    own.inverse = std::move(h);
  }

  double CostOf(int64_t unit) const {
    double cost = 0;
    for (const Group& g : groups) {
      const Columns& s = g.columns[static_cast<size_t>(unit)];
      if (s.empty()) continue;
      const SweepMatrix w = g.weights(Eigen::all, s);
      if (g.inverse.size() == 0) {
        cost += (w.array().square().rowwise() * g.diagonal(s).transpose().array()).sum();
      } else if (s.size() == 1) {
        cost += w.squaredNorm() / g.inverse(s[0], s[0]);
      } else {
        cost += (w.transpose() * w).cwiseProduct(CoreOf(g.inverse, s)).sum();
      }
    }
    return energy > 0 ? cost / energy : 0;
  }

  void Remove(int64_t unit) {
    for (Group& g : groups) {
      const Columns& s = g.columns[static_cast<size_t>(unit)];
      if (s.empty()) continue;
      if (g.inverse.size() > 0) {
        const SweepMatrix rows = g.inverse(s, Eigen::all);
        const SweepMatrix step = CoreOf(g.inverse, s) * rows;
        const SweepMatrix own = g.weights(Eigen::all, s);
        AddProduct<double>(-1, ViewOf(own), ViewOf(step), MutableViewOf(g.weights));
        AddProduct<double>(-1, ViewOf(rows).transposed(), ViewOf(step), MutableViewOf(g.inverse));
      }
      for (const Eigen::Index k : s) g.weights.col(k).setZero();
    }
  }
};

UnitSweep::UnitSweep(std::span<const GroupReader> readers, int64_t units, UnitLimits limits)
    : given_(readers), limits_(std::move(limits)), gone_(static_cast<size_t>(units), 0) {
  for (const GroupReader& r : readers) {
    readers_.push_back(std::make_unique<Reader>(r, units));
    by_data_ = by_data_ || !Reader::MomentsOf(r).empty();
  }
}
UnitSweep::~UnitSweep() = default;

double UnitSweep::CostOf(int64_t unit) const {
  double cost = 0;
  for (const auto& r : readers_) cost += r->CostOf(unit);
  return cost;
}

void UnitSweep::RemoveUntil(int64_t count, const std::function<bool()>& stop) {
  const auto units = static_cast<int64_t>(gone_.size());
  const int64_t at_once = std::max<int64_t>(1, units / kStepsOfSweep / 2);
  while (static_cast<int64_t>(order_.size()) < std::min(count, units)) {
    if (stop && stop()) return;
    std::vector<std::pair<double, int64_t>> costs;
    for (int64_t u = 0; u < units; ++u)
      if (!gone_[static_cast<size_t>(u)] && limits_.Allows(u)) costs.emplace_back(0, u);
    if (costs.empty()) return;
    ParallelFor(static_cast<int64_t>(costs.size()), 4, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        costs[i].first = CostOf(costs[i].second);
    });
    std::sort(costs.begin(), costs.end());
    const auto left = std::min(count, units) - static_cast<int64_t>(order_.size());
    costs.resize(static_cast<size_t>(std::min<int64_t>(at_once, left)));
    for (const auto& [before, u] : costs) {
      if (!limits_.Allows(u)) continue;
      limits_.Remove(u);
      const double sum = (errors_.empty() ? 0 : errors_.back()) + std::max(CostOf(u), 0.0);
      for (const auto& r : readers_) r->Remove(u);
      gone_[static_cast<size_t>(u)] = 1;
      order_.push_back(u);
      errors_.push_back(sum);
    }
  }
}

PrunedMatrix UnitSweep::Left(size_t reader) const {
  const GroupReader& r = given_[reader];
  PrunedMatrix p = Masked(r.dense, KeepMask(r.dense.size(), 1));
  const int64_t d = r.plane.depth();
  for (int64_t g = 0; g < r.plane.groups; ++g) {
    const auto& own = readers_[reader]->groups[static_cast<size_t>(g)];
    for (int64_t row = 0; row < r.plane.rows; ++row)
      for (int64_t k = 0; k < d; ++k) {
        const int64_t u = r.unit_of_column[static_cast<size_t>(g * d + k)];
        const auto at = static_cast<size_t>((g * r.plane.rows + row) * d + k);
        p.keep[at] = u < 0 || !gone_[static_cast<size_t>(u)] ? 1 : 0;
        p.weights[at] = p.keep[at] ? static_cast<float>(own.weights(row, k)) : 0.0f;
      }
  }
  if (const auto moments = Reader::MomentsOf(r);
      r.takes_shift && !moments.empty() && !moments.front().h.empty())
    ShiftMeans(r.plane, moments, p);
  return p;
}

}  // namespace infer
