#include "tools/infer_bench/tune/trials.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer::bench {
namespace {

/// Of one measurement.
constexpr int64_t kMostQueriesAtOnce = 50'000;
/// Seen with at least this probability if the SLO were just met, queries beyond it say nothing.
constexpr double kUnremarkable = 0.2;
/// Behind an open loop, so many times the longest limit are answers waited for.
constexpr double kDrainLimits = 2;

bool IsOfSetting(const Status& s) {
  return s.code() == Code::kInvalidArgument || s.code() == Code::kUnsupported ||
         s.code() == Code::kResource;
}

double LongestLimitMs(const Slo& slo) {
  double ms = 0;
  for (const SloLimit& limit : slo) ms = std::max(ms, limit.ms);
  return ms;
}

/// Of the limit that speaks most clearly. Pre: there is one.
std::string WhyMissed(const TuneCandidate& c, const Evidence& e, const Slo& slo) {
  const auto chance = [&](const SloLimit& limit) {
    const int64_t beyond = e.latency().CountAbove(limit.ms - c.gather_ms);
    return TailProbability(e.queries(), beyond, limit.q);
  };
  const auto worst =
      std::min_element(slo.begin(), slo.end(),
                       [&](const SloLimit& a, const SloLimit& b) { return chance(a) < chance(b); });
  const double limit_ms = worst->ms - c.gather_ms;
  if (limit_ms <= 0)
    return Cat(worst->name, ": until a batch has come takes ", Rounded(c.gather_ms, 3), " ms");
  return Cat(worst->name, ": ", e.latency().CountAbove(limit_ms), " of ", e.queries(),
             " queries took more than ", Rounded(limit_ms, 4), " ms");
}

}  // namespace

std::string TuneSetting::Name() const {
  return Cat(variant.empty() ? Cat("precision:", precision) : Cat("variant:", variant),
             "/threads:", threads, batch > 0 ? Cat("/batch:", batch) : std::string(),
             max_batch > 0 ? Cat("/max-batch:", max_batch) : std::string(), "/lanes:", lanes);
}

std::string_view Name(Fate f) {
  switch (f) {
    case Fate::kOpen: return "open";
    case Fate::kChosen: return "chosen";
    case Fate::kMeets: return "meets";
    case Fate::kSlower: return "slower";
    case Fate::kMisses: return "misses";
    case Fate::kInaccurate: return "inaccurate";
    case Fate::kUnavailable: return "unavailable";
  }
  return "";
}

std::string_view Name(TuneVerdict v) {
  switch (v) {
    case TuneVerdict::kMet: return "met";
    case TuneVerdict::kNotMet: return "not met";
    case TuneVerdict::kInconclusive: return "inconclusive";
  }
  return "";
}

Trials::Trials(std::vector<TuneSetting> settings, TuneTarget& target, const TuneOptions& options,
               const std::function<void(const TuneResult&)>& observe)
    : target_(target), options_(options), observe_(observe), start_s_(target.NowS()) {
  for (TuneSetting& s : settings) result_.candidates.push_back({.setting = std::move(s)});
}

Result<OpenedSetting> Trials::Open(TuneCandidate& c) {
  const std::optional<double>& loss = c.setting.accuracy_loss;
  if (loss && !(*loss <= options_.max_drop)) {
    c.fate = Fate::kInaccurate;
    c.reason = Cat("loses ", Rounded(100 * *loss, 3), " points of accuracy, more than ",
                   Rounded(100 * options_.max_drop, 3));
    return OpenedSetting{};
  }
  auto opened = target_.Open(c.setting);
  if (!opened.ok()) {
    if (options_.stop.stop_requested()) return OpenedSetting{};
    if (!IsOfSetting(opened.status())) return opened.status();
    if (first_failure_.ok()) first_failure_ = opened.status();
    c.fate = Fate::kUnavailable;
    c.reason = opened.status().message();
    return OpenedSetting{};
  }
  c.batch = opened->batch;
  c.gather_ms = GatherMs(options_.slo, c.batch, options_.rate);
  c.sqnr_db = opened->sqnr_db;
  if (!loss && c.sqnr_db && !(*c.sqnr_db >= options_.min_sqnr_db)) {
    c.fate = Fate::kInaccurate;
    c.reason = Cat("SQNR ", Rounded(*c.sqnr_db, 3), " dB is below ",
                   Rounded(options_.min_sqnr_db, 3), " dB");
  }
  return opened;
}

Status Trials::Measure(size_t i, const TrialPlan& plan, Evidence TuneCandidate::*into) {
  TuneCandidate& c = at(i);
  INFER_ASSIGN(const OpenedSetting opened, Open(c));
  if (!opened.engine || c.fate == Fate::kInaccurate) return {};
  const int in_flight = opened.in_flight > 0 ? opened.in_flight : opened.engine->lanes();
  LoadOptions load;
  load.seed = options_.seed + static_cast<uint64_t>(++result_.measurements);
  load.samples_per_query = c.batch;
  load.concurrency = in_flight;
  load.drain_s = options_.budget_s;  // a closed loop has few queries to wait for
  if (plan.open_loop) {
    load.arrivals = Arrivals::kPoisson;
    load.rate = options_.rate / static_cast<double>(c.batch);
    load.drain_s = kDrainLimits * LongestLimitMs(options_.slo) / 1e3;
  }
  const double most_s = std::max(0.0, std::min(plan.max_seconds, left_s()));
  load.duration_s = std::min(plan.seconds, most_s);
  load.max_duration_s = most_s;
  load.min_queries = plan.queries;
  load.max_queries = load.keep = kMostQueriesAtOnce;
  load.stop = options_.stop;
  INFER_ASSIGN(const LoadResult r, Drive(*opened.engine, load));
  (c.*into).Add(r, c.batch, plan.open_loop ? 0 : in_flight);
  if (observe_) {
    result_.seconds = used_s();
    observe_(result_);
  }
  return {};
}

bool Trials::JudgeBy(TuneCandidate& c, const Evidence& e, const Slo& slo) const {
  if (e.queries() == 0 || Plausibility(slo, e, c.gather_ms) > kSloDoubt) return false;
  c.fate = Fate::kMisses;
  c.reason = WhyMissed(c, e, slo);
  return true;
}

double Trials::QueriesPerS(const TuneCandidate& c) const {
  const double samples = open_loop() ? options_.rate : c.samples_per_s();
  return c.batch > 0 ? samples / static_cast<double>(c.batch) : 0;
}

double Trials::Score(const TuneCandidate& c) const {
  const double plausibility = Plausibility(options_.slo, OfSlo(c), c.gather_ms);
  return c.samples_per_s() * std::min(1.0, plausibility / kUnremarkable);
}

std::vector<size_t> Trials::Ranked() const {
  std::vector<std::pair<double, size_t>> scored;
  for (size_t i = 0; i < size(); ++i) {
    const TuneCandidate& c = result_.candidates[i];
    if (c.fate == Fate::kOpen && !c.confirming && c.closed.queries() > 0)
      scored.emplace_back(-Score(c), i);
  }
  std::sort(scored.begin(), scored.end());
  std::vector<size_t> out;
  for (const auto& [score, i] : scored) out.push_back(i);
  return out;
}

void Trials::Choose() {
  double most = 0;
  for (size_t i = 0; i < size(); ++i) {
    const TuneCandidate& c = at(i);
    if (c.fate != Fate::kMeets) continue;
    const double samples = open_loop() ? c.samples_per_s() : c.confirmed.samples_per_s();
    if (samples > most) result_.chosen = i;
    most = std::max(most, samples);
  }
  if (result_.chosen) at(*result_.chosen).fate = Fate::kChosen;
}

void Trials::Explain(TuneCandidate& c) const {
  const bool measured = c.closed.queries() > 0;
  if (c.fate == Fate::kChosen) {
    c.reason = "confirmed";
  } else if (!measured && c.fate == Fate::kOpen) {
    c.reason = options_.stop.stop_requested() ? "not measured: stopped"
                                              : "not measured: the budget was used up";
  } else if (result_.chosen && (c.fate == Fate::kOpen || c.fate == Fate::kMeets)) {
    const TuneCandidate& best = result_.candidates[*result_.chosen];
    const double ratio = c.samples_per_s() / best.samples_per_s();
    const double percent = 100 * (1 - ratio);
    if (c.fate == Fate::kOpen && c.confirming) {
      // Its fresh measurement left the SLO open, and says so.
    } else if (ratio < 1) {
      if (c.fate == Fate::kOpen) c.fate = Fate::kSlower;
      c.reason = Cat(Rounded(percent, 2), " % fewer samples/s than the choice");
    } else if (c.fate == Fate::kOpen) {
      c.reason = "likelier to miss the SLO than what was confirmed";
    } else {
      c.reason = "no faster than the choice when it was confirmed";
    }
  }
}

void Trials::Conclude() {
  TuneResult& r = result_;
  if (r.chosen) {
    r.verdict = TuneVerdict::kMet;
    return;
  }
  const auto count = [&](Fate f) {
    return std::count_if(r.candidates.begin(), r.candidates.end(),
                         [&](const TuneCandidate& c) { return c.fate == f; });
  };
  const auto open = count(Fate::kOpen), missing = count(Fate::kMisses);
  if (open == 0) {
    r.verdict = TuneVerdict::kNotMet;
    r.reason = missing == 0 ? "no setting is accurate enough"
                            : Cat("all ", missing, " settings that can be had miss the SLO");
    return;
  }
  if (const auto ranked = Ranked(); !ranked.empty()) r.best_guess = ranked.front();
  double score = -1;
  for (size_t i = 0; i < size() && !r.best_guess; ++i)
    if (at(i).fate == Fate::kOpen && at(i).closed.queries() > 0 && Score(at(i)) > score) {
      score = Score(at(i));
      r.best_guess = i;
    }
  r.reason = r.interrupted
                 ? "interrupted"
                 : Cat("no setting could be confirmed within ", Rounded(options_.budget_s, 3),
                       " s, and ", open, " are not known to miss the SLO");
}

TuneResult Trials::Finish() {
  result_.interrupted = options_.stop.stop_requested();
  result_.seconds = used_s();
  Choose();
  for (TuneCandidate& c : result_.candidates) Explain(c);
  Conclude();
  return std::move(result_);
}

Result<TuneResult> Tune(std::vector<TuneSetting> settings, TuneTarget& target,
                        const TuneOptions& options,
                        const std::function<void(const TuneResult&)>& observe) {
  INFER_CHECK(!settings.empty() && !options.slo.empty());
  Trials t(std::move(settings), target, options, observe);
  INFER_TRY(Screen(t));
  INFER_TRY(Halve(t));
  INFER_TRY(Confirm(t));
  TuneResult r = t.Finish();
  const bool any = std::any_of(r.candidates.begin(), r.candidates.end(),
                               [](const auto& c) { return c.fate != Fate::kUnavailable; });
  if (!any) return t.first_failure();
  return r;
}

}  // namespace infer::bench
