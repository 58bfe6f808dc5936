#include "tools/infer_bench/tune/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/infer_bench/tune/trials.h"

namespace infer::bench {
namespace {

constexpr double kScreeningShare = 0.4, kConfirmingShare = 0.6;  // of the budget, at most
constexpr double kScreeningS = 0.15;
/// A capacity below this share of the rate is no noise.
constexpr double kCapacityShare = 0.9;
constexpr size_t kFirstRound = 8, kFinalists = 2;
constexpr int kMostConfirmations = 5;
/// With just enough queries for a percentile none may lie beyond its limit. So many times as many
/// let 0.5 % of them do so, for p99.
constexpr double kQueriesFactor = 4;
constexpr double kConfirmS = 3, kRoundS = 0.5;  // at least, where the budget allows it

/// Settings that differ in their batch only, in ascending order of it.
struct Chain {
  std::vector<size_t> items;
  size_t next = 0;
  double samples_per_s = std::numeric_limits<double>::infinity();  ///< of the last one measured
  bool done() const { return next == items.size(); }
};

std::vector<Chain> ChainsOf(Trials& t) {
  std::map<std::tuple<std::string, std::string, int, int>, size_t> known;
  std::vector<Chain> chains;
  for (size_t i = 0; i < t.size(); ++i) {
    const TuneSetting& s = t.at(i).setting;
    const auto [it, fresh] =
        known.emplace(std::tuple(s.variant, s.precision, s.threads, s.lanes), chains.size());
    if (fresh) chains.emplace_back();
    chains[it->second].items.push_back(i);
  }
  for (Chain& c : chains)
    std::stable_sort(c.items.begin(), c.items.end(), [&](size_t a, size_t b) {
      const TuneSetting &one = t.at(a).setting, &other = t.at(b).setting;
      return std::tie(one.batch, one.max_batch) < std::tie(other.batch, other.max_batch);
    });
  return chains;
}

/// Queries that show beyond doubt that every percentile is missed, when all of them take too long.
int64_t ScreeningQueries(const Slo& slo) {
  double q = 1;
  for (const SloLimit& limit : slo) q = std::min(q, limit.q);
  return std::max<int64_t>(3, std::llround(std::ceil(std::log(kSloDoubt) / std::log(1 - q))));
}

/// What a closed loop says of an open one: it cannot answer more than that, and other lanes slow a
/// query at most as many times as there are lanes. Behind the engine a query that comes alone has a
/// run of its own, of which the full runs of the closed loop say nothing.
bool JudgeScreened(Trials& t, TuneCandidate& c) {
  if (!t.open_loop()) return t.JudgeBy(c, c.closed, t.options().slo);
  if (c.samples_per_s() < kCapacityShare * t.options().rate) {
    c.fate = Fate::kMisses;
    c.reason = Cat("answers ", Rounded(c.samples_per_s(), 4), " samples/s, ",
                   Rounded(t.options().rate, 4), " come");
    return true;
  }
  if (c.setting.max_batch > 0) return false;
  Slo slo = t.options().slo;
  for (SloLimit& limit : slo)
    limit.ms = c.gather_ms + std::max(0.0, limit.ms - c.gather_ms) * c.setting.lanes;
  return t.JudgeBy(c, c.closed, slo);
}

void SpreadInaccuracy(Trials& t, const TuneCandidate& of) {
  for (size_t i = 0; i < t.size(); ++i) {
    TuneCandidate& c = t.at(i);
    if (c.setting.variant != of.setting.variant || c.setting.precision != of.setting.precision ||
        c.fate != Fate::kOpen)
      continue;
    c.fate = Fate::kInaccurate;
    c.reason = of.reason;
    c.sqnr_db = of.sqnr_db;
  }
}

Status ScreenNext(Trials& t, Chain& chain) {
  const size_t i = chain.items[chain.next++];
  TuneCandidate& c = t.at(i);
  if (c.fate != Fate::kOpen) return {};
  const int64_t queries = ScreeningQueries(t.options().slo);
  INFER_TRY(t.Measure(i,
                      {.seconds = kScreeningS,
                       .queries = queries,
                       .max_seconds = std::max(kRoundS, t.options().budget_s / 20)},
                      &TuneCandidate::closed));
  if (c.fate == Fate::kInaccurate) SpreadInaccuracy(t, c);
  if (c.closed.queries() == 0) return {};
  chain.samples_per_s = c.samples_per_s();
  const bool saturated = t.open_loop() && c.samples_per_s() < kCapacityShare * t.options().rate;
  if (!JudgeScreened(t, c) || saturated) return {};  // a larger batch may answer more
  for (; !chain.done(); ++chain.next) {
    TuneCandidate& larger = t.at(chain.items[chain.next]);
    if (larger.fate != Fate::kOpen) continue;
    larger.fate = Fate::kMisses;
    larger.reason = Cat("not measured: batch ",
                        c.setting.max_batch > 0 ? c.setting.max_batch : c.batch, " misses already");
  }
  return {};
}

/// Seconds in which there are `factor` times the queries that the percentiles ask for.
double SecondsFor(const Trials& t, const TuneCandidate& c, double factor) {
  const double per_s = t.QueriesPerS(c);
  return per_s > 0 ? factor * static_cast<double>(QueriesFor(t.options().slo)) / per_s : 0;
}

Status MeasureMore(Trials& t, size_t i, double seconds) {
  TuneCandidate& c = t.at(i);
  TrialPlan plan{.seconds = seconds, .max_seconds = seconds};
  if (t.open_loop()) {
    plan.seconds = plan.max_seconds = seconds / 2;
    INFER_TRY(t.Measure(i, plan, &TuneCandidate::closed));
    plan.open_loop = true;
    INFER_TRY(t.Measure(i, plan, &TuneCandidate::open));
  } else {
    INFER_TRY(t.Measure(i, plan, &TuneCandidate::closed));
  }
  t.JudgeBy(c, t.OfSlo(c), t.options().slo);
  return {};
}

Status ConfirmPart(Trials& t, size_t i, double seconds) {
  if (t.over()) return {};
  t.at(i).confirming = true;
  return t.Measure(i, {.open_loop = t.open_loop(), .seconds = seconds, .max_seconds = seconds},
                   &TuneCandidate::confirmed);
}

/// Meets, misses, or stays open with the reason.
bool JudgeConfirmed(Trials& t, TuneCandidate& c) {
  const Evidence& e = c.confirmed;
  if (Meets(t.options().slo, e, c.gather_ms)) {
    c.fate = Fate::kMeets;
    return true;
  }
  if (t.JudgeBy(c, e, t.options().slo)) return false;
  const SloLimit& limit = t.options().slo.front();
  const Percentile p = e.latency().AtQuantile(limit.q);
  c.reason = p.upper ? Cat("not confirmed: ", limit.name, " is at most ",
                           Rounded(*p.upper + c.gather_ms, 4), " ms, by ", e.queries(), " queries")
                     : Cat("not confirmed: ", limit.name, " needs ", QueriesFor(t.options().slo),
                           " queries, the budget had time for ", e.queries());
  return false;
}

}  // namespace

Status Screen(Trials& t) {
  std::vector<Chain> chains = ChainsOf(t);
  // First the smallest batch of each chain, then where the most samples were answered.
  while (!t.over() && t.used_s() < kScreeningShare * t.options().budget_s) {
    Chain* best = nullptr;
    for (Chain& c : chains)
      if (!c.done() && (!best || c.samples_per_s > best->samples_per_s)) best = &c;
    if (!best) break;
    INFER_TRY(ScreenNext(t, *best));
  }
  return {};
}

Status Halve(Trials& t) {
  for (size_t round = kFirstRound; round > kFinalists; round /= 2) {
    std::vector<size_t> ranked = t.Ranked();
    if (ranked.size() <= kFinalists) break;
    const double confirm_s =
        kFinalists * std::max(kConfirmS, SecondsFor(t, t.at(ranked.front()), kQueriesFactor));
    const double reserve_s = std::min(confirm_s, kConfirmingShare * t.options().budget_s);
    ranked.resize(std::min(ranked.size(), round));
    // This round and the smaller ones share what is left alike.
    const double rounds = std::max(1.0, std::log2(static_cast<double>(round) / kFinalists));
    const double share = (t.left_s() - reserve_s) / rounds / static_cast<double>(ranked.size());
    for (size_t i : ranked) {
      const double enough = std::max(kRoundS, SecondsFor(t, t.at(i), 1));
      if (share <= 0 || t.over()) return {};
      INFER_TRY(MeasureMore(t, i, std::min(share, enough)));
    }
  }
  return {};
}

Status Confirm(Trials& t) {
  for (int tried = 0; tried < kMostConfirmations && !t.over();) {
    std::vector<size_t> next = t.Ranked();
    if (next.empty()) break;
    const TuneCandidate& best = t.at(next.front());
    // Two at first, where there is time for both; else the best gets what there is.
    const bool two =
        tried == 0 && next.size() > 1 &&
        SecondsFor(t, best, kQueriesFactor) + SecondsFor(t, t.at(next[1]), kQueriesFactor) <
            t.left_s();
    next.resize(two ? 2 : 1);
    std::vector<double> seconds;
    double sum = 0;
    for (size_t i : next) {
      seconds.push_back(std::max(kConfirmS, SecondsFor(t, t.at(i), kQueriesFactor)));
      sum += seconds.back();
    }
    for (double& s : seconds) s *= std::min(1.0, t.left_s() / sum);
    // In turns (A B B A): a machine that becomes slower must not count for one of them.
    for (size_t k : two ? std::vector<size_t>{0, 1, 1, 0} : std::vector<size_t>{0})
      INFER_TRY(ConfirmPart(t, next[k], two ? seconds[k] / 2 : seconds[k]));
    bool met = false;
    for (size_t i : next)
      if (t.at(i).confirming) met |= JudgeConfirmed(t, t.at(i));
    if (met) break;
    tried += static_cast<int>(next.size());
  }
  return {};
}

}  // namespace infer::bench
