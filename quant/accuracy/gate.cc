#include "quant/accuracy/gate.h"

#include <cmath>

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
       if (v.least > 0 && v.metrics.max_abs_error <= v.least) return 0;  // rounded the other way
       return v.metrics.max_error_ratio;
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
                        : "");
}

GateResult Unmeasured(std::string_view name, double limit, std::string_view why) {
  GateResult r;
  r.name = name;
  r.limit = limit;
  r.measured = std::nan("");
  r.message = Cat(name, " cannot be measured: ", why);
  return r;
}

void CheckOutputs(const AccuracyReport& report, const OutputGate& gate, double limit,
                  std::vector<GateResult>& results) {
  bool any = false;
  for (const ValueAccuracy& v : report.outputs) {
    const auto measured = gate.measure(v);
    if (!measured) continue;
    any = true;
    GateResult r{std::string(gate.name), v.name, limit, *measured, false, {}, {}};
    r.passed = gate.at_least ? *measured >= limit : *measured <= limit;
    // A mismatch of NaN or infinity stands outside every sum, so no sum may excuse it.
    if (v.metrics.non_finite_mismatches > 0) r.passed = false;
    if (gate.limit == &GateLimits::min_agreement) {
      const double rows = static_cast<double>(v.rows->rows);
      r.interval = ClopperPearson(std::llround(*measured * rows), v.rows->rows);
    }
    r.message = Describe(r, gate.what, gate.unit);
    if (v.metrics.non_finite_mismatches > 0)
      r.message += Cat("; ", v.metrics.non_finite_mismatches, " NaN or infinite elements differ");
    results.push_back(std::move(r));
  }
  if (!any) results.push_back(Unmeasured(gate.name, limit, "no output has such a number"));
}

}  // namespace

std::vector<GateResult> CheckGates(const AccuracyReport& report, const GateLimits& limits) {
  std::vector<GateResult> results;
  if (limits.max_drop) {
    if (report.task && report.task->samples > 0) {
      GateResult r{"max-drop", "", *limits.max_drop, report.task->drop(), false, {}, {}};
      // A drop is a count over a count: allow the rounding of that division, nothing more.
      r.passed = r.measured <= r.limit + 1e-12;
      r.interval = report.task->DropInterval();
      r.message = Cat(Describe(r, "top-1 drop", kPercent), "; lost ", report.task->lost,
                      ", gained ", report.task->gained, " of ", report.task->samples,
                      " (McNemar p = ", Rounded(report.task->p_value(), 2), ")");
      results.push_back(std::move(r));
    } else {
      results.push_back(
          Unmeasured("max-drop", *limits.max_drop, "it needs labelled samples (--labels)"));
    }
  }
  for (const OutputGate& gate : kOutputGates)
    if (const auto& limit = limits.*gate.limit) CheckOutputs(report, gate, *limit, results);
  return results;
}

bool AllPassed(const std::vector<GateResult>& results) {
  for (const GateResult& r : results)
    if (!r.passed) return false;
  return true;
}

}  // namespace infer
