#include "quant/recipe/choose_layers.h"

#include <algorithm>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/scheme/stored.h"

namespace infer {
namespace {

constexpr int kPruneRounds = 3;
/// Candidates whose times the table says are as near as this are the same: the smaller file wins.
constexpr double kSameTimeShare = 0.02;
/// What was chosen by the table looks better by it than it is: such candidates must be this share
/// of FP32's time. The table is off by about 15 % in one model of ten.
constexpr double kSureOfPaying = 0.85, kSureOfAccurate = 0.95;
/// A tenth of the time is worth twice the bytes.
constexpr double kTimePerBytes = 0.1;
constexpr std::string_view kNoGain = "in INT8 it takes longer than it spares, by the cost table";

class LayerChooser {
 public:
  LayerChooser(const StaticModel& model, const Graph& original, const HeldOut& held,
               const HeldOutError& before, const ChooseOptions& options)
      : model_(model), original_(original), held_(held), before_(before), options_(options) {}

  Result<LayerChoice> Run() {
    INFER_ASSIGN(layers_, WeightedLayers(model_, original_));
    INFER_TRY(AddAll());
    const bool holds = tried_[0].told.holds;
    if (layers_.empty() || (holds && !options_.weigh)) return Take(0);
    if (holds && !IsSlow(tried_[0])) {
      INFER_TRY(AddWeighted());
      return Take(Best());
    }
    if (options_.weigh) INFER_TRY(FindSavings());
    if (!holds) INFER_TRY(AddAccurate());
    if (options_.weigh) {
      INFER_TRY(AddPaying(tried_.back()));
      if (options_.may_be_float) INFER_TRY(AddWeights());
    }
    return Take(Best());
  }

 private:
  struct Tried {
    RecipeCandidate told;
    std::map<std::string, std::string> keep;
    std::set<std::string> store;
    const Graph* graph;
    HeldOutError error;
  };

  /// Also what is in no respect worse than a candidate that holds: the target allows for what the
  /// samples do not tell, which is less where errors are smaller.
  bool Holds(const HeldOutError& e) const {
    return options_.target.Holds(e) ||
           std::any_of(tried_.begin(), tried_.end(),
                       [&e](const Tried& t) { return t.told.holds && IsNoWorse(e, t.error); });
  }
  bool OutOfTime() const { return options_.out_of_time && options_.out_of_time(); }
  bool IsSlow(const Tried& t) const {
    return Weighed(t.told.cost) > options_.fused.us * options_.sure;
  }

  /// The time here. Who runs the file is not known: what takes more than FP32 elsewhere gains
  /// nothing here, and is longer by as much as it loses there.
  double Weighed(const ModelCost& c) const {
    if (c.elsewhere_us <= options_.fused.elsewhere_us) return c.us;
    return std::max(c.us, options_.fused.us) * c.elsewhere_us / options_.fused.elsewhere_us;
  }

  StaticModel With(const Graph& graph, const std::map<std::string, std::string>& keep,
                   const std::set<std::string>& store) const {
    StaticModel m{graph.Clone(), model_.ranges, model_.scheme};
    m.scheme.keep = keep;
    m.scheme.store.insert(store.begin(), store.end());
    return m;
  }

  Result<ModelCost> CostWith(const std::map<std::string, std::string>& keep) const {
    const StaticModel m = With(model_.graph, keep, {});
    auto r = RewriteStatic(m, original_, 0);
    if (r.ok()) return held_.CostOf(r->graph);
    if (r.status().code() != Code::kUnsupported) return r.status();
    return held_.CostOf(m.graph);
  }

  Status Add(std::string name, std::map<std::string, std::string> keep,
             const HeldOutError* known = nullptr) {
    return AddOf(model_.graph, std::move(name), std::move(keep), {}, known);
  }

  Status AddOf(const Graph& graph, std::string name, std::map<std::string, std::string> keep,
               std::set<std::string> store, const HeldOutError* known) {
    Tried t{{std::move(name)}, std::move(keep), std::move(store), &graph, {}};
    const StaticModel m = With(graph, t.keep, t.store);
    auto r = RewriteStatic(m, original_, 0);
    if (!r.ok()) return r.status().code() == Code::kUnsupported ? Status() : r.status();
    if (known) {
      t.error = *known;
    } else {
      INFER_ASSIGN(t.error, held_.Measure(r->graph));
    }
    t.told.cost.us = t.error.us;
    INFER_ASSIGN(t.told.cost.elsewhere_us, held_.ElsewhereMicroseconds(r->graph));
    INFER_ASSIGN(t.told.cost.bytes, BytesOf(t, r->graph));
    t.told.sqnr_db = Decibels(t.error.worst);
    t.told.drop = t.error.drop;
    t.told.flips = t.error.flips;
    t.told.holds = Holds(t.error);
    INFER_ASSIGN(const auto left, WeightedLayers(m, original_));
    t.told.int8_layers = static_cast<int64_t>(left.size());
    tried_.push_back(std::move(t));
    return {};
  }

  /// Of the file, with the weights of all layers that stay FP32 in 8 bits: a later step stores
  /// them, whichever candidate is taken.
  Result<int64_t> BytesOf(const Tried& t, const Graph& rewritten) const {
    const int64_t as_it_is = EstimatedFileBytes(rewritten);
    if (!t.store.empty()) return as_it_is;
    StaticModel m = With(*t.graph, t.keep, {});
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(m.graph, original_, m.scheme));
    INFER_ASSIGN(const auto storable, StorableLayers(m.graph, plan));
    if (storable.empty()) return as_it_is;
    m.scheme.store.insert(storable.begin(), storable.end());
    const auto stored = RewriteStatic(m, original_, 0);
    if (!stored.ok()) return stored.status();
    return std::min(as_it_is, EstimatedFileBytes(stored->graph));
  }

  Status AddAll() {
    INFER_TRY(Add("fast", model_.scheme.keep, &before_));
    return tried_.empty() ? Internal("the model cannot be quantized any more") : Status();
  }

  /// Without the products of two activations, those of attention: they spare no bytes.
  Status AddWeighted() {
    const Graph g = model_.graph.Clone();
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(g, original_, model_.scheme));
    auto keep = model_.scheme.keep;
    for (const PlannedNode& p : plan.nodes)
      if (p.integer && p.op->role == QuantRole::kWeighted && p.node->Is("MatMul") &&
          !p.node->input(1)->is_constant())
        keep.emplace(p.first_result, kNoGain);
    if (keep.size() == model_.scheme.keep.size()) return {};
    return Add("weighted", std::move(keep));
  }

  /// What the model takes more when one layer of it returns to FP32.
  Status FindSavings() {
    const double all = Weighed(tried_[0].told.cost);
    savings_.assign(layers_.size(), 0);
    for (size_t i = 0; i < layers_.size() && !OutOfTime(); ++i) {
      auto keep = model_.scheme.keep;
      keep.emplace(layers_[i], kNoGain);
      INFER_ASSIGN(const ModelCost c, CostWith(keep));
      savings_[i] = Weighed(c) - all;
      if (options_.progress)
        options_.progress(static_cast<int64_t>(i + 1), static_cast<int64_t>(layers_.size()));
    }
    return {};
  }

  Status AddAccurate() {
    KeepFloatOptions keep;
    keep.target = options_.target;
    keep.out_of_time = options_.out_of_time;
    keep.progress = options_.progress;
    if (!savings_.empty()) {
      const double most = *std::max_element(savings_.begin(), savings_.end());
      for (const double s : savings_) keep.gain.push_back(std::max({s, 1e-3 * most, 1e-6}));
    }
    INFER_ASSIGN(const KeepFloatResult found, FindLayersToKeep(model_, original_, held_, keep));
    if (found.keep.size() == model_.scheme.keep.size()) return {};
    return Add("accurate", found.keep);
  }

  /// From `from` on, layers return to FP32 while the table says that this spares time.
  Status AddPaying(const Tried& from) {
    if (!IsSlow(from)) return {};
    auto keep = from.keep;
    double now = Weighed(from.told.cost);
    std::vector<double> savings = savings_;
    for (int round = 0; round < kPruneRounds; ++round) {
      auto fewer = keep;
      for (size_t i = 0; i < layers_.size(); ++i)
        if (savings[i] < 0) fewer.emplace(layers_[i], kNoGain);
      if (fewer.size() == keep.size()) break;
      INFER_ASSIGN(const ModelCost c, CostWith(fewer));
      if (Weighed(c) >= now) break;
      keep = std::move(fewer);
      now = Weighed(c);
      for (size_t i = 0; i < layers_.size() && round + 1 < kPruneRounds; ++i) {
        savings[i] = 0;
        if (keep.contains(layers_[i]) || OutOfTime()) continue;
        auto without = keep;
        without.emplace(layers_[i], kNoGain);
        INFER_ASSIGN(const ModelCost less, CostWith(without));
        savings[i] = Weighed(less) - now;
      }
    }
    if (keep.size() == from.keep.size()) return {};
    return Add("paying", std::move(keep));
  }

  /// The fused model with every layer in FP32, and as many weights in 8 bits as the target allows.
  Status AddWeights() {
    const Graph& fused = options_.fused_graph ? *options_.fused_graph : model_.graph;
    StaticModel m = With(fused, model_.scheme.keep, {});
    INFER_ASSIGN(const auto layers, WeightedLayers(m, original_));
    for (const std::string& layer : layers) m.scheme.keep.emplace(layer, kNoGain);
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(m.graph, original_, m.scheme));
    if (!plan.values.empty()) return {};
    INFER_ASSIGN(const auto storable, StorableLayers(m.graph, plan));
    if (storable.empty()) return {};
    const size_t before = tried_.size();
    INFER_TRY(AddOf(fused, "weights", m.scheme.keep, {storable.begin(), storable.end()}, nullptr));
    if (tried_.size() == before || tried_.back().told.holds || OutOfTime()) return {};
    // Fewer of them, where all together cost more than the target allows.
    StoreWeightsOptions some;
    some.target = options_.target;
    some.growth = 1;
    some.out_of_time = options_.out_of_time;
    some.progress = options_.progress;
    INFER_ASSIGN(const HeldOutError exact, held_.Measure(m.graph));
    INFER_ASSIGN(StoreWeightsResult found, FindWeightsToStore(m, original_, held_, exact, some));
    if (found.store.empty()) return {};
    tried_.pop_back();
    return AddOf(fused, "weights", std::move(m.scheme.keep), std::move(found.store), &found.error);
  }

  /// By the tables, with what they may be off by.
  double SureUs(const Tried& t) const { return Weighed(t.told.cost) / SureShare(t); }
  double SureShare(const Tried& t) const {
    if (t.told.name == "weights") return 1;  // FP32's own kernels, here and elsewhere
    if (t.told.name == "paying") return std::min(kSureOfPaying, options_.sure);
    if (t.told.name == "accurate") return std::min(kSureOfAccurate, options_.sure);
    return options_.sure;
  }

  size_t Best() const {
    const auto better = [&](const Tried& a, const Tried& b) {
      if (a.told.holds != b.told.holds) return a.told.holds;
      if (!a.told.holds) return a.error.worst < b.error.worst;
      if (!options_.weigh) return a.told.int8_layers > b.told.int8_layers;
      const double ratio = SureUs(a) / SureUs(b);
      const double bytes =
          static_cast<double>(a.told.cost.bytes) / static_cast<double>(b.told.cost.bytes);
      if (ratio < 1 - kSameTimeShare) return EarnsItsBytes(ratio, bytes);
      if (ratio > 1 + kSameTimeShare) return !EarnsItsBytes(1 / ratio, 1 / bytes);
      return bytes < 1;
    };
    size_t best = 0;
    for (size_t i = 1; i < tried_.size(); ++i)
      if (better(tried_[i], tried_[best])) best = i;
    return best;
  }

  LayerChoice Take(size_t at) {
    LayerChoice c;
    c.layers = layers_.size();
    const double sure_us = tried_[at].told.cost.us / SureShare(tried_[at]);
    tried_[at].told.chosen = true;
    c.candidates.push_back(
        {.name = "fp32", .cost = options_.fused, .sqnr_db = INFINITY, .holds = true});
    for (const Tried& t : tried_) c.candidates.push_back(t.told);
    if (tried_[at].graph != &model_.graph) c.graph = tried_[at].graph->Clone();
    c.keep = std::move(tried_[at].keep);
    c.store = std::move(tried_[at].store);
    c.error = std::move(tried_[at].error);
    c.reached = tried_[at].told.holds;
    c.pays = !options_.weigh || sure_us <= options_.fused.us * (1 + kSameTimeShare);
    return c;
  }

  const StaticModel& model_;
  const Graph& original_;
  const HeldOut& held_;
  const HeldOutError& before_;
  const ChooseOptions& options_;
  std::vector<std::string> layers_;
  std::vector<double> savings_;  // by layer, us; empty: time is no reason
  std::vector<Tried> tried_;
};

}  // namespace

bool EarnsItsBytes(double time, double bytes) { return 1 - time >= kTimePerBytes * (bytes - 1); }

Result<LayerChoice> ChooseLayers(const StaticModel& model, const Graph& original,
                                 const HeldOut& held, const HeldOutError& before,
                                 const ChooseOptions& options) {
  return LayerChooser(model, original, held, before, options).Run();
}

}  // namespace infer
