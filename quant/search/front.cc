#include "quant/search/front.h"

#include <algorithm>
#include <limits>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// A layer whose INT8 form is at least this much of its f32 time gains nothing by it.
constexpr double kNoFaster = 0.99;
/// Times that differ by less are the same: what measuring can tell apart.
constexpr double kSameTime = 1.01;
constexpr double kUniformUntil = 0.8, kGrownUntil = 0.9,
                 kPointsUntil = 0.95;  // of the time, for points beside the chosen one

/// Steps from uniform INT8 that alone take a larger share of its time are not tried.
constexpr double kTried = 0.01;
constexpr std::string_view kNoneKeeps =
    "no policy that fits keeps the accuracy limits on the search samples; the most accurate one "
    "that fits was taken";

bool Uses(const FrontPoint& p, Precision precision) {
  return std::any_of(p.policy.begin(), p.policy.end(),
                     [&](const auto& l) { return l.second.precision == precision; });
}

}  // namespace

Status FrontSearch::Uniform() {
  m_.Plan(2 * static_cast<int64_t>(o_.precisions.size()));
  INFER_ASSIGN(samples_, timer_.SamplesPerPoint());
  for (const Precision p : o_.precisions) {
    FrontPoint point;
    point.name = Cat("uniform ", Name(p));
    point.policy = m_.model.Uniform(p);
    if (p != Precision::kF32 && !Uses(point, p)) continue;  // no layer allows it
    INFER_TRY(
        Verify(point, p == Precision::kInt8 || p == Precision::kF32 ? kAlways : kUniformUntil));
    if (p == Precision::kInt8) int8_error_ = ErrorOf(point.score, result_.measure);
    result_.uniform.push_back(std::move(point));
  }
  for (FrontPoint& p : result_.uniform) p.within_limits = IsWithin(p);
  return {};
}

FrontPoint FrontSearch::PointOf(const Assignment& a) const {
  FrontPoint point;
  point.name = "front";
  point.predicted = a.total;
  for (size_t l = 0; l < db_.layers.size(); ++l) {
    const LayerRecord& layer = db_.layers[l];
    int at = a.choice[l];
    for (size_t o = 0; o < layer.options.size(); ++o)
      if (layer.options[o].usable() && at-- == 0)
        point.policy[layer.layer.key] = {layer.options[o].precision, {}};
  }
  return point;
}

bool FrontSearch::IsWithin(const FrontPoint& p) const {
  if (!p.verified || !Fits(p.bytes)) return false;
  if (o_.limits.max_drop || LimitsOutputs(o_.limits)) return Keeps(p.score, o_.limits);
  return !int8_error_ || ErrorOf(p.score, result_.measure) <= *int8_error_;
}

Status FrontSearch::Verify(FrontPoint& point, double until) {
  INFER_ASSIGN(const MixedGraph g, m_.model.Apply(point.policy));
  point.bytes = ConstantBytesOf(g.graph);
  const std::string key = PolicyKey(point.policy);
  INFER_ASSIGN(const auto score, m_.ScoreOf(key, point.policy, samples_, until));
  point.verified = score.has_value();
  if (score) {
    point.score = *score;
    INFER_ASSIGN(point.ms, timer_.WholeTime(Cat("time of ", key), point.policy, until, 4));
  }
  point.within_limits = IsWithin(point);
  return {};
}

void FrontSearch::Solve() {
  const std::vector<std::vector<LayerCost>> costs = db_.Costs();
  const ChainTerms chain = db_.Chain();
  const auto add = [&](const std::vector<std::vector<LayerCost>>& some) {
    for (Assignment& a : SolvePrecisions(some, {}, &chain)) {
      a.total = TotalOf(costs, a.choice, &chain);
      a.total.bytes += db_.other_bytes;
      a.total.ms += db_.other_ms;
      assignments_.push_back(std::move(a));
    }
  };
  // Of all three numbers, and of two at a time, where buckets are finer.
  for (const bool with_bytes : {true, false})
    for (const bool with_ms : {true, false}) {
      if (!with_bytes && !with_ms) continue;  // f32
      if (with_ms && o_.goal == SearchGoal::kSize) continue;
      std::vector<std::vector<LayerCost>> some = costs;
      for (auto& layer : some)
        for (LayerCost& c : layer) c = {c.error, with_bytes ? c.bytes : 0, with_ms ? c.ms : 0};
      add(some);
    }
  std::stable_sort(
      assignments_.begin(), assignments_.end(), [](const Assignment& a, const Assignment& b) {
        return std::pair(a.total.bytes, a.total.error) < std::pair(b.total.bytes, b.total.error);
      });
}

Status FrontSearch::Add(const Assignment& a, double until, FrontPoint** added) {
  *added = nullptr;
  FrontPoint p = PointOf(a);
  for (auto* points : {&result_.front, &result_.uniform})
    for (FrontPoint& q : *points)
      if (PolicyKey(q.policy) == PolicyKey(p.policy)) {
        *added = &q;
        return {};
      }
  INFER_TRY(Verify(p, until));
  if (!p.verified) return {};
  result_.front.push_back(std::move(p));
  *added = &result_.front.back();
  return {};
}

/// The furthest point that keeps the limits, found by halving, every tried point by running it.
Status FrontSearch::AddCut(std::vector<Assignment> ranked) {
  std::stable_sort(ranked.begin(), ranked.end(), [&](const Assignment& a, const Assignment& b) {
    return std::pair(a.total.error, Goal(a.total)) < std::pair(b.total.error, Goal(b.total));
  });
  double best = std::numeric_limits<double>::infinity();
  std::erase_if(ranked, [&](const Assignment& a) {
    if (Goal(a.total) >= best) return true;
    best = Goal(a.total);
    return false;
  });
  const bool any = std::any_of(result_.uniform.begin(), result_.uniform.end(),
                               [](const FrontPoint& p) { return p.within_limits; });
  size_t lo = 0, hi = ranked.size();  // [0, lo) keeps the limits as far as is known
  while (lo < hi) {
    const size_t middle = lo + (hi - lo) / 2;
    FrontPoint* p = nullptr;
    INFER_TRY(Add(ranked[middle], middle == 0 && !any ? kAlways : 1, &p));
    const bool keeps = p && p->within_limits;
    (keeps ? lo : hi) = keeps ? middle + 1 : middle;
  }
  return {};
}

/// What stands against each uniform policy: the least error in no more bytes; the same in no more
/// time, too, and, since times are predicted, in a little more and less; and the least time.
std::vector<const Assignment*> FrontSearch::AgainstUniform() const {
  std::vector<const Assignment*> wanted;
  for (const FrontPoint& p : result_.uniform) {
    const auto least = [&](double ms, auto&& of) {
      const Assignment* best = nullptr;
      for (const Assignment& a : assignments_)
        if (a.total.bytes <= p.bytes && a.total.ms <= ms && (!best || of(a) < of(*best))) best = &a;
      return best;
    };
    const auto error = [](const Assignment& a) { return a.total.error; };
    wanted.push_back(least(std::numeric_limits<double>::infinity(), error));
    // A search for size does not depend on what times happened to be.
    if (Uses(p, Precision::kF32) || o_.goal == SearchGoal::kSize) continue;
    for (const double share : {0.97, 0.99, 1.0, 1.01, 1.03})
      wanted.push_back(least(share * p.predicted.ms, error));
    wanted.push_back(least(std::numeric_limits<double>::infinity(), [&](const Assignment& a) {
      return a.total.error <= 0.9 * p.predicted.error ? a.total.ms
                                                      : std::numeric_limits<double>::infinity();
    }));
  }
  return wanted;
}

/// From uniform INT8, layer by layer: what errs less in no more bytes is taken where the whole
/// model, timed with it, takes no longer. The solver adds costs; which layers kernels still compute
/// in integers depends on more than the neighbour.
Status FrontSearch::Grow() {
  const auto int8 =
      std::find_if(result_.uniform.begin(), result_.uniform.end(),
                   [](const FrontPoint& p) { return p.name == "uniform int8" && p.ms; });
  if (int8 == result_.uniform.end() || o_.goal == SearchGoal::kSize) return {};
  struct Step {
    const LayerRecord* layer;
    const LayerOption* to;
    double gain;
  };
  std::vector<Step> steps;
  for (const LayerRecord& layer : db_.layers) {
    const LayerOption* from = layer.Find(Precision::kInt8);
    if (!from || !from->measured) continue;
    for (const LayerOption& o : layer.options)
      if (o.measured && o.cost.bytes < from->cost.bytes && o.cost.error < from->cost.error &&
          o.cost.ms <= from->cost.ms + kTried * *int8->ms)
        steps.push_back({&layer, &o, from->cost.error - o.cost.error});
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.gain > b.gain; });
  m_.Plan(static_cast<int64_t>(steps.size()) + 3);
  FrontPoint grown = *int8;
  grown.name = "front";
  size_t taken = 0;
  const auto add = [&]() -> Status {
    FrontPoint p = grown;
    p.predicted = db_.TotalOf(p.policy);
    INFER_TRY(Verify(p, kPointsUntil));
    if (p.verified) result_.front.push_back(std::move(p));
    return {};
  };
  for (const Step& step : steps) {
    LayerPolicy& choice = grown.policy[step.layer->layer.key];
    if (choice.precision != Precision::kInt8) continue;
    choice = {step.to->precision, {}};
    INFER_ASSIGN(const auto ms, timer_.WholeTime(Cat("grown ", PolicyKey(grown.policy)),
                                                 grown.policy, kGrownUntil));
    std::optional<Score> score;
    if (ms && *ms <= kSameTime * *int8->ms) {
      INFER_ASSIGN(score, m_.ScoreOf(PolicyKey(grown.policy), grown.policy, samples_, kGrownUntil));
    }
    // A layer that is stored in 8 bits may still be computed in integers: then nothing is gained.
    if (!score || ErrorOf(*score, result_.measure) >= ErrorOf(grown.score, result_.measure)) {
      choice = {Precision::kInt8, {}};
      continue;
    }
    grown.score = *score;
    if (++taken == 1 || taken == 3) INFER_TRY(add());
  }
  return taken > 0 ? add() : Status();
}

/// Those, and points along the front of bytes and error, for whoever wants to choose otherwise.
Status FrontSearch::AddOthers() {
  std::vector<const Assignment*> wanted = AgainstUniform(), by_size;
  for (const Assignment& a : assignments_)  // by bytes
    if (by_size.empty() || a.total.error < by_size.back()->total.error) by_size.push_back(&a);
  for (int k = 0; k < o_.front_points && !by_size.empty(); ++k)
    wanted.push_back(by_size[(by_size.size() - 1) * static_cast<size_t>(k) /
                             static_cast<size_t>(std::max(1, o_.front_points - 1))]);
  m_.Plan(2 * static_cast<int64_t>(wanted.size()));
  FrontPoint* p = nullptr;
  for (const Assignment* a : wanted)
    if (a) INFER_TRY(Add(*a, kPointsUntil, &p));
  return {};
}

Status FrontSearch::Choose() {
  for (FrontPoint& p : result_.uniform) p.predicted = db_.TotalOf(p.policy);
  Solve();
  std::vector<Assignment> fitting;
  for (const Assignment& a : assignments_)
    if (Fits(a.total.bytes)) fitting.push_back(a);
  INFER_TRY(AddCut(std::move(fitting)));
  INFER_TRY(Grow());
  INFER_TRY(AddOthers());
  INFER_TRY(Take());
  std::stable_sort(result_.front.begin(), result_.front.end(),
                   [](const FrontPoint& a, const FrontPoint& b) { return a.bytes < b.bytes; });
  Compare();
  return {};
}

Status FrontSearch::Take() {
  std::optional<FrontPoint> chosen;
  const FrontPoint* least_error = nullptr;
  double best = std::numeric_limits<double>::infinity();
  for (const auto* points : {&result_.front, &result_.uniform})
    for (const FrontPoint& p : *points) {
      if (!p.verified) continue;
      if (Fits(p.bytes) && (!least_error || ErrorOf(p.score, result_.measure) <
                                                ErrorOf(least_error->score, result_.measure)))
        least_error = &p;
      if (p.within_limits) best = std::min(best, Goal(p));
    }
  // Of what is as fast, the smallest.
  const double same = o_.goal == SearchGoal::kLatency ? kSameTime : 1;
  for (const auto* points : {&result_.front, &result_.uniform})
    for (const FrontPoint& p : *points)
      if (p.within_limits && Goal(p) <= same * best && (!chosen || p.bytes < chosen->bytes))
        chosen = p;
  if (!chosen) {
    if (!least_error)
      return Unsupported(Cat("no policy fits into ", HumanBytes(*o_.max_bytes),
                             " of constants; the smallest has ",
                             HumanBytes(assignments_.front().total.bytes)));
    chosen = *least_error;
    result_.warnings.emplace_back(kNoneKeeps);
  }
  chosen->name = "chosen";
  result_.chosen = *std::move(chosen);
  return {};
}

/// Which points are as good as a uniform policy in everything that was measured.
void FrontSearch::Compare() {
  const auto error = [&](const FrontPoint& p) { return ErrorOf(p.score, result_.measure); };
  const auto compare = [&](FrontPoint& p) {
    for (const FrontPoint& u : result_.uniform) {
      if (!u.verified || !u.ms || !p.ms || PolicyKey(u.policy) == PolicyKey(p.policy)) continue;
      const bool no_worse =
          p.bytes <= u.bytes && error(p) <= error(u) && *p.ms <= kSameTime * *u.ms;
      const bool better = p.bytes < u.bytes || error(p) < error(u) || kSameTime * *p.ms < *u.ms;
      if (no_worse && better) p.beats.push_back(u.name);
    }
  };
  for (FrontPoint& p : result_.front) compare(p);
  compare(result_.chosen);
}

std::string FrontSearch::WhyNotInt8(const LayerRecord& layer) const {
  const LayerOption* int8 = layer.Find(Precision::kInt8);
  if (!int8) {
    const auto it = layer.layer.refused.find(Precision::kInt8);
    return it == layer.layer.refused.end() ? "INT8 was not asked for" : it->second;
  }
  const double f32 = layer.options[0].cost.ms;
  const std::string times = Cat("INT8 takes ", Rounded(int8->cost.ms, 3), " ms, FP32 between ",
                                "integer layers ", Rounded(f32, 3), " ms");
  if (int8->cost.ms >= kNoFaster * f32) return Cat("INT8 is not faster: ", times);
  if (!int8->usable()) return Cat("time was up before INT8 was scored; ", times);
  return Cat("INT8 costs ",
             Rounded(100 * int8->cost.error / std::max(int8_error_.value_or(0), 1e-300), 3),
             " % of the error of uniform INT8; ", times);
}

void FrontSearch::Explain() {
  for (const LayerRecord& layer : db_.layers) {
    LayerPolicy& choice = result_.chosen.policy[layer.layer.key];
    if (choice.precision != Precision::kInt8) choice.reason = WhyNotInt8(layer);
  }
}

}  // namespace infer
