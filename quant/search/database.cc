#include "quant/search/database.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "quant/search/time_class.h"

namespace infer {
namespace {

/// Shares of the time after which no more of these is measured.
constexpr double kTimesUntil = 0.15, kNearUntil = 0.25, kPairsUntil = 0.35, kErrorsUntil = 0.65;
constexpr double kLeastSamples = 4;   // that score a layer
constexpr double kLeastOfPoint = 64;  // that verify a point, where a third of the rest does for it
constexpr double kPoints = 16;        // that the rest of the time should do for

/// What the base program, which all times are shares of, computes in.
Precision BaseOf(const Measuring& m) {
  return m.Has(Precision::kInt8) ? Precision::kInt8 : Precision::kF32;
}

}  // namespace

std::vector<std::vector<LayerCost>> LayerDatabase::Costs() const {
  std::vector<std::vector<LayerCost>> costs;
  for (const LayerRecord& layer : layers) {
    costs.emplace_back();
    for (const LayerOption& option : layer.options)
      if (option.usable()) costs.back().push_back(option.cost);
  }
  return costs;
}

ChainTerms LayerDatabase::Chain() const {
  ChainTerms some{{}, chain.ms};
  for (size_t l = 0; l < layers.size(); ++l) {
    some.marked.emplace_back();
    for (size_t o = 0; o < layers[l].options.size(); ++o)
      if (layers[l].options[o].usable()) some.marked.back().push_back(chain.marked[l][o]);
  }
  return some;
}

LayerCost LayerDatabase::TotalOf(const Policy& policy) const {
  std::vector<std::vector<LayerCost>> costs;
  std::vector<int> choice;
  for (const LayerRecord& layer : layers) {
    costs.emplace_back();
    for (const LayerOption& o : layer.options) costs.back().push_back(o.cost);
    const auto it = policy.find(layer.layer.key);
    const LayerOption* at = layer.Find(it == policy.end() ? Precision::kF32 : it->second.precision);
    choice.push_back(static_cast<int>(at - layer.options.data()));
  }
  LayerCost total = infer::TotalOf(costs, choice, &chain);
  total.bytes += other_bytes;
  total.ms += other_ms;
  return total;
}

void LayerDatabase::EstimateUnscored(const std::vector<FrontPoint>& uniform, ErrorMeasure measure) {
  for (const FrontPoint& point : uniform) {
    if (!point.verified) continue;
    double rest = ErrorOf(point.score, measure);
    std::vector<LayerOption*> unscored;
    for (LayerRecord& layer : layers) {
      const Precision p = point.policy.at(layer.layer.key).precision;
      for (LayerOption& o : layer.options) {
        if (o.precision != p || p == Precision::kF32) continue;
        if (o.measured)
          rest -= o.cost.error;
        else
          unscored.push_back(&o);
      }
    }
    for (LayerOption* o : unscored) {
      o->estimated = true;
      o->cost.error = std::max(0.0, rest) / static_cast<double>(unscored.size());
    }
  }
}

Result<LayerDatabase> DatabaseBuilder::Build() {
  PlanLayers();
  INFER_TRY(MeasureBytes());
  INFER_TRY(MeasureTimes());
  INFER_TRY(MeasureErrors());
  if (result_.skipped > 0)
    result_.warnings.push_back(Cat("time was up: ", result_.skipped,
                                   " measurements are missing, those of errors are estimated"));
  return std::move(db_);
}

void DatabaseBuilder::PlanLayers() {
  for (const SearchLayer& layer : m_.model.layers()) {
    LayerRecord r{layer, {}};
    r.options.push_back({Precision::kF32, true, {}, {0, layer.bytes, 0}});
    for (const Precision p : m_.options.precisions)
      if (p != Precision::kF32 && layer.Allows(p)) r.options.push_back({p, false, {}, {}});
    m_.Plan(static_cast<int64_t>(r.options.size()) - 1);
    db_.chain.marked.emplace_back();
    for (const LayerOption& o : r.options)
      db_.chain.marked.back().push_back(o.precision != Precision::kInt8);
    db_.layers.push_back(std::move(r));
  }
  db_.chain.ms.assign(db_.layers.size(), 0);
  m_.Plan(static_cast<int64_t>(m_.options.precisions.size()) + 1);
  classes_ = TimeClasses(m_.model);
  const auto distinct = static_cast<int64_t>(std::set(classes_.begin(), classes_.end()).size());
  if (m_.Has(Precision::kInt8)) m_.Plan(3 * distinct);
}

Status DatabaseBuilder::MeasureBytes() {
  for (const Precision p : m_.options.precisions) {
    INFER_ASSIGN(const MixedGraph g, m_.model.Apply(m_.model.Uniform(p)));
    if (p == Precision::kF32)
      db_.other_bytes = ConstantBytesOf(g.graph) -
                        std::accumulate(g.layer_bytes.begin(), g.layer_bytes.end(), int64_t{0});
    for (size_t i = 0; i < db_.layers.size(); ++i)
      for (LayerOption& option : db_.layers[i].options)
        if (option.precision == p) option.cost.bytes = g.layer_bytes[i];
  }
  return {};
}

Result<LatencyProbe*> DatabaseBuilder::Probe() {
  if (!probe_) {
    INFER_ASSIGN(const MixedGraph base, m_.model.Apply(m_.model.Uniform(BaseOf(m_))));
    INFER_ASSIGN(probe_,
                 LatencyProbe::Make(base.graph, m_.judge.inputs(0), backend_, m_.options.threads,
                                    m_.options.timing_ms, m_.options.stop));
  }
  return &*probe_;
}

Result<std::optional<double>> DatabaseBuilder::WholeTime(const std::string& key,
                                                         const Policy& policy, double until,
                                                         double times) {
  INFER_ASSIGN(const auto n, m_.Measured(key, until, [&]() -> Result<Numbers> {
    INFER_ASSIGN(LatencyProbe * probe, Probe());
    INFER_ASSIGN(MixedGraph g, m_.model.Apply(policy));
    INFER_ASSIGN(const double ratio, probe->Ratio(std::move(g.graph), times));
    return Numbers{{"ratio", ratio}};
  }));
  return n ? std::optional(n->at("ratio") * base_ms_) : std::nullopt;
}

Result<std::optional<Numbers>> DatabaseBuilder::ProfileUniform(Precision p, double until) {
  return m_.Measured(Cat("times ", Name(p)), until, [&]() -> Result<Numbers> {
    INFER_ASSIGN(LatencyProbe * probe, Probe());
    INFER_ASSIGN(MixedGraph g, m_.model.Apply(m_.model.Uniform(p), true));
    INFER_ASSIGN(const LayerTimes t, probe->Layers(std::move(g.graph), db_.layers.size()));
    Numbers out{{"whole", t.whole}, {"other", t.other}};
    for (size_t l = 0; l < t.layers.size(); ++l) out[std::to_string(l)] = t.layers[l];
    return out;
  });
}

Status DatabaseBuilder::MeasureTimes() {
  INFER_ASSIGN(const auto base, m_.Always("base", [&]() -> Result<Numbers> {
    INFER_ASSIGN(LatencyProbe * probe, Probe());
    return Numbers{{"ms", probe->base_ms()}};
  }));
  base_ms_ = base.at("ms");
  std::vector<std::vector<double>> own;  // by precision and layer
  Numbers last;
  for (const Precision p : m_.options.precisions) {
    const bool needed = own.empty() || p == Precision::kF32 || p == BaseOf(m_);
    INFER_ASSIGN(const auto n, ProfileUniform(p, needed ? kAlways : kTimesUntil));
    if (n) last = *n;  // else as the one before: what is stored in fewer bits computes in f32, too
    const auto get = [&](const std::string& name) {
      const auto it = last.find(name);
      return (it == last.end() ? 0.0 : it->second) * base_ms_;
    };
    own.emplace_back();
    for (size_t l = 0; l < db_.layers.size(); ++l) own.back().push_back(get(std::to_string(l)));
    if (p == Precision::kF32) f32_ms_ = get("whole");
    if (p == BaseOf(m_)) db_.other_ms = get("other");
    for (size_t l = 0; l < db_.layers.size(); ++l)
      for (LayerOption& option : db_.layers[l].options)
        if (option.precision == p) option.cost.ms = own.back()[l];
  }
  return m_.Has(Precision::kInt8) ? MeasureNear(own) : Status();
}

Result<std::optional<double>> DatabaseBuilder::MoreWith(const std::string& key, Precision p,
                                                        std::initializer_list<size_t> at,
                                                        double until) {
  Policy policy = m_.model.Uniform(Precision::kInt8);
  for (const size_t l : at) policy[db_.layers[l].layer.key] = {p, {}};
  INFER_ASSIGN(const auto ms, WholeTime(key, policy, until));
  return ms ? std::optional(*ms - base_ms_) : std::nullopt;
}

Result<DatabaseBuilder::NearTimes> DatabaseBuilder::MeasureAlone(const std::vector<size_t>& order) {
  NearTimes near;
  near.f32.resize(db_.layers.size());
  near.stored.resize(db_.layers.size());
  const bool has_stored = m_.Has(Precision::kInt8Weights);
  for (const size_t l : order) {
    const SearchLayer& layer = db_.layers[l].layer;
    const size_t like = classes_[l];
    if (!layer.Allows(Precision::kInt8) || near.f32[like]) continue;
    INFER_ASSIGN(near.f32[like],
                 MoreWith(Cat("near ", layer.key), Precision::kF32, {l}, kNearUntil));
    if (has_stored && layer.Allows(Precision::kInt8Weights)) {
      INFER_ASSIGN(near.stored[like],
                   MoreWith(Cat("near8 ", layer.key), Precision::kInt8Weights, {l}, kNearUntil));
    }
  }
  for (const size_t l : order) {
    const SearchLayer& layer = db_.layers[l].layer;
    if (!layer.Allows(Precision::kInt8)) continue;
    near.f32[l] = near.f32[classes_[l]];
    if (layer.Allows(Precision::kInt8Weights)) near.stored[l] = near.stored[classes_[l]];
  }
  return near;
}

Status DatabaseBuilder::MeasurePairs(const NearTimes& near, const std::vector<size_t>& order) {
  std::map<std::pair<size_t, size_t>, double> known;
  for (const size_t l : order) {
    if (l + 1 >= order.size()) continue;
    const bool both_stored = near.stored[l] && near.stored[l + 1];
    const auto& alone = both_stored ? near.stored : near.f32;
    if (!alone[l] || !alone[l + 1]) continue;
    const std::pair like(classes_[l], classes_[l + 1]);
    if (!known.contains(like)) {
      const auto p = both_stored ? Precision::kInt8Weights : Precision::kF32;
      INFER_ASSIGN(const auto more,
                   MoreWith(Cat("pair ", db_.layers[l].layer.key), p, {l, l + 1}, kPairsUntil));
      if (more) known[like] = *more - *alone[l] - *alone[l + 1];
    }
    if (const auto at = known.find(like); at != known.end()) db_.chain.ms[l] = at->second;
  }
  return {};
}

Status DatabaseBuilder::MeasureNear(const std::vector<std::vector<double>>& own) {
  const std::vector<size_t> order = ImportantFirst();
  INFER_ASSIGN(const NearTimes near, MeasureAlone(order));
  INFER_TRY(MeasurePairs(near, order));
  const auto& f32 = near.f32;
  const auto& stored = near.stored;
  const auto& precisions = m_.options.precisions;
  const auto f32_at = static_cast<size_t>(
      std::find(precisions.begin(), precisions.end(), Precision::kF32) - precisions.begin());
  for (size_t l = 0; l < db_.layers.size(); ++l) {
    LayerRecord& layer = db_.layers[l];
    if (!f32[l]) continue;
    const double integer = layer.Find(Precision::kInt8)->cost.ms;
    for (LayerOption& o : layer.options) {
      if (o.precision == Precision::kInt8) continue;
      const double more = o.precision == Precision::kInt8Weights && stored[l]
                              ? *stored[l]
                              : *f32[l] + o.cost.ms - own[f32_at][l];
      o.cost.ms = std::max(0.0, integer + more);
    }
  }
  return {};
}

std::vector<size_t> DatabaseBuilder::ImportantFirst() const {
  double bytes = 1, ms = 1e-9;
  for (const LayerRecord& l : db_.layers) {
    bytes += static_cast<double>(l.layer.bytes);
    ms += l.options[0].cost.ms;
  }
  const auto share = [&](size_t l) {
    const LayerRecord& r = db_.layers[l];
    return static_cast<double>(r.layer.bytes) / bytes + r.options[0].cost.ms / ms;
  };
  std::vector<size_t> order(db_.layers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return share(a) > share(b); });
  return order;
}

/// Making and compiling a model takes its time, too, on large ones more than some samples.
Result<double> DatabaseBuilder::SamplesIn(double seconds) {
  if (seconds == kAlways) return seconds;
  const auto start = m_.options.now();
  INFER_ASSIGN(MixedGraph g, m_.model.Apply(m_.model.Uniform(BaseOf(m_))));
  INFER_TRY(m_.judge.Of(std::move(g.graph), 1).status());
  const std::chrono::duration<double> made = m_.options.now() - start;
  return (seconds - made.count()) / std::max(f32_ms_ / 1000, 1e-6);
}

/// Fewer than asked for where all layers would not be scored in time otherwise. Stored, since
/// scores of different samples do not compare.
Result<int64_t> DatabaseBuilder::SamplesPerLayer() {
  INFER_ASSIGN(const auto n, m_.Always("layer samples", [&]() -> Result<Numbers> {
    int64_t options = 0;
    for (const LayerRecord& l : db_.layers) options += static_cast<int64_t>(l.options.size()) - 1;
    INFER_ASSIGN(const double most, SamplesIn(m_.SecondsUntil(kErrorsUntil) /
                                              static_cast<double>(std::max<int64_t>(options, 1))));
    const auto wanted = static_cast<double>(m_.options.layer_samples);
    return Numbers{
        {"count", std::floor(std::clamp(most, std::min(wanted, kLeastSamples), wanted))}};
  }));
  return static_cast<int64_t>(n.at("count"));
}

Result<int64_t> DatabaseBuilder::SamplesPerPoint() {
  INFER_ASSIGN(const auto n, m_.Always("point samples", [&]() -> Result<Numbers> {
    const double left = m_.SecondsUntil(1);
    const auto all = static_cast<double>(m_.judge.samples());
    if (left == kAlways) return Numbers{{"count", all}};
    INFER_ASSIGN(const double most, SamplesIn(left / kPoints));
    const double third = most + left * (1.0 / 3 - 1 / kPoints) / std::max(f32_ms_ / 1000, 1e-6);
    const auto at_least = [&](double n) { return std::min(all, n); };
    const double least = std::clamp(third, at_least(Judge::kLeastSamples), at_least(kLeastOfPoint));
    return Numbers{{"count", std::floor(std::clamp(most, least, all))}};
  }));
  return static_cast<int64_t>(n.at("count"));
}

Status DatabaseBuilder::MeasureErrors() {
  INFER_ASSIGN(const int64_t samples, SamplesPerLayer());
  // One precision after the other, each with a share of the time, and with what those before left.
  const double share = (kErrorsUntil - kPairsUntil) /
                       static_cast<double>(std::max<size_t>(m_.options.precisions.size(), 2) - 1);
  double until = kPairsUntil;
  for (const Precision p : m_.options.precisions) {
    if (p == Precision::kF32) continue;
    until += share;
    for (const size_t l : ImportantFirst())
      for (LayerOption& option : db_.layers[l].options)
        if (option.precision == p)
          INFER_TRY(MeasureError(db_.layers[l].layer.key, option, samples, until));
  }
  return {};
}

Status DatabaseBuilder::MeasureError(const std::string& key, LayerOption& option, int64_t samples,
                                     double until) {
  INFER_ASSIGN(const auto score, m_.ScoreOf(Cat("layer ", Name(option.precision), " ", key),
                                            {{key, {option.precision, {}}}}, samples, until));
  if (!score) return {};
  option.measured = true;
  option.score = *score;
  // A loss may fall by chance; rounding does not help by itself.
  option.cost.error = std::max(0.0, ErrorOf(*score, result_.measure));
  return {};
}

}  // namespace infer
