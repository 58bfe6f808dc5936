#include "quant/scheme/quantize.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/ir/editor.h"
#include "lib/ir/roles.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/convert/cast_and_mul.h"
#include "quant/convert/layers.h"
#include "quant/scheme/stored.h"

namespace infer {
namespace {

/// Layers that lie in bodies are none of this mode's.
std::string_view BesideBodies(const Graph& g) {
  const bool has_bodies = std::any_of(g.nodes().begin(), g.nodes().end(),
                                      [](const auto& n) { return !n->subgraphs().empty(); });
  return has_bodies
             ? " outside of the bodies of its control flow (--mode weight-only, dynamic, fp16 "
               "and bf16 reach into them)"
             : "";
}

Status NothingToDo(const Graph& g, const QuantPlan& plan) {
  std::vector<std::string> reasons;
  for (const PlannedNode& p : plan.nodes)
    if (p.op && p.op->role == QuantRole::kWeighted)
      reasons.push_back(Cat(Describe(*p.node), ": ", p.reason));
  const bool has_recurrent = std::ranges::any_of(
      g.nodes(), [](const auto& n) { return n->def().traits.Has(Trait::kRecurrent); });
  if (reasons.empty())
    return Unsupported(Cat("no layer can be INT8: the model has no convolution or matrix product",
                           BesideBodies(g),
                           has_recurrent ? "; --mode weight-only and dynamic store the weights of "
                                           "its recurrent layers in 8 bits"
                                         : ""));
  return Unsupported(Cat("no layer can be INT8: ", FirstReasons(std::move(reasons))));
}

void Warn(QuantizeReport& report) {
  int64_t non_finite = 0, silent = 0, widened = 0;
  for (const QuantizedValue& v : report.values) {
    non_finite += v.non_finite > 0;
    silent += v.seen == Interval{};
  }
  for (const QuantizedLayer& l : report.layers) widened += l.widened_channels;
  if (non_finite > 0)
    report.warnings.push_back(
        Cat(non_finite, " values held NaN or infinity during calibration; those were left out"));
  if (silent > 0)
    report.warnings.push_back(Cat(silent, " values were zero throughout the calibration data"));
  if (widened > 0)
    report.warnings.push_back(Cat(widened,
                                  " weight channels got a coarser scale so that the int32 bias "
                                  "does not overflow"));
  int64_t lost = 0;
  std::string lossy;
  for (const QuantizedLayer& l : report.layers) {
    lost += l.lost_channels;
    if (lossy.empty() && l.lost_channels > 0) lossy = l.name;
  }
  if (lost > 0)
    report.warnings.push_back(Cat(lost, " output channels have weights that all round to zero ('",
                                  lossy, "'): their scale is too coarse for them"));
  if (report.calibration_samples < 32)
    report.warnings.push_back(
        Cat("only ", report.calibration_samples, " calibration samples: ranges may be too narrow"));
}

/// Depthwise layers whose weights share one scale though their channels differ so much that the
/// smallest are left with few codes or none.
void WarnOfCollapse(const QuantPlan& plan, const QuantScheme& scheme, QuantizeReport& report) {
  constexpr double kLargestRatio = 32;  // two bits are left of seven
  if (scheme.per_channel) return;
  std::vector<std::string> names;
  for (const PlannedNode& p : plan.nodes) {
    if (!p.integer || !IsConvolution(*p.node) || p.node->Attr<int64_t>("group") < 2) continue;
    const Tensor& w = *p.node->input(1)->constant();
    if (w.dim(1) != 1) continue;
    const auto x = w.data<float>();
    const size_t inner = x.size() / static_cast<size_t>(w.dim(0));
    std::vector<double> reach;
    for (size_t c = 0; c < x.size(); c += inner) {
      const Interval r = FiniteRange(x.subspan(c, inner));
      reach.push_back(std::max(-r.lo, r.hi));
    }
    const auto middle = reach.begin() + static_cast<std::ptrdiff_t>(reach.size() / 2);
    std::nth_element(reach.begin(), middle, reach.end());
    if (*std::max_element(reach.begin(), reach.end()) > kLargestRatio * *middle)
      names.push_back(p.node->output(0)->name());
  }
  if (!names.empty())
    report.warnings.push_back(
        Cat(names.size(), " depthwise layers have one scale for channels that differ by more than ",
            kLargestRatio, " times ('", names[0], "'): a scale per channel keeps them apart"));
}

}  // namespace

std::string FirstReasons(std::vector<std::string> reasons) {
  constexpr size_t kMost = 12;
  const size_t all = reasons.size();
  reasons.resize(std::min(all, kMost));
  if (all > kMost) reasons.push_back(Cat("and ", all - kMost, " more"));
  return Join(reasons, "; ");
}

Status CheckFiniteWeights(const Graph& g) {
  std::set<const Value*> seen;
  for (const auto& n : g.nodes()) {
    const QuantOp* op = FindQuantOp(*n);
    if (!(op && op->role == QuantRole::kWeighted) && !n->Is("BatchNormalization")) continue;
    for (const Value* v : n->inputs()) {
      if (!v || !v->is_constant() || v->dtype() != DType::kF32 || !seen.insert(v).second) continue;
      const auto values = v->constant()->data<float>();
      const auto bad =
          std::count_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
      if (bad > 0)
        return InvalidModel(Cat("weights '", v->name(), "' of ", Describe(*n), ": ", bad, " of ",
                                values.size(),
                                " elements are NaN or infinite, which no integer stands for"));
    }
  }
  return {};
}

/// Unsupported with the reason of each node that the table covers.
int64_t ConstantBytes(const Graph& g) {
  int64_t bytes = 0;
  for (const auto& v : g.values())
    if (v->is_constant()) bytes += v->constant()->byte_size();
  for (const auto& n : g.nodes())
    for (const auto& [name, body] : n->subgraphs()) bytes += ConstantBytes(*body);
  return bytes;
}

CalibrationOptions CalibrationOf(const QuantizeOptions& options) {
  CalibrationOptions c;
  c.observer = options.observer;
  c.grid = options.scheme.activations;
  c.cache = options.calibration_cache;
  c.tell = options.tell;
  c.threads = options.threads;
  c.progress = options.progress;
  c.stop = options.stop;
  return c;
}

Result<Graph> PrepareStatic(const Graph& g, bool prepare) {
  INFER_TRY(CheckIsFloat(g));
  INFER_TRY(CheckFiniteWeights(g));
  Graph work = g.Clone();
  if (prepare)
    if (Status s = PrepareForQuantization(work); !s.ok())
      return std::move(s).In("preparing the model");
  INFER_TRY(CheckFiniteWeights(work));  // those that were computed from other constants
  return work;
}

std::vector<std::string> ObservedValues(const QuantPlan& plan) {
  std::vector<std::string> names;
  for (const Value* v : plan.values) names.push_back(v->name());
  return names;
}

Result<QuantPlan> KeepUnseen(const Graph& g, const Graph& original, const CalibrationTable& ranges,
                             QuantScheme& scheme) {
  const auto unseen = [&](const Value* v) {
    const auto it = v && !v->is_constant() ? ranges.find(v->name()) : ranges.end();
    return it != ranges.end() && it->second.count == 0;
  };
  while (true) {
    INFER_ASSIGN(QuantPlan plan, PlanQuantization(g, original, scheme));
    bool changed = false;
    for (const PlannedNode& p : plan.nodes) {
      if (!p.integer) continue;
      const Value* empty = nullptr;
      for (size_t i = 0; i < p.node->inputs().size(); ++i)
        if (IsQuantizedOperand(*p.op, *p.node, i) && unseen(p.node->input(i)))
          empty = p.node->input(i);
      for (const Value* v : p.node->outputs())
        if (unseen(v)) empty = v;
      if (unseen(p.result)) empty = p.result;
      if (!empty) continue;
      changed |=
          scheme.keep
              .emplace(p.node->output(0)->name(), Cat("calibration saw no number of its value '",
                                                      empty->name(), "', which was always empty"))
              .second;
    }
    if (!changed) return plan;
  }
}

Result<StaticResult> RewriteStatic(const StaticModel& model, const Graph& original,
                                   int64_t calibration_samples) {
  StaticResult r{model.graph.Clone(), {}};
  INFER_ASSIGN(const QuantPlan plan, PlanQuantization(r.graph, original, model.scheme));
  if (plan.values.empty() && model.scheme.store.empty()) return NothingToDo(original, plan);
  r.report.calibration_samples = calibration_samples;
  r.report.weight_bytes_before = ConstantBytes(original);
  WarnOfCollapse(plan, model.scheme, r.report);
  INFER_TRY(InsertQdq(r.graph, plan, model.ranges, model.scheme, r.report));
  INFER_ASSIGN(const std::set<std::string> stored,
               StoreLayers(r.graph, plan, model.scheme.store, r.report));
  INFER_TRY(SpellAsCastAndMul(r.graph, /*products=*/true, model.scheme.has_channel_scales, stored));
  if (Status s = Verify(r.graph); !s.ok())
    return Internal(Cat("after quantization: ", s.message()));
  r.report.weight_bytes_after = ConstantBytes(r.graph);
  Warn(r.report);
  return r;
}

Result<QuantizeReport> QuantizeStatic(Graph& g, const Samples& samples, const Backend& backend,
                                      const QuantizeOptions& options) {
  StaticModel model{Graph(g.ops()), {}, options.scheme};
  // A second round only where a value was empty in all samples: other values take its place.
  while (true) {
    INFER_ASSIGN(model.graph, PrepareStatic(g, options.prepare));
    INFER_ASSIGN(const QuantPlan plan, KeepUnseen(model.graph, g, model.ranges, model.scheme));
    if (plan.values.empty()) return NothingToDo(g, plan);
    std::vector<std::string> wanted;
    for (const size_t i : plan.observed)
      if (!model.ranges.contains(plan.values[i]->name())) wanted.push_back(plan.values[i]->name());
    if (wanted.empty()) break;
    // Calibration lets the folded weights go and they are folded again: so they are not held beside
    // those of `g` and the packed ones.
    INFER_ASSIGN(CalibrationTable seen, CalibrateOwned(std::move(model.graph), wanted, samples,
                                                       backend, CalibrationOf(options)));
    model.ranges.merge(std::move(seen));
  }
  INFER_ASSIGN(StaticResult result, RewriteStatic(model, g, samples.count));
  g = std::move(result.graph);
  return std::move(result.report);
}

}  // namespace infer
