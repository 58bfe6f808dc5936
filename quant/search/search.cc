#include "quant/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "lib/support/hash.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/search/latency.h"

namespace infer {
namespace {

/// A layer whose INT8 form is at least this much of its f32 time gains nothing by it.
constexpr double kNoFaster = 0.99;

std::string PolicyKey(const Policy& policy) {
  Hasher h;
  for (const auto& [key, choice] : policy) h.Add(key).Add(Name(choice.precision));
  return Cat("policy ", h.value());
}

class Search {
 public:
  Search(const MixedModel& model, const Judge& judge, const Backend& backend,
         const SearchOptions& options, MeasurementStore& store)
      : model_(model), judge_(judge), backend_(backend), o_(options), store_(store) {
    result_.measure =
        options.measure.value_or(judge.has_labels() ? ErrorMeasure::kKl : ErrorMeasure::kNoise);
  }

  Status PlanLayers();
  Status MeasureUniform();
  Status MeasureTimes();
  Status MeasureLayers();
  Status MeasureValues();
  void Solve();
  Status Choose();
  Status TryAllInteger();
  void Explain();
  SearchResult Take() { return std::move(result_); }

 private:
  bool TimeIsUp() const { return std::chrono::steady_clock::now() >= o_.deadline; }
  /// From the store, or measured now; nullopt when time is up. `must`: whatever the time.
  Result<std::optional<Numbers>> Measured(const std::string& key, bool must,
                                          const std::function<Result<Numbers>()>& measure);
  Result<std::optional<Score>> ScoreOf(const std::string& key, const Policy& policy,
                                       int64_t samples, bool must);
  /// Fills bytes, score, verified and within_limits.
  Status Verify(FrontPoint& point, bool must);
  FrontPoint PointOf(const Assignment& a) const;
  bool Fits(int64_t bytes) const { return !o_.max_bytes || bytes <= *o_.max_bytes; }
  bool IsWithin(const FrontPoint& p) const;
  Status VerifyOthers();
  static bool IsSlowInt8(const LayerRecord& layer);
  std::string WhyF32(const LayerRecord& layer) const;
  double Goal(const LayerCost& c) const {
    return o_.goal == SearchGoal::kLatency ? c.ms : static_cast<double>(c.bytes);
  }

  const MixedModel& model_;
  const Judge& judge_;
  const Backend& backend_;
  const SearchOptions& o_;
  MeasurementStore& store_;
  SearchResult result_;
  std::vector<Assignment> assignments_;
  int64_t other_bytes_ = 0;  // constants of no layer
  int64_t planned_ = 0, done_ = 0;
  std::optional<double> int8_error_;
};

Result<std::optional<Numbers>> Search::Measured(const std::string& key, bool must,
                                                const std::function<Result<Numbers>()>& measure) {
  if (o_.stop.stop_requested()) return Cancelled("the search was stopped");
  std::optional<Numbers> found;
  if (const Numbers* n = store_.Find(key)) {
    found = *n;
    ++result_.reused;
  } else if (must || !TimeIsUp()) {
    INFER_ASSIGN(Numbers fresh, measure());
    INFER_TRY(store_.Add(key, fresh));
    found = std::move(fresh);
    ++result_.measured;
  } else {
    ++result_.skipped;
  }
  planned_ = std::max(planned_, ++done_);
  if (o_.progress) o_.progress(done_, planned_);
  return found;
}

Result<std::optional<Score>> Search::ScoreOf(const std::string& key, const Policy& policy,
                                             int64_t samples, bool must) {
  INFER_ASSIGN(const auto n, Measured(key, must, [&]() -> Result<Numbers> {
                 INFER_ASSIGN(const MixedGraph g, model_.Apply(policy));
                 INFER_ASSIGN(const Score s, judge_.Of(g.graph, samples));
                 return s.numbers();
               }));
  return n ? std::optional(Score::From(*n)) : std::nullopt;
}

Status Search::PlanLayers() {
  for (const SearchLayer& layer : model_.layers()) {
    LayerRecord r{layer, {}};
    r.options.push_back({Precision::kF32, true, {}, {0, layer.bytes, 0}});
    for (const Precision p : o_.precisions)
      if (p != Precision::kF32 && layer.Allows(p)) r.options.push_back({p, false, {}, {}});
    planned_ += static_cast<int64_t>(r.options.size()) - 1;
    result_.layers.push_back(std::move(r));
  }
  planned_ += static_cast<int64_t>(o_.precisions.size()) + 1 + o_.front_points;
  if (o_.per_value) planned_ += static_cast<int64_t>(model_.values().size());
  return {};
}

Status Search::MeasureUniform() {
  for (const Precision p : o_.precisions) {
    FrontPoint point{Cat("uniform ", Name(p)), model_.Uniform(p), {}, 0, {}, false, false};
    INFER_ASSIGN(const MixedGraph g, model_.Apply(point.policy));
    if (p == Precision::kF32) {
      int64_t in_layers = 0;
      for (const int64_t b : g.layer_bytes) in_layers += b;
      other_bytes_ = ConstantBytesOf(g.graph) - in_layers;
    }
    for (size_t i = 0; i < result_.layers.size(); ++i)
      for (LayerOption& option : result_.layers[i].options)
        if (option.precision == p) option.cost.bytes = g.layer_bytes[i];
    INFER_TRY(Verify(point, p == Precision::kInt8 || p == Precision::kF32));
    if (p == Precision::kInt8 && point.verified)
      int8_error_ = ErrorOf(point.score, result_.measure);
    result_.uniform.push_back(std::move(point));
  }
  for (FrontPoint& p : result_.uniform) p.within_limits = IsWithin(p);
  return {};
}

Status Search::MeasureTimes() {
  std::vector<MixedGraph> graphs;
  std::vector<const Graph*> views;
  for (const Precision p : o_.precisions) {
    INFER_ASSIGN(MixedGraph g, model_.Apply(model_.Uniform(p), true));
    graphs.push_back(std::move(g));
  }
  for (const MixedGraph& g : graphs) views.push_back(&g.graph);
  INFER_ASSIGN(const auto n, Measured("times", true, [&]() -> Result<Numbers> {
                 INFER_ASSIGN(const auto times,
                              TimeLayers(views, model_.layers().size(), judge_.inputs(0), backend_,
                                         o_.threads, o_.stop));
                 Numbers out;
                 for (size_t g = 0; g < times.size(); ++g) {
                   out[Cat(Name(o_.precisions[g]), " other")] = times[g].other_ms;
                   for (size_t l = 0; l < times[g].ms.size(); ++l)
                     out[Cat(Name(o_.precisions[g]), " ", l)] = times[g].ms[l];
                 }
                 return out;
               }));
  const auto get = [&](const std::string& name) {
    const auto it = n->find(name);
    return it == n->end() ? 0.0 : it->second;
  };
  for (const Precision p : o_.precisions) {
    result_.other_ms.push_back(get(Cat(Name(p), " other")));
    for (size_t l = 0; l < result_.layers.size(); ++l)
      for (LayerOption& option : result_.layers[l].options)
        if (option.precision == p) option.cost.ms = get(Cat(Name(p), " ", l));
  }
  return {};
}

Status Search::MeasureLayers() {
  // Large layers first: if time runs out, what is left matters least.
  std::vector<size_t> order(result_.layers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return result_.layers[a].layer.bytes > result_.layers[b].layer.bytes;
  });
  for (const Precision p : o_.precisions)
    for (const size_t l : order)
      for (LayerOption& option : result_.layers[l].options) {
        if (option.precision != p || p == Precision::kF32) continue;
        const std::string& key = result_.layers[l].layer.key;
        INFER_ASSIGN(const auto score, ScoreOf(Cat("layer ", Name(p), " ", key), {{key, {p, {}}}},
                                               o_.layer_samples, false));
        if (!score) continue;
        option.measured = true;
        option.score = *score;
        // A loss may fall by chance; rounding does not help by itself.
        option.cost.error = std::max(0.0, ErrorOf(*score, result_.measure));
      }
  if (result_.skipped > 0)
    result_.warnings.push_back(
        Cat("time was up: ", result_.skipped,
            " measurements are missing, those layers keep what was measured"));
  return {};
}

Status Search::MeasureValues() {
  if (!o_.per_value) return {};
  INFER_ASSIGN(const MixedGraph int8, model_.Apply(model_.Uniform(Precision::kInt8)));
  INFER_ASSIGN(result_.accumulated, judge_.Layers(model_.prepared(), int8.graph));
  for (const std::string& value : model_.values()) {
    INFER_ASSIGN(const auto n, Measured(Cat("value ", value), false, [&]() -> Result<Numbers> {
                   INFER_ASSIGN(const Graph g, model_.RoundOne(value));
                   INFER_ASSIGN(const Score s, judge_.Of(g, o_.layer_samples));
                   return s.numbers();
                 }));
    if (n) result_.values.push_back({value, Score::From(*n)});
  }
  return {};
}

FrontPoint Search::PointOf(const Assignment& a) const {
  FrontPoint point;
  point.name = "front";
  point.predicted = a.total;
  for (size_t l = 0; l < result_.layers.size(); ++l) {
    const LayerRecord& layer = result_.layers[l];
    int at = a.choice[l];
    for (size_t o = 0; o < layer.options.size(); ++o)
      if (layer.options[o].measured && at-- == 0)
        point.policy[layer.layer.key] = {layer.options[o].precision, {}};
  }
  return point;
}

bool Search::IsWithin(const FrontPoint& p) const {
  if (!p.verified || !Fits(p.bytes)) return false;
  const GateLimits& l = o_.limits;
  const bool limited = l.max_drop || l.min_sqnr_db || l.min_agreement;
  if (limited) return Keeps(p.score, l);
  return !int8_error_ || ErrorOf(p.score, result_.measure) <= *int8_error_;
}

Status Search::Verify(FrontPoint& point, bool must) {
  INFER_ASSIGN(const MixedGraph g, model_.Apply(point.policy));
  point.bytes = ConstantBytesOf(g.graph);
  INFER_ASSIGN(const auto score, ScoreOf(PolicyKey(point.policy), point.policy, 0, must));
  point.verified = score.has_value();
  if (score) point.score = *score;
  point.within_limits = IsWithin(point);
  return {};
}

void Search::Solve() {
  std::vector<std::vector<LayerCost>> costs;
  for (const LayerRecord& layer : result_.layers) {
    costs.emplace_back();
    for (const LayerOption& option : layer.options)
      if (option.measured) costs.back().push_back(option.cost);
  }
  // Of all three numbers, and of two at a time, where buckets are finer.
  for (const bool with_bytes : {true, false})
    for (const bool with_ms : {true, false}) {
      std::vector<std::vector<LayerCost>> some = costs;
      for (auto& layer : some)
        for (LayerCost& c : layer) c = {c.error, with_bytes ? c.bytes : 0, with_ms ? c.ms : 0};
      for (Assignment& a : SolvePrecisions(some)) {
        a.total = {};
        for (size_t l = 0; l < costs.size(); ++l) {
          const LayerCost& c = costs[l][static_cast<size_t>(a.choice[l])];
          a.total = {a.total.error + c.error, a.total.bytes + c.bytes, a.total.ms + c.ms};
        }
        assignments_.push_back(std::move(a));
      }
    }
  std::stable_sort(
      assignments_.begin(), assignments_.end(), [](const Assignment& a, const Assignment& b) {
        return std::pair(a.total.bytes, a.total.error) < std::pair(b.total.bytes, b.total.error);
      });
  // As the sum of its layers, so that it can be held against the others.
  for (FrontPoint& p : result_.uniform)
    for (const LayerRecord& layer : result_.layers) {
      const LayerCost& c = layer.Find(p.policy.at(layer.layer.key).precision)->cost;
      p.predicted = {p.predicted.error + c.error, p.predicted.bytes + c.bytes,
                     p.predicted.ms + c.ms};
    }
}

/// The points of the front in the goal and the error, then the cut: the furthest of them that
/// keeps the limits, found by halving, every tried point verified by running it.
Status Search::Choose() {
  std::vector<Assignment> ranked;
  for (const Assignment& a : assignments_)
    if (Fits(a.total.bytes + other_bytes_)) ranked.push_back(a);
  std::stable_sort(ranked.begin(), ranked.end(), [&](const Assignment& a, const Assignment& b) {
    return std::pair(a.total.error, Goal(a.total)) < std::pair(b.total.error, Goal(b.total));
  });
  double best = std::numeric_limits<double>::infinity();
  std::erase_if(ranked, [&](const Assignment& a) {
    if (Goal(a.total) >= best) return true;
    best = Goal(a.total);
    return false;
  });
  std::set<size_t> tried;
  std::optional<FrontPoint> chosen;
  const auto attempt = [&](size_t i, bool must) -> Result<bool> {
    FrontPoint p = PointOf(ranked[i]);
    INFER_TRY(Verify(p, must));
    if (p.verified && tried.insert(i).second) result_.front.push_back(p);
    return p.within_limits;
  };
  size_t lo = 0, hi = ranked.size();  // [0, lo) keeps the limits as far as is known
  while (lo < hi) {
    const size_t middle = lo + (hi - lo) / 2;
    INFER_ASSIGN(const bool keeps, attempt(middle, lo == 0 && middle == 0));
    (keeps ? lo : hi) = keeps ? middle + 1 : middle;
  }
  INFER_TRY(VerifyOthers());
  std::vector<FrontPoint*> candidates;
  for (FrontPoint& p : result_.front) candidates.push_back(&p);
  for (FrontPoint& p : result_.uniform) candidates.push_back(&p);
  const FrontPoint* least_error = nullptr;
  for (const FrontPoint* p : candidates) {
    if (!p->verified) continue;
    if (Fits(p->bytes) && (!least_error || ErrorOf(p->score, result_.measure) <
                                               ErrorOf(least_error->score, result_.measure)))
      least_error = p;
    if (p->within_limits && (!chosen || Goal(p->predicted) < Goal(chosen->predicted))) chosen = *p;
  }
  if (!chosen) {
    if (!least_error)
      return Unsupported(Cat("no policy fits into ", HumanBytes(*o_.max_bytes),
                             " of constants; the smallest has ",
                             HumanBytes(assignments_.front().total.bytes + other_bytes_)));
    chosen = *least_error;
    result_.warnings.push_back(
        "no policy that fits keeps the accuracy limits on the search samples; the most accurate "
        "one that fits was taken");
  }
  chosen->name = "chosen";
  result_.chosen = *std::move(chosen);
  std::stable_sort(result_.front.begin(), result_.front.end(),
                   [](const FrontPoint& a, const FrontPoint& b) { return a.bytes < b.bytes; });
  return {};
}

/// Along the front of bytes and error, for whoever wants to choose otherwise; and what stands
/// against each uniform policy: the least error in no more bytes and, where there is such, in no
/// more time either.
Status Search::VerifyOthers() {
  std::vector<const Assignment*> wanted, by_size;
  for (const Assignment& a : assignments_)  // by bytes
    if (by_size.empty() || a.total.error < by_size.back()->total.error) by_size.push_back(&a);
  for (const FrontPoint& p : result_.uniform) {
    const Assignment *small = nullptr, *small_and_fast = nullptr;
    const auto better = [](const Assignment* a, const Assignment& b) {
      return !a || b.total.error < a->total.error;
    };
    for (const Assignment& a : assignments_) {
      if (a.total.bytes + other_bytes_ > p.bytes) continue;
      if (better(small, a)) small = &a;
      if (a.total.ms <= p.predicted.ms && better(small_and_fast, a)) small_and_fast = &a;
    }
    for (const Assignment* a : {small, small_and_fast})
      if (a) wanted.push_back(a);
  }
  for (int k = 0; k < o_.front_points && !by_size.empty(); ++k)
    wanted.push_back(by_size[(by_size.size() - 1) * static_cast<size_t>(k) /
                             static_cast<size_t>(std::max(1, o_.front_points - 1))]);
  for (const Assignment* a : wanted) {
    FrontPoint p = PointOf(*a);
    const auto same = [&](const FrontPoint& q) {
      return PolicyKey(q.policy) == PolicyKey(p.policy);
    };
    if (std::any_of(result_.front.begin(), result_.front.end(), same)) continue;
    INFER_TRY(Verify(p, false));
    if (p.verified) result_.front.push_back(std::move(p));
  }
  return {};
}

bool Search::IsSlowInt8(const LayerRecord& layer) {
  const LayerOption* int8 = layer.Find(Precision::kInt8);
  return int8 && int8->cost.ms >= kNoFaster * layer.options[0].cost.ms;
}

Status Search::TryAllInteger() {
  if (o_.goal != SearchGoal::kLatency) return {};
  FrontPoint p = result_.chosen;
  bool changed = false;
  for (const LayerRecord& layer : result_.layers) {
    LayerPolicy& choice = p.policy[layer.layer.key];
    if (choice.precision == Precision::kInt8 || !IsSlowInt8(layer)) continue;
    choice = {Precision::kInt8, {}};
    changed = true;
  }
  if (!changed) return {};
  p.name = "all integer";
  INFER_TRY(Verify(p, false));
  if (p.within_limits) result_.all_integer = std::move(p);
  return {};
}

std::string Search::WhyF32(const LayerRecord& layer) const {
  const LayerOption* int8 = layer.Find(Precision::kInt8);
  if (!int8) {
    const auto it = layer.layer.refused.find(Precision::kInt8);
    return it == layer.layer.refused.end() ? "INT8 was not asked for" : it->second;
  }
  const double f32 = layer.options[0].cost.ms;
  const std::string times =
      Cat("INT8 takes ", Rounded(int8->cost.ms, 3), " ms, FP32 ", Rounded(f32, 3), " ms");
  if (IsSlowInt8(layer)) return Cat("INT8 is not faster: ", times);
  if (!int8->measured) return Cat("time was up before INT8 was scored; ", times);
  return Cat("INT8 costs ",
             Rounded(100 * int8->cost.error / std::max(int8_error_.value_or(0), 1e-300), 3),
             " % of the error of uniform INT8; ", times);
}

void Search::Explain() {
  for (const LayerRecord& layer : result_.layers) {
    LayerPolicy& choice = result_.chosen.policy[layer.layer.key];
    if (choice.precision != Precision::kInt8) choice.reason = WhyF32(layer);
  }
}

}  // namespace

const LayerOption* LayerRecord::Find(Precision p) const {
  const auto it = std::find_if(options.begin(), options.end(),
                               [&](const LayerOption& o) { return o.precision == p; });
  return it == options.end() ? nullptr : &*it;
}

bool Keeps(const Score& score, const GateLimits& limits) {
  if (limits.max_drop && score.drop > *limits.max_drop) return false;
  if (limits.min_sqnr_db && score.sqnr_db() < *limits.min_sqnr_db) return false;
  return !limits.min_agreement || score.agreement >= *limits.min_agreement;
}

Result<SearchResult> SearchPolicy(const MixedModel& model, const Judge& judge,
                                  const Backend& backend, const SearchOptions& options,
                                  MeasurementStore& store) {
  Search search(model, judge, backend, options, store);
  INFER_TRY(search.PlanLayers());
  INFER_TRY(search.MeasureUniform());
  INFER_TRY(search.MeasureTimes());
  INFER_TRY(search.MeasureLayers());
  INFER_TRY(search.MeasureValues());
  search.Solve();
  INFER_TRY(search.Choose());
  INFER_TRY(search.TryAllInteger());
  search.Explain();
  return search.Take();
}

}  // namespace infer
