#include "quant/accuracy/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// How a number is told to people: 100 and " %" for shares.
struct Unit {
  double factor = 1;
  std::string_view name;
};
constexpr Unit kPercent = {100, " %"};

/// A limit on one number of an output; nullopt where the output has no such number.
struct OutputGate {
  std::string_view name, what;
  Unit unit;
  std::optional<double> GateLimits::*limit;
  bool at_least;  // measured >= limit, else measured <= limit
  std::optional<double> (*measure)(const ValueAccuracy&);
};

const OutputGate kOutputGates[] = {
    {"min-sqnr",
     "SQNR",
     {1, " dB"},
     &GateLimits::min_sqnr_db,
     true,
     [](const ValueAccuracy& v) -> std::optional<double> {
       if (!v.is_float) return std::nullopt;
       return v.metrics.sqnr_db;
     }},
    {"min-cosine",
     "cosine",
     {},
     &GateLimits::min_cosine,
     true,
     [](const ValueAccuracy& v) -> std::optional<double> {
       if (!v.is_float) return std::nullopt;
       return v.metrics.cosine;
     }},
    {"max-error",
     "max|d| / max|golden|",
     {},
     &GateLimits::max_error_ratio,
     false,
     [](const ValueAccuracy& v) -> std::optional<double> {
       if (!v.is_float) return std::nullopt;
       return v.error_ratio();
     }},
    {"min-agreement", "top-1 agreement", kPercent, &GateLimits::min_agreement, true,
     [](const ValueAccuracy& v) -> std::optional<double> {
       if (!v.rows) return std::nullopt;
       return v.rows->top1_agreement;
     }},
};

/// "output 'y': SQNR 34.1 dB, limit 30 dB". As many digits as tell the number from its limit.
std::string Describe(const GateResult& r, std::string_view what, const Unit& unit) {
  const double measured = r.measured * unit.factor, limit = r.limit * unit.factor;
  int digits = 4;
  while (digits < 17 && r.measured != r.limit &&
         Rounded(measured, digits) == Rounded(limit, digits))
    ++digits;
  const auto text = [&](double v) { return Cat(Rounded(v, digits), unit.name); };
  return Cat(r.where.empty() ? "" : Cat("output '", r.where, "': "), what, " ", text(measured),
             ", limit ", text(limit),
             r.interval ? Cat(" (95 % interval ", Rounded(r.interval->lo * unit.factor, 3), " to ",
                              Rounded(r.interval->hi * unit.factor, 3), ")")
                        : "",
             r.inconclusive ? ": inconclusive, these data cannot decide it" : "");
}

/// Sets `passed` and `inconclusive` from what was measured. `slack`: rounding of the measurement.
void Decide(GateResult& r, bool at_least, bool allow_inconclusive, double slack = 0) {
  const auto keeps = [&](double v) {
    return at_least ? v >= r.limit - slack : v <= r.limit + slack;
  };
  r.passed = keeps(r.measured);
  if (!r.interval) return;
  const bool lo = keeps(r.interval->lo), hi = keeps(r.interval->hi);
  r.inconclusive = lo != hi;
  r.passed = r.inconclusive ? allow_inconclusive : lo;
}

constexpr int64_t kMostSamples = int64_t{1} << 20;

/// Whether an interval lies on one side of the limit.
bool Decides(const Interval& i, double limit) { return i.lo >= limit || i.hi <= limit; }

/// The fewest samples whose interval, `scaled` to them, decides; 0: none does.
int64_t FewestThatDecide(int64_t samples, double limit,
                         const std::function<Interval(double)>& scaled) {
  if (samples <= 0) return 0;
  const auto decides = [&](int64_t n) {
    return Decides(scaled(static_cast<double>(n) / static_cast<double>(samples)), limit);
  };
  int64_t high = samples;
  while (high < kMostSamples && !decides(high)) high *= 2;
  if (high >= kMostSamples) return 0;
  int64_t low = high / 2;
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    (decides(middle) ? high : low) = middle;
  }
  return high;
}

/// The interval of a mean narrows with the root of the samples.
int64_t SamplesNeeded(const GateResult& r) {
  return FewestThatDecide(r.samples, r.limit, [&](double times) {
    const double narrower = std::sqrt(times);
    return Interval{r.measured - (r.measured - r.interval->lo) / narrower,
                    r.measured + (r.interval->hi - r.measured) / narrower};
  });
}

GateResult Unmeasured(std::string_view name, double limit, std::string_view why) {
  GateResult r;
  r.name = name;
  r.limit = limit;
  r.measured = std::nan("");
  r.message = Cat(name, " cannot be measured: ", why);
  return r;
}

std::optional<Interval> IntervalOf(const OutputGate& gate, const ValueAccuracy& v) {
  if (gate.limit == &GateLimits::min_sqnr_db) return v.metrics.sqnr_interval;
  if (gate.limit != &GateLimits::min_agreement) return std::nullopt;
  const double rows = static_cast<double>(v.rows->rows);
  return ClopperPearson(std::llround(v.rows->top1_agreement * rows), v.rows->rows);
}

/// Of agreement in rows of scores: samples have as many rows each as these.
int64_t SamplesNeeded(const OutputGate& gate, const ValueAccuracy& v, const GateResult& r) {
  if (gate.limit != &GateLimits::min_agreement) return SamplesNeeded(r);
  return FewestThatDecide(r.samples, r.limit, [&](double times) {
    const double rows = static_cast<double>(v.rows->rows) * times;
    return ClopperPearson(std::llround(r.measured * rows), std::llround(rows));
  });
}

void CheckOutputs(const AccuracyReport& report, const OutputGate& gate, const GateLimits& limits,
                  std::vector<GateResult>& results) {
  bool any = false;
  const double limit = *(limits.*gate.limit);
  for (const ValueAccuracy& v : report.outputs) {
    const auto measured = gate.measure(v);
    if (!measured) continue;
    any = true;
    GateResult r{std::string(gate.name), v.name, limit, *measured};
    if (!limits.without_intervals) r.interval = IntervalOf(gate, v);
    r.samples = v.metrics.samples;
    Decide(r, gate.at_least, limits.allow_inconclusive);
    if (r.inconclusive) r.samples_needed = SamplesNeeded(gate, v, r);
    r.message = Describe(r, gate.what, gate.unit);
    // A mismatch of NaN or infinity stands outside every sum, so no sum may excuse it.
    if (v.metrics.non_finite_mismatches > 0) {
      r.passed = r.inconclusive = false;
      r.message += Cat("; ", v.metrics.non_finite_mismatches, " NaN or infinite elements differ");
    }
    results.push_back(std::move(r));
  }
  if (!any) results.push_back(Unmeasured(gate.name, limit, "no output has such a number"));
}

GateResult CheckDrop(const AccuracyReport& report, const GateLimits& limits) {
  if (!report.task || report.task->samples == 0)
    return Unmeasured("max-drop", *limits.max_drop, "it needs labelled samples (--labels)");
  GateResult r{"max-drop", "", *limits.max_drop, report.task->drop()};
  if (!limits.without_intervals) r.interval = report.task->DropInterval();
  // A drop is a count over a count: allow the rounding of that division, nothing more.
  r.samples = report.task->samples;
  Decide(r, false, limits.allow_inconclusive, 1e-12);
  if (r.inconclusive)
    r.samples_needed = FewestThatDecide(r.samples, r.limit, [&](double times) {
      PairedAccuracy more = *report.task;
      for (int64_t* n : {&more.samples, &more.lost, &more.gained})
        *n = std::llround(static_cast<double>(*n) * times);
      return more.DropInterval();
    });
  r.message = Cat(Describe(r, "top-1 drop", kPercent), "; lost ", report.task->lost, ", gained ",
                  report.task->gained, " of ", report.task->samples,
                  " (McNemar p = ", Rounded(report.task->p_value(), 2), ")");
  const double population = report.task->PopulationDropInterval().hi;
  if (r.passed && population > r.limit)
    r.message += Cat("; of all data up to ", Rounded(100 * population, 2),
                     " % could be lost: the samples are few");
  return r;
}

GateResult CheckPerplexity(const AccuracyReport& report, const GateLimits& limits) {
  constexpr std::string_view kName = "max-perplexity-rise";
  if (!report.perplexity || report.perplexity->tokens() == 0)
    return Unmeasured(kName, *limits.max_perplexity_rise,
                      "it needs a causal language model, and sequences of two tokens or more");
  const PairedPerplexity& p = *report.perplexity;
  GateResult r{std::string(kName), "", *limits.max_perplexity_rise, p.rise()};
  if (!limits.without_intervals) r.interval = p.rise_interval();
  r.samples = p.sequences();
  Decide(r, false, limits.allow_inconclusive);
  if (r.inconclusive) r.samples_needed = SamplesNeeded(r);
  r.message = Cat(Describe(r, "rise of perplexity", kPercent), "; ", Rounded(p.golden(), 4), " to ",
                  Rounded(p.candidate(), 4), " on ", p.tokens(), " tokens");
  return r;
}

}  // namespace

std::vector<GateResult> CheckGates(const AccuracyReport& report, const GateLimits& limits) {
  std::vector<GateResult> results;
  if (limits.max_drop) results.push_back(CheckDrop(report, limits));
  if (limits.max_perplexity_rise) results.push_back(CheckPerplexity(report, limits));
  for (const OutputGate& gate : kOutputGates)
    if (limits.*gate.limit) CheckOutputs(report, gate, limits, results);
  return results;
}

Result<SizeLimit> ParseSizeLimit(std::string_view text) {
  size_t used = 0;
  while (used < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[used])) != 0 || text[used] == '.'))
    ++used;
  const auto number = ParseDouble(text.substr(0, used));
  std::string_view unit = text.substr(used);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const std::array<std::pair<std::string_view, double>, 9> units = {{{"", 1},
                                                                     {"B", 1},
                                                                     {"kB", 1e3},
                                                                     {"KB", 1e3},
                                                                     {"MB", 1e6},
                                                                     {"GB", 1e9},
                                                                     {"KiB", 0x1p10},
                                                                     {"MiB", 0x1p20},
                                                                     {"GiB", 0x1p30}}};
  if (number && *number > 0) {
    if (unit == "x") return SizeLimit{*number, true};
    if (unit == "%") return SizeLimit{*number / 100, true};
    for (const auto& [name, factor] : units)
      if (unit == name) return SizeLimit{*number * factor, false};
  }
  return InvalidArgument(Cat("'", text, "' is no size (25MB, 30KiB) and no share (0.3x, 30%)"));
}

GateResult CheckSize(SizeLimit limit, int64_t golden_bytes, int64_t candidate_bytes) {
  if (limit.is_share && golden_bytes <= 0)
    return Unmeasured("max-size", limit.value, "a share needs the size of the golden model");
  const double bytes = static_cast<double>(candidate_bytes);
  GateResult r{"max-size", "", limit.value,
               limit.is_share ? bytes / static_cast<double>(golden_bytes) : bytes};
  Decide(r, false, false);
  r.message = limit.is_share ? Cat(Describe(r, "size", {1, "x"}), ": ", HumanBytes(candidate_bytes),
                                   " of ", HumanBytes(golden_bytes))
                             : Describe(r, "size", {1e-6, " MB"});
  return r;
}

GateResult CheckSpeedup(double limit, double speedup, Interval interval, bool allow_inconclusive) {
  GateResult r{"min-speedup", "", limit, speedup, false, interval};
  Decide(r, true, allow_inconclusive);
  r.message = Describe(r, "speed-up", {1, "x"});
  return r;
}

GateResult CheckMetric(double max_drop, double golden, double candidate) {
  GateResult r{"max-drop", "", max_drop, golden - candidate};
  // As in CheckDrop, of metrics of any size.
  Decide(r, false, false, 1e-12 * std::max({1.0, std::abs(golden), std::abs(candidate)}));
  r.message = Cat(Describe(r, "drop of the metric", {}), "; ", Rounded(golden, 6), " to ",
                  Rounded(candidate, 6));
  return r;
}

std::string_view Name(GateVerdict v) {
  switch (v) {
    case GateVerdict::kPassed: return "passed";
    case GateVerdict::kFailed: return "failed";
    case GateVerdict::kInconclusive: return "inconclusive";
  }
  return "";
}

GateVerdict VerdictOf(const std::vector<GateResult>& results) {
  GateVerdict verdict = GateVerdict::kPassed;
  for (const GateResult& r : results) {
    if (r.passed) continue;
    if (!r.inconclusive) return GateVerdict::kFailed;
    verdict = GateVerdict::kInconclusive;
  }
  return verdict;
}

bool AllPassed(const std::vector<GateResult>& results) {
  for (const GateResult& r : results)
    if (!r.passed) return false;
  return true;
}

}  // namespace infer
