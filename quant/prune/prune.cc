#include "quant/prune/prune.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/prune/costs.h"
#include "quant/prune/in_order.h"
#include "quant/scheme/quantize.h"

namespace infer {
namespace {

Status CheckPruneRequest(const Graph& g, const Samples& samples, const PruneOptions& o) {
  if (o.pattern.kind != SparsityPattern::Kind::kNm) INFER_TRY(CheckShare(o.pattern.share));
  INFER_TRY(CheckNotQuantized(g));
  if (samples.count > 0) return {};
  if (o.method == PruneMethod::kWanda || o.method == PruneMethod::kSparseGpt)
    return InvalidArgument(Cat("method ", Name(o.method),
                               " chooses by calibration data, and there are none; without data "
                               "only magnitude is possible"));
  if (o.allocation == PruneAllocation::kMeasured)
    return InvalidArgument("allocation measured needs calibration data, and there are none");
  return {};
}

int64_t CountZeros(const Tensor& t) {
  const std::vector<float> w = t.ToFloats();
  return static_cast<int64_t>(std::count(w.begin(), w.end(), 0.0f));
}

class ModelPruner {
 public:
  /// `prepared` is pruned in place.
  ModelPruner(Graph& prepared, const Graph& original, const Samples& samples,
              const Backend& backend, const PruneOptions& options)
      : original_(original),
        samples_(samples),
        backend_(backend),
        options_(options),
        work_(prepared.Clone()),
        pruned_(prepared) {}

  Status Run() {
    INFER_TRY(Select());
    INFER_TRY(Allocate());
    INFER_TRY(PruneInOrder());
    Total();
    return {};
  }
  PruneReport TakeReport() { return std::move(report_); }

 private:
  bool is_nm() const { return options_.pattern.kind == SparsityPattern::Kind::kNm; }

  Status Select() {
    INFER_ASSIGN(const auto found, FindPrunable(work_, original_, options_.scope));
    for (const PrunableWeights& w : found) {
      PrunedLayer l;
      l.name = w.layer;
      l.op = w.op;
      l.weights = w.weights;
      l.plane = w.place.plane;
      l.count = w.size();
      l.zeros = l.zeros_before = CountZeros(*work_.FindValue(w.weights)->constant());
      l.reason = w.reason.empty() ? WhyNotWhole(l.plane, options_.pattern) : w.reason;
      if (l.reason.empty() && is_nm() && NmZeros(l.plane, options_.pattern) == 0)
        l.reason = "no group has more weights than stay";
      l.pruned = l.reason.empty();
      if (l.pruned) {
        l.units = UnitsOf(l.plane, options_.pattern);
        layers_.push_back({w, l.units, 0, {}, GridOf(w.weights)});
        index_.push_back(report_.layers.size());
      }
      report_.layers.push_back(std::move(l));
    }
    if (!layers_.empty()) return {};
    if (report_.layers.empty())
      return Unsupported(
          "nothing to prune: no convolution, product or recurrent layer has constant weights "
          "(bodies "
          "of control flow are not looked into)");
    const PrunedLayer& first = report_.layers.front();
    return Unsupported(Cat(
        "nothing to prune with ", ToString(options_.pattern), ": ", first.name, ": ", first.reason,
        report_.layers.size() > 1 ? Cat(" (and ", report_.layers.size() - 1, " more)") : ""));
  }

  std::optional<WeightGrid> GridOf(const std::string& weights) const {
    if (!options_.grids) return std::nullopt;
    const auto it = options_.grids->find(weights);
    return it == options_.grids->end() ? std::nullopt : std::optional(it->second);
  }

  Status Allocate() {
    std::vector<int64_t> units, weights;
    for (const SelectedLayer& l : layers_) {
      units.push_back(l.units);
      weights.push_back(l.weights.size());
    }
    const PruneAllocation by = options_.allocation.value_or(
        samples_.count > 0 ? PruneAllocation::kMeasured : PruneAllocation::kLamp);
    const int64_t total =
        UnitsToZero(std::accumulate(units.begin(), units.end(), int64_t{0}), options_.pattern);
    report_.allocation = is_nm() && by != PruneAllocation::kMeasured ? "uniform" : Name(by);
    if (by == PruneAllocation::kMeasured) {
      INFER_ASSIGN(const MeasuredCosts costs,
                   MeasureCosts(original_, work_, layers_, samples_, backend_, options_));
      for (size_t i = 0; i < layers_.size(); ++i) Report(i).cost = costs.at_share[i];
      zero_units_ = is_nm() ? units : AllocateByCost(costs.curves, total);
      if (is_nm())
        for (const size_t i : LayersToSpare(weights, costs.at_share, options_.spare_share)) {
          zero_units_[i] = 0;
          Report(i).reason = "spared: it costs most for its size";
        }
    } else if (is_nm() || by == PruneAllocation::kUniform) {
      zero_units_ = AllocateEvenly(units, total);
    } else {
      zero_units_ = AllocateByWeights(work_, layers_, options_.pattern, by, total);
    }
    return {};
  }

  Status PruneInOrder() {
    for (size_t i = 0; i < layers_.size(); ++i) layers_[i].zero_units = zero_units_[i];
    InOrderOptions in_order{options_.pattern, options_.method,   options_.max_bytes,
                            options_.threads, options_.progress, options_.stop};
    in_order.store = options_.store;
    in_order.record = "layer ";
    return PruneLayersInOrder(work_, pruned_, layers_, samples_, backend_, in_order,
                              [this](size_t i, const LayerResult& done) { Note(i, done); });
  }

  void Note(size_t i, const LayerResult& done) {
    const PrunableWeights& w = layers_[i].weights;
    PrunedLayer& l = Report(i);
    l.method = done.method;
    if (samples_.count > 0) l.note = w.no_data.empty() ? done.note : w.no_data;
    l.error = done.error;
    l.magnitude_error = done.magnitude_error;
    l.dense_error = done.dense_error;
    l.zero_units = zero_units_[i];
    l.zeros = CountZeros(*pruned_.FindValue(w.weights)->constant());
    if (done.codes && !layers_[i].grid->from_largest) report_.codes.emplace(w.weights, *done.codes);
  }

  void Total() {
    report_.calibration_samples = samples_.count;
    for (const PrunedLayer& l : report_.layers) {
      if (!l.pruned) continue;
      report_.weights += l.count;
      report_.zeros += l.zeros;
      report_.units += l.units;
      report_.zero_units += l.zero_units;
    }
  }

  PrunedLayer& Report(size_t i) { return report_.layers[index_[i]]; }

  const Graph& original_;
  const Samples& samples_;
  const Backend& backend_;
  const PruneOptions& options_;
  Graph work_;     // prepared, dense
  Graph& pruned_;  // the same with the weights so far
  std::vector<SelectedLayer> layers_;
  std::vector<size_t> index_;  // of layers_ in report_.layers
  std::vector<int64_t> zero_units_;
  PruneReport report_;
};

}  // namespace

std::optional<PruneAllocation> PruneAllocationNamed(std::string_view name) {
  for (const PruneAllocation a : {PruneAllocation::kMeasured, PruneAllocation::kUniform,
                                  PruneAllocation::kGlobal, PruneAllocation::kLamp})
    if (Name(a) == name) return a;
  return std::nullopt;
}

std::string_view Name(PruneAllocation a) {
  switch (a) {
    case PruneAllocation::kMeasured: return "measured";
    case PruneAllocation::kUniform: return "uniform";
    case PruneAllocation::kGlobal: return "global";
    case PruneAllocation::kLamp: return "lamp";
  }
  return "";
}

Result<PruneReport> PrunePrepared(Graph& prepared, const Graph& original, const Samples& samples,
                                  const Backend& backend, const PruneOptions& options) {
  INFER_TRY(CheckPruneRequest(prepared, samples, options));
  ModelPruner pruner(prepared, original, samples, backend, options);
  INFER_TRY(pruner.Run());
  return pruner.TakeReport();
}

Result<PruneReport> PruneModel(Graph& g, const Samples& samples, const Backend& backend,
                               const PruneOptions& options) {
  INFER_TRY(CheckPruneRequest(g, samples, options));
  Graph pruned = g.Clone();
  if (Status s = PrepareForQuantization(pruned); !s.ok())
    return std::move(s).In("preparing the model");
  INFER_ASSIGN(PruneReport report, PrunePrepared(pruned, g, samples, backend, options));
  g = std::move(pruned);
  return report;
}

}  // namespace infer
