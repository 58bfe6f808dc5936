#include "runtime/engine/recommend.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer::engine {
namespace {

constexpr int64_t kLeastRequests = 200;  // that ended, before anything is said
constexpr int64_t kLeastRuns = 30;       // of so many rows, before their time counts
constexpr double kBusy = 0.9;            // share of time that instances run: no room is left
constexpr double kNsPerMs = 1e6;
constexpr double kTwoSided = 1.96;  // of a normal distribution: 95 %

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string Limit(int64_t n) { return n == kNever ? "no limit" : Cat(n); }

/// Mean time for a row of runs of so many, with its 95 % interval, in ns.
struct PerRow {
  int64_t rows = 0;
  double mean = 0, low = 0, high = 0;
};

class Adviser {
 public:
  explicit Adviser(const Observed& o) : o_(o) {
    const ModelStats& s = o.stats;
    for (const auto& [rows, t] : s.run_times) {
      busy_ns_ += t.mean * static_cast<double>(t.runs);
      if (t.runs < kLeastRuns) continue;
      const auto n = static_cast<double>(rows);
      const double error = kTwoSided * t.standard_error();
      per_row_.push_back(
          {rows, t.mean / n, std::max(0.0, t.mean - error) / n, (t.mean + error) / n});
    }
    for (int64_t n : s.ends) ended_ += n;
    const double wall = o.seconds * 1e9 * o.instances;
    busy_ = wall > 0 ? std::min(1.0, busy_ns_ / wall) : 0;
    queue_ms_ = Ms(Phase::kQueue, 0.5);
    compute_ms_ = Ms(Phase::kCompute, 0.5);
    waits_ = queue_ms_ > 0.5 * compute_ms_;
  }

  Advised Advise() {
    Advised a;
    if (ended_ < kLeastRequests) {
      a.none = Cat("too few requests: ", ended_, " of ", kLeastRequests);
      return a;
    }
    // A setting that costs throughput is put right before capacity is added.
    if (auto r = SlowerRows()) {
      a.recommendations.push_back(*std::move(r));
    } else if (auto more = Capacity()) {
      a.recommendations.push_back(*std::move(more));
    }
    for (auto rule : {&Adviser::UselessDelay, &Adviser::Queue, &Adviser::Shapes, &Adviser::Memory})
      if (auto r = (this->*rule)()) a.recommendations.push_back(*std::move(r));
    if (a.recommendations.empty()) a.none = Nothing();
    return a;
  }

 private:
  double Ms(Phase p, double q) const {
    return o_.stats.times.total.by[EndIndex(State::kSucceeded)][static_cast<size_t>(p)].Quantile(
               q) /
           kNsPerMs;
  }
  bool saturated() const { return busy_ >= kBusy && waits_; }
  double FiredShare(Fired f) const {
    return Share(o_.stats.fired[static_cast<size_t>(f)], o_.stats.runs);
  }
  double EndShare(State s) const { return Share(o_.stats.ends[EndIndex(s)], ended_); }
  Evidence Busy() const { return {"share of time that instances run", busy_}; }
  Evidence Waiting() const { return {"median ms in the queue", queue_ms_}; }
  Evidence Computing() const { return {"median ms of a run", compute_ms_}; }
  static Evidence TimePerRow(const PerRow& p) {
    return {Cat("ms for a row in runs of ", p.rows), p.mean / kNsPerMs};
  }

  /// Of runs that are wholly batches, the fewest rows whose time for a row is least.
  std::optional<Recommendation> SlowerRows() const {
    if (o_.batch.max_rows <= 1 || o_.batch.adapts || per_row_.size() < 2) return std::nullopt;
    const PerRow& most = per_row_.back();
    const PerRow& best =
        *std::min_element(per_row_.begin(), per_row_.end(),
                          [](const PerRow& a, const PerRow& b) { return a.mean < b.mean; });
    if (best.high >= most.low || most.mean < 1.03 * best.mean) return std::nullopt;
    return Recommendation{
        Setting::kAdapts,
        "false",
        "true",
        Cat("A row takes longer in runs of ", most.rows, " than of ", best.rows,
            ": runs should be as large as measured times say."),
        {TimePerRow(best), TimePerRow(most), {Cat("runs of ", most.rows), RunsOf(most.rows)}},
        saturated() ? std::optional(Gain{Gain::Of::kThroughput, 0, most.high / best.low - 1})
                    : std::nullopt};
  }

  /// What serves more requests, where instances have no time left.
  std::optional<Recommendation> Capacity() const {
    if (!saturated()) return std::nullopt;
    if (o_.instances < o_.most_instances) {
      const int to = std::min(2 * o_.instances, o_.most_instances);
      return Recommendation{
          Setting::kInstances,
          Cat(o_.instances),
          Cat(to),
          "All instances run nearly all the time, requests wait, and processors are free.",
          {Busy(), Waiting(), Computing()},
          Gain{Gain::Of::kThroughput, 0, static_cast<double>(to) / o_.instances - 1}};
    }
    if (auto predicted = ByPrediction()) return predicted;
    if (!o_.batchable) return std::nullopt;
    if (o_.batch.max_rows <= 1)
      return Recommendation{Setting::kMaxRows,
                            "1",
                            "8",
                            "Requests wait for busy instances, and could share runs.",
                            {Busy(), Waiting(), Computing()}};
    return MoreRows();
  }

  /// Of how most runs were, what predicted times speak for.
  std::optional<Recommendation> ByPrediction() const {
    if (o_.predicted.empty()) return std::nullopt;
    SeenRuns seen{.max_rows = o_.batch.max_rows, .more_rows = o_.batchable && !ShortOfMemory()};
    int64_t most = 0;
    for (const auto& [rows, t] : o_.stats.run_times)
      if (t.runs >= kLeastRuns && t.runs > most) {
        most = t.runs;
        seen.rows = rows;
        seen.ms = t.mean / kNsPerMs;
      }
    if (o_.timeout_ns != kNever) seen.within_ms = static_cast<double>(o_.timeout_ns) / kNsPerMs;
    const auto change = ChangeByPrediction(o_.predicted, seen);
    if (!change) return std::nullopt;
    Recommendation r = NamedChange(*change, o_.batch.max_rows);
    r.evidence = {Busy(),
                  Waiting(),
                  {"predicted ms of a run now", change->from.ms},
                  {"its usual error", change->from.error},
                  {"predicted ms of a run then", change->to.ms},
                  {"the usual error of that", change->to.error},
                  {"ms of a run that were seen, over predicted ones", change->seen}};
    r.gain = Gain{Gain::Of::kThroughput, change->low, change->high};
    return r;
  }

  static Recommendation NamedChange(const PredictedChange& c, int64_t max_rows) {
    const auto threads = [](const Predicted& p) {
      return Cat(p.threads, " by ", p.instances, " instances");
    };
    switch (c.setting) {
      case PredictedSetting::kRows:
        return {Setting::kMaxRows, Cat(max_rows), Cat(c.to.rows),
                "More rows in a run are predicted to make a row cheaper."};
      case PredictedSetting::kThreads:
        return {Setting::kThreads, threads(c.from), threads(c.to),
                "Runs of so many threads, so many at once, are predicted to answer more."};
      case PredictedSetting::kVariant:
        return {Setting::kVariant, c.from.variant, c.to.variant,
                "It is predicted to take less time; how right it is is not predicted."};
      case PredictedSetting::kPrecision:
        return {Setting::kPrecision, c.from.precision, c.to.precision,
                "It is predicted to take less time; how right it is is not predicted."};
    }
    return {};
  }

  /// Runs are full, and the last doubling of rows made a row cheaper, or has to be tried.
  std::optional<Recommendation> MoreRows() const {
    if (per_row_.empty() || FiredShare(Fired::kFull) < 0.5) return std::nullopt;
    const PerRow& most = per_row_.back();
    const PerRow* half = nullptr;
    for (const PerRow& p : per_row_)
      if (2 * p.rows <= most.rows) half = &p;
    if (!half && !o_.batch.adapts)
      return Recommendation{
          Setting::kAdapts,
          "false",
          "true",
          "All runs are full, so that nobody knows whether other numbers of rows were faster.",
          {Busy(), {"share of runs that were full", FiredShare(Fired::kFull)}, TimePerRow(most)}};
    if (!half || most.rows < o_.batch.max_rows || half->low < 1.05 * most.high) return std::nullopt;
    return Recommendation{Setting::kMaxRows,
                          Cat(o_.batch.max_rows),
                          Cat(2 * o_.batch.max_rows),
                          "Runs are full, and more rows still make a row cheaper.",
                          {Busy(),
                           {"share of runs that were full", FiredShare(Fired::kFull)},
                           TimePerRow(*half),
                           TimePerRow(most)},
                          Gain{Gain::Of::kThroughput, 0, half->high / most.low - 1}};
  }

  /// Requests wait for others that do not come.
  std::optional<Recommendation> UselessDelay() const {
    if (o_.batch.max_delay_ns <= 0 || o_.batch.max_rows <= 1 || busy_ >= 0.5) return std::nullopt;
    const double alone =
        Share(o_.stats.single[static_cast<size_t>(Single::kNoneOther)], o_.stats.runs);
    if (FiredShare(Fired::kWaited) < 0.5 || alone < 0.8) return std::nullopt;
    // Of a slow request that waited shortly, and of a fast one that waited long.
    const auto share = [&](double of_queue, double of_total) {
      const double total = Ms(Phase::kTotal, of_total);
      return total > 0 ? std::min(1.0, Ms(Phase::kQueue, of_queue) / total) : 0;
    };
    return Recommendation{
        Setting::kMaxDelay,
        Cat(static_cast<double>(o_.batch.max_delay_ns) / kNsPerMs, " ms"),
        "0 ms",
        "Requests wait for others that do not come.",
        {Busy(),
         {"share of runs that began because the oldest had waited", FiredShare(Fired::kWaited)},
         {"share of runs with one request", alone},
         Waiting()},
        Gain{Gain::Of::kLatency, share(0.1, 0.9), share(0.9, 0.1)}};
  }

  /// Full queues: longer for bursts, shorter where requests in it are too late when they begin.
  std::optional<Recommendation> Queue() const {
    const double late = EndShare(State::kTimedOut), refused = EndShare(State::kRejected);
    if (late >= 0.01 && busy_ >= kBusy && o_.timeout_ns != kNever && busy_ns_ > 0) {
      // So many are answered within the timeout, a run included.
      const double per_ns =
          static_cast<double>(o_.stats.ends[EndIndex(State::kSucceeded)]) / (o_.seconds * 1e9);
      const double waits_ns = static_cast<double>(o_.timeout_ns) - compute_ms_ * kNsPerMs;
      const auto fit = std::max(int64_t{1}, static_cast<int64_t>(per_ns * waits_ns));
      if (fit < o_.queue.max_requests)
        return Recommendation{
            Setting::kMaxRequests,
            Limit(o_.queue.max_requests),
            Cat(fit),
            "Requests wait until they are too late; a shorter queue refuses them at once.",
            {{"share of requests that timed out", late},
             Busy(),
             {"requests answered in a second", per_ns * 1e9}}};
    }
    if (refused >= 0.01 && busy_ < 0.7)
      return Recommendation{Setting::kMaxRequests,
                            Cat(o_.queue.max_requests),
                            Cat(4 * o_.queue.max_requests),
                            "Requests are rejected in bursts while instances have time for them.",
                            {{"share of requests that were rejected", refused}, Busy()}};
    return std::nullopt;
  }

  std::optional<Recommendation> Shapes() const {
    if (o_.batch.max_rows <= 1) return std::nullopt;
    const double shapes =
        Share(o_.stats.single[static_cast<size_t>(Single::kShape)], o_.stats.runs);
    if (!o_.has_buckets && o_.stats.unpaddable.empty() && shapes >= 0.3)
      return Recommendation{Setting::kBuckets,
                            "none",
                            "extents that requests often have",
                            "Requests run alone since those that wait have other extents.",
                            {{"share of runs alone for their shape", shapes}}};
    const double grown =
        o_.stats.padded_from > 0 ? Share(o_.stats.padded_to, o_.stats.padded_from) : 1;
    if (!o_.has_buckets || grown < 1.5) return std::nullopt;
    return Recommendation{
        Setting::kBuckets,
        "as they are",
        "more, between those there are",
        "Padding makes requests much longer.",
        {{"padded extents over their own", grown},
         {"requests padded",
          static_cast<double>(o_.stats.padding[static_cast<size_t>(Padding::kPadded)])}}};
  }

  bool ShortOfMemory() const { return FiredShare(Fired::kMemory) >= 0.3; }

  std::optional<Recommendation> Memory() const {
    if (saturated() && ShortOfMemory() && o_.memory_bytes != kNever && o_.stats.bytes > 0)
      return Recommendation{
          Setting::kMemory,
          Cat(o_.memory_bytes),
          Cat(o_.memory_bytes + o_.stats.bytes),
          "Runs have as many rows as there is memory for while others wait; twice as many take no "
          "more than this.",
          {{"share of runs without memory for more rows", FiredShare(Fired::kMemory)},
           Busy(),
           {"bytes of the model", static_cast<double>(o_.stats.bytes)}}};
    if (o_.memory_bytes == kNever || o_.stats.unloads < 3 || o_.stats.bytes == 0 ||
        Share(o_.stats.loads, o_.stats.submitted) < 0.01)
      return std::nullopt;
    return Recommendation{Setting::kMemory,
                          Cat(o_.memory_bytes),
                          Cat(o_.memory_bytes + o_.stats.bytes),
                          "The model is unloaded for others and loaded again.",
                          {{"loads", static_cast<double>(o_.stats.loads)},
                           {"requests", static_cast<double>(o_.stats.submitted)},
                           {"bytes of the model", static_cast<double>(o_.stats.bytes)}}};
  }

  double RunsOf(int64_t rows) const {
    const auto found = o_.stats.batch_rows.find(rows);
    return found == o_.stats.batch_rows.end() ? 0 : static_cast<double>(found->second);
  }

  std::string Nothing() const {
    if (saturated())
      return Cat("instances run ", std::lround(100 * busy_), " % of the time and nothing that was ",
                 o_.predicted.empty() ? "seen" : "seen, or is predicted for certain,",
                 " would add capacity: a smaller or faster variant, or fewer requests");
    return Cat("instances run ", std::lround(100 * busy_), " % of the time, requests wait ",
               Rounded(queue_ms_, 3), " ms (median)");
  }

  const Observed& o_;
  std::vector<PerRow> per_row_;  // by rows
  int64_t ended_ = 0;
  double busy_ns_ = 0, busy_ = 0, queue_ms_ = 0, compute_ms_ = 0;
  bool waits_ = false;
};

/// Whether `b` is right at least as often as `a`; nullopt: not known.
std::optional<bool> IsNoWorse(const VariantStats& a, const VariantStats& b,
                              const RouteVariant& stated_a, const RouteVariant& stated_b) {
  if (a.labels.count >= kLeastRequests && b.labels.count >= kLeastRequests) {
    const double pa = a.labels.rate(), pb = b.labels.rate();
    const double error = std::sqrt(pa * (1 - pa) / static_cast<double>(a.labels.count) +
                                   pb * (1 - pb) / static_cast<double>(b.labels.count));
    // Half a point below is the most that may remain possible.
    return pb - pa - kTwoSided * error > -0.005 || (pb >= pa && error == 0);
  }
  if (stated_a.accuracy && stated_b.accuracy) return *stated_b.accuracy >= *stated_a.accuracy;
  return std::nullopt;
}

}  // namespace

std::string_view Name(Setting s) {
  constexpr std::array<std::string_view, kSettings> names = {
      "instances", "max_rows", "max_delay", "adapts",  "max_requests",
      "buckets",   "memory",   "variant",   "threads", "precision"};
  return names[static_cast<size_t>(s)];
}

std::string_view Name(Gain::Of of) {
  return of == Gain::Of::kThroughput ? "throughput" : "latency";
}

Advised Recommend(const Observed& o) { return Adviser(o).Advise(); }

std::optional<Recommendation> RecommendVariant(const RouteStats& stats, const RoutePolicy& policy) {
  const bool by_weight = std::holds_alternative<SplitRoute>(policy.mode) ||
                         std::holds_alternative<BalanceRoute>(policy.mode);
  const auto count = std::min(stats.variants.size(), policy.variants.size());
  if (!by_weight || count < 2) return std::nullopt;
  size_t most = 0;
  for (size_t i = 1; i < count; ++i)
    if (stats.variants[i].sent > stats.variants[most].sent) most = i;
  const VariantStats& now = stats.variants[most];
  const double now_ns = now.total_ns.Quantile(0.5);
  std::optional<size_t> best;
  double best_ns = 0.9 * now_ns;  // nearer ones are not told apart
  for (size_t i = 0; i < count; ++i) {
    const VariantStats& v = stats.variants[i];
    if (i == most || !v.ready || v.total_ns.count() < kLeastRequests) continue;
    if (v.total_ns.Quantile(0.5) >= best_ns) continue;
    if (!IsNoWorse(now, v, policy.variants[most], policy.variants[i]).value_or(false)) continue;
    best = i;
    best_ns = v.total_ns.Quantile(0.5);
  }
  if (!best || now.total_ns.count() < kLeastRequests) return std::nullopt;
  const VariantStats& to = stats.variants[*best];
  const auto gain = [&](double q) {
    return 1 - to.total_ns.Quantile(q) / now.total_ns.Quantile(q);
  };
  const auto [low, high] = std::minmax({gain(0.25), gain(0.5), gain(0.75)});
  Recommendation r{Setting::kVariant,
                   now.model,
                   to.model,
                   "It answers sooner, and is right as often.",
                   {{Cat("median ms of ", now.model), now_ns / kNsPerMs},
                    {Cat("median ms of ", to.model), best_ns / kNsPerMs}},
                   Gain{Gain::Of::kLatency, std::max(0.0, low), high}};
  for (const auto& [v, stated] :
       {std::pair(&now, &policy.variants[most]), std::pair(&to, &policy.variants[*best])}) {
    if (v->labels.count >= kLeastRequests)
      r.evidence.emplace_back(Cat("share of right answers of ", v->model), v->labels.rate());
    else if (stated->accuracy)
      r.evidence.emplace_back(Cat("stated accuracy of ", v->model), *stated->accuracy);
  }
  return r;
}

}  // namespace infer::engine
