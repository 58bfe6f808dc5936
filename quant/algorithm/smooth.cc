#include "quant/algorithm/smooth.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <set>

#include "lib/ir/editor.h"
#include "quant/algorithm/layers.h"

namespace infer {
namespace {

/// A value that is scaled per column by constants, and the layers that read it.
struct SmoothSite {
  std::string value;
  std::vector<std::pair<std::string, size_t>> factors;  ///< result 0 of a node, constant operand
  std::vector<std::string> readers;                     ///< result 0 of the layers
};

bool IsRow(const Value* v) {
  return v && v->is_constant() && v->dtype() == DType::kF32 && v->constant()->rank() >= 1 &&
         v->constant()->num_elements() == v->constant()->dim(-1) &&
         v->constant()->num_elements() > 1;
}

/// The constants in front of `v` that may be divided by a factor per column; empty for none.
std::vector<std::pair<std::string, size_t>> FactorsBefore(const Value* v) {
  const Node* n = v->producer();
  if (!n || n->output(0) != v) return {};
  if (n->Is(Trait::kRowNormalization)) {
    const auto axis = n->Attr<int64_t>("axis");
    if (!IsRow(n->input(1)) || (axis != -1 && axis != n->input(0)->shape().rank() - 1)) return {};
    std::vector<std::pair<std::string, size_t>> f = {{v->name(), 1}};
    if (n->input(2)) {
      if (!IsRow(n->input(2))) return {};
      f.emplace_back(v->name(), 2);
    }
    return f;
  }
  const auto constant = [](const Node& node) -> std::optional<size_t> {
    for (size_t i = 0; i < 2; ++i)
      if (IsRow(node.input(i)) && !node.input(1 - i)->is_constant()) return i;
    return std::nullopt;
  };
  if (n->Is(Trait::kProduct)) {
    const auto at = constant(*n);
    if (at) return {{v->name(), *at}};
    return {};
  }
  if (!n->Is(Trait::kSum)) return {};
  const auto shift = constant(*n);
  if (!shift) return {};
  const Value* product = n->input(1 - *shift);
  const Node* m = product->producer();
  if (!m || !m->Is(Trait::kProduct) || !product->has_one_use()) return {};
  const auto at = constant(*m);
  if (!at) return {};
  return {{v->name(), *shift}, {product->name(), *at}};
}

std::vector<SmoothSite> FindSmoothSites(const QuantPlan& plan) {
  std::vector<SmoothSite> sites;
  std::set<const Node*> integer;
  for (const PlannedNode& p : plan.nodes)
    if (p.integer && HasInputChannels(*p.node) && !WeightLayoutOf(*p.node)->is_window)
      integer.insert(p.node);
  for (const Value* v : plan.values) {
    if (v->is_output() || v->uses().empty()) continue;
    SmoothSite s{v->name(), FactorsBefore(v), {}};
    if (s.factors.empty()) continue;
    bool all = true;
    for (const Use& u : v->uses()) {
      all = all && u.operand == 0 && integer.count(u.user) > 0;
      if (all) s.readers.push_back(u.user->output(0)->name());
    }
    if (all) sites.push_back(std::move(s));
  }
  return sites;
}

/// [inputs, outputs].
Eigen::MatrixXd WeightsOf(const Node& node) {
  Eigen::MatrixXd w = Eigen::MatrixXd::Zero(
      InputChannels(node), node.input(1)->constant()->num_elements() / InputChannels(node));
  const auto x = node.input(1)->constant()->data<float>();
  ForEachWeight(node,
                [&](size_t i, int64_t in, int64_t out) { w(in, out) = static_cast<double>(x[i]); });
  return w;
}

/// One scale per column, to 255 steps on both sides of zero.
Eigen::MatrixXd RoundColumns(const Eigen::MatrixXd& w) {
  Eigen::MatrixXd r = w;
  for (Eigen::Index c = 0; c < w.cols(); ++c) {
    const double s = w.col(c).cwiseAbs().maxCoeff() / 127;
    if (s > 0) r.col(c) = (w.col(c) / s).array().round() * s;
  }
  return r;
}

Eigen::MatrixXd RoundAll(const Eigen::MatrixXd& x, const QuantGrid& grid) {
  const QuantParams p = ChooseParams({x.minCoeff(), x.maxCoeff()}, grid);
  const double s = static_cast<double>(p.scale[0]), z = p.zero_point[0];
  const double lo = static_cast<double>(grid.qmin()), hi = static_cast<double>(grid.qmax());
  return (((x / s).array().round() + z).cwiseMax(lo).cwiseMin(hi) - z) * s;
}

Eigen::VectorXd Factors(const Eigen::MatrixXd& x, const std::vector<Eigen::MatrixXd>& weights,
                        double exponent) {
  Eigen::VectorXd a = x.cwiseAbs().colwise().maxCoeff(), w = Eigen::VectorXd::Zero(a.size());
  for (const Eigen::MatrixXd& m : weights) w = w.cwiseMax(m.cwiseAbs().rowwise().maxCoeff());
  Eigen::VectorXd s = Eigen::VectorXd::Ones(a.size());
  double log_sum = 0;
  int used = 0;
  for (Eigen::Index i = 0; i < s.size(); ++i) {
    if (!(a(i) > 0 && w(i) > 0)) continue;
    s(i) = std::pow(a(i), exponent) / std::pow(w(i), 1 - exponent);
    log_sum += std::log(s(i));
    ++used;
  }
  const double mean = used > 0 ? std::exp(log_sum / used) : 1;
  for (Eigen::Index i = 0; i < s.size(); ++i)
    s(i) = a(i) > 0 && w(i) > 0 ? std::clamp(s(i) / mean, 1.0 / 256, 256.0) : 1.0;
  return s;
}

double ErrorOf(const Eigen::MatrixXd& x, const std::vector<Eigen::MatrixXd>& weights,
               const Eigen::VectorXd& s, const QuantGrid& grid) {
  const Eigen::MatrixXd rounded = RoundAll(x * s.cwiseInverse().asDiagonal(), grid);
  double e = 0;
  for (const Eigen::MatrixXd& w : weights)
    e += (rounded * RoundColumns(s.asDiagonal() * w) - x * w).squaredNorm();
  return e;
}

/// Rows of each site's value, evenly from the samples.
Result<std::map<std::string, Eigen::MatrixXd>> RowsOf(const Graph& g,
                                                      const std::vector<SmoothSite>& sites,
                                                      const Samples& samples, const ChannelRun& run,
                                                      const SmoothOptions& options) {
  std::vector<std::string> taps;
  for (const SmoothSite& s : sites) taps.push_back(s.value);
  CompileOptions compile;
  compile.level = 0;
  compile.threads = run.threads;
  INFER_ASSIGN(TappedProgram t, CompileWithTaps(g, taps, *run.backend, compile));
  const int64_t runs = std::min(samples.count, options.samples);
  const int64_t each = std::max<int64_t>(1, options.rows / std::max<int64_t>(runs, 1));
  std::map<std::string, std::vector<std::vector<float>>> rows;
  for (int64_t i = 0; i < runs; ++i) {
    INFER_ASSIGN(std::vector<Datum> inputs, samples.get(i));
    INFER_TRY(RunInputs(*t.context, std::move(inputs), run.stop));
    for (size_t k = 0; k < taps.size(); ++k) {
      const Tensor& x = t.context->output(t.num_outputs + k).tensor();
      if (x.rank() < 1 || x.num_elements() == 0) continue;
      const int64_t width = x.dim(-1), count = x.num_elements() / width;
      for (int64_t r = 0; r < std::min(each, count); ++r) {
        const auto row =
            x.data<float>().subspan(static_cast<size_t>(r * count / std::min(each, count) * width),
                                    static_cast<size_t>(width));
        rows[taps[k]].emplace_back(row.begin(), row.end());
      }
    }
  }
  std::map<std::string, Eigen::MatrixXd> result;
  for (const auto& [name, list] : rows) {
    Eigen::MatrixXd m(static_cast<Eigen::Index>(list.size()),
                      static_cast<Eigen::Index>(list[0].size()));
    bool same = true;
    for (size_t r = 0; r < list.size() && same; ++r) {
      same = list[r].size() == list[0].size();
      for (size_t c = 0; c < list[r].size() && same; ++c)
        m(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) =
            static_cast<double>(list[r][c]);
    }
    if (same && m.allFinite()) result.emplace(name, std::move(m));
  }
  return result;
}

void ApplySmoothing(Graph& g, const SmoothSite& site, const Eigen::VectorXd& s) {
  GraphEditor editor(g);
  for (const auto& [name, operand] : site.factors) {
    Node& node = *g.FindValue(name)->producer();
    Tensor t = node.input(operand)->constant()->Clone();
    for (Eigen::Index i = 0; i < s.size(); ++i) {
      float& f = t.mutable_data<float>()[static_cast<size_t>(i)];
      f = static_cast<float>(static_cast<double>(f) / s(i));
    }
    editor.SetOperand(node, operand, editor.AddConstant(std::move(t), node.input(operand)->name()));
  }
  for (const std::string& name : site.readers) {
    Node& node = *g.FindValue(name)->producer();
    Tensor w = node.input(1)->constant()->Clone();
    const auto x = w.mutable_data<float>();
    ForEachWeight(node, [&](size_t i, int64_t in, int64_t) {
      x[i] = static_cast<float>(static_cast<double>(x[i]) * s(in));
    });
    ReplaceWeights(g, node, std::move(w));
  }
  editor.Sweep();
}

}  // namespace

Result<int> SmoothLayers(StaticModel& model, const Graph& original, const Samples& samples,
                         const ChannelRun& run, const SmoothOptions& options) {
  std::vector<SmoothSite> sites;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model.graph, original, model.scheme));
    sites = FindSmoothSites(plan);
  }
  if (sites.empty()) return 0;
  INFER_ASSIGN(const auto rows, RowsOf(model.graph, sites, samples, run, options));
  int changed = 0;
  for (const SmoothSite& site : sites) {
    const auto it = rows.find(site.value);
    if (it == rows.end()) continue;
    const Eigen::MatrixXd& x = it->second;
    std::vector<Eigen::MatrixXd> weights;
    bool fits = true;
    for (const std::string& name : site.readers) {
      weights.push_back(WeightsOf(*model.graph.FindValue(name)->producer()));
      fits = fits && weights.back().rows() == x.cols();
    }
    for (const auto& [name, operand] : site.factors)
      fits = fits &&
             model.graph.FindValue(name)->producer()->input(operand)->constant()->num_elements() ==
                 x.cols();
    if (!fits) continue;
    const QuantGrid& grid = model.scheme.activations;
    Eigen::VectorXd best = Eigen::VectorXd::Ones(x.cols());
    double least = ErrorOf(x, weights, best, grid) * (1 - options.least_gain);
    bool found = false;
    for (const double exponent : options.exponents) {
      const Eigen::VectorXd s = Factors(x, weights, exponent);
      const double e = ErrorOf(x, weights, s, grid);
      if (e >= least) continue;
      least = e;
      best = s;
      found = true;
    }
    if (!found) continue;
    ApplySmoothing(model.graph, site, best);
    ++changed;
  }
  return changed;
}

}  // namespace infer
