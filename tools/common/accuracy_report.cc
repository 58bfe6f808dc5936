#include "tools/common/accuracy_report.h"

#include <algorithm>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// {"p1": ..., "p50": ...}: as kKlQuantiles.
Json QuantilesJson(const std::vector<double>& values) {
  Json j = Json::object();
  for (size_t i = 0; i < values.size(); ++i)
    j[Cat("p", Rounded(100 * kKlQuantiles[i], 3))] = JsonNumber(values[i]);
  return j;
}

/// Of outputs with rows: as llama.cpp's perplexity tool tells divergence.
std::string DivergenceText(const ValueAccuracy& v) {
  const RowMetrics& r = *v.rows;
  const Interval same =
      ClopperPearson(std::llround(r.top1_agreement * static_cast<double>(r.rows)), r.rows);
  std::string out = Cat(Printable(v.name), ": KL ", Rounded(r.kl, 3), " +- ",
                        Rounded(r.kl_error, 2), " over ", r.rows, " rows;");
  for (size_t i = 0; i < r.kl_quantiles.size(); ++i)
    out += Cat(" p", Rounded(100 * kKlQuantiles[i], 3), " ", Rounded(r.kl_quantiles[i], 2), ",");
  return Cat(out, " max ", Rounded(r.kl_max, 3), "; top-1 same ", Fixed(100 * r.top1_agreement, 2),
             " % (95 % interval ", Fixed(100 * same.lo, 2), " to ", Fixed(100 * same.hi, 2),
             "), top-5 shared ", Fixed(100 * r.top5_agreement, 2),
             " %, RMS of the best class's probability change ", Rounded(100 * r.rms_dp, 3), " %\n");
}

Json ValueJson(const ValueAccuracy& v) {
  const TensorMetrics& m = v.metrics;
  Json j = {{"name", v.name}, {"op", v.op}, {"samples", m.samples}, {"elements", m.elements}};
  if (v.is_float) {
    j["sqnr_db"] = JsonNumber(m.sqnr_db);
    if (m.sqnr_interval)
      j["sqnr_ci95"] = {JsonNumber(m.sqnr_interval->lo), JsonNumber(m.sqnr_interval->hi)};
    j["psnr_db"] = JsonNumber(m.psnr_db);
    j["cosine"] = JsonNumber(m.cosine);
    j["max_abs_error"] = JsonNumber(m.max_abs_error);
    j["mean_abs_error"] = JsonNumber(m.mean_abs_error);
    j["max_error_ratio"] = JsonNumber(m.max_error_ratio);
    j["non_finite_mismatches"] = m.non_finite_mismatches;
  }
  if (!v.is_float || m.unequal > 0) j["unequal"] = m.unequal;
  if (v.rows)
    j["rows"] = {{"count", v.rows->rows},
                 {"kl", JsonNumber(v.rows->kl)},
                 {"kl_max", JsonNumber(v.rows->kl_max)},
                 {"top1_agreement", v.rows->top1_agreement},
                 {"top5_agreement", v.rows->top5_agreement},
                 {"kl_error", JsonNumber(v.rows->kl_error)},
                 {"kl_quantiles", QuantilesJson(v.rows->kl_quantiles)},
                 {"rms_dp", JsonNumber(v.rows->rms_dp)}};
  return j;
}

std::vector<std::string> ValueRow(const ValueAccuracy& v) {
  const TensorMetrics& m = v.metrics;
  if (!v.is_float)
    return {v.name, v.op, "-", "-", m.unequal == 0 ? "equal" : Cat(m.unequal, " differ"), "-", "-"};
  return {v.name,
          v.op,
          Fixed(m.sqnr_db, 1),
          Fixed(m.cosine, 6),
          Rounded(m.max_error_ratio, 3),
          v.rows ? Rounded(v.rows->kl, 3) : "-",
          v.rows ? Fixed(100 * v.rows->top1_agreement, 2) : "-"};
}

std::string ValueTable(std::string_view first, const std::vector<ValueAccuracy>& values) {
  std::vector<std::vector<std::string>> rows = {{std::string(first), "operator", "SQNR dB",
                                                 "cosine", "max|d|/max|ref|", "KL",
                                                 "top-1 same %"}};
  for (const ValueAccuracy& v : values) rows.push_back(ValueRow(v));
  return TextTable(rows);
}

std::string TapText(const TapCheck& t) {
  return Cat(t.tapped, " values watched, ", t.within_steps, " more lie within steps; the outputs ",
             t.same_bits ? "are bit for bit those without watching"
                         : Cat("differ from those without watching by ",
                               Rounded(t.max_error_ratio, 2), " of the largest"),
             "\n");
}

std::optional<double> ParseSpeedup(std::string_view text) {
  if (text.ends_with("x")) text.remove_suffix(1);
  const auto v = ParseDouble(text);
  return v && *v > 0 ? v : std::nullopt;
}

}  // namespace

Json ToJson(const AccuracyReport& r) {
  Json j = {{"samples", r.samples}};
  j["outputs"] = Json::array();
  for (const ValueAccuracy& v : r.outputs) j["outputs"].push_back(ValueJson(v));
  j["layer_samples"] = r.layer_samples;
  j["layers"] = Json::array();
  for (const ValueAccuracy& v : r.layers) j["layers"].push_back(ValueJson(v));
  if (!r.layers.empty())
    j["taps"] = {{"tapped", r.taps.tapped},
                 {"within_steps", r.taps.within_steps},
                 {"same_bits", r.taps.same_bits},
                 {"max_error_ratio", JsonNumber(r.taps.max_error_ratio)}};
  if (r.task) {
    const PairedAccuracy& t = *r.task;
    const Interval interval = t.DropInterval(), population = t.PopulationDropInterval();
    const auto share = [&](int64_t n) {
      return t.samples ? static_cast<double>(n) / static_cast<double>(t.samples) : 0.0;
    };
    j["task"] = {{"samples", t.samples},
                 {"golden_top1", t.golden_accuracy()},
                 {"candidate_top1", t.candidate_accuracy()},
                 {"golden_top5", share(t.golden_top5)},
                 {"candidate_top5", share(t.candidate_top5)},
                 {"lost", t.lost},
                 {"gained", t.gained},
                 {"drop", t.drop()},
                 {"drop_ci95", {interval.lo, interval.hi}},
                 {"population_drop_ci95", {population.lo, population.hi}},
                 {"mcnemar_p", t.p_value()}};
  }
  if (r.perplexity) {
    const PairedPerplexity& p = *r.perplexity;
    j["perplexity"] = {{"tokens", p.tokens()},
                       {"sequences", p.sequences()},
                       {"golden", JsonNumber(p.golden())},
                       {"candidate", JsonNumber(p.candidate())},
                       {"rise", JsonNumber(p.rise())}};
    if (const auto i = p.rise_interval())
      j["perplexity"]["rise_ci95"] = {JsonNumber(i->lo), JsonNumber(i->hi)};
  }
  return j;
}

Json ToJson(const std::vector<GateResult>& gates) {
  Json out = Json::array();
  for (const GateResult& g : gates) {
    Json j = {{"name", g.name},      {"where", g.where},
              {"limit", g.limit},    {"measured", JsonNumber(g.measured)},
              {"passed", g.passed},  {"inconclusive", g.inconclusive},
              {"message", g.message}};
    if (g.interval) j["ci95"] = {g.interval->lo, g.interval->hi};
    if (g.samples > 0) j["samples"] = g.samples;
    if (g.samples_needed > 0) j["samples_needed"] = g.samples_needed;
    out.push_back(std::move(j));
  }
  return out;
}

std::string AccuracyText(const AccuracyReport& r, bool verbose, size_t max_layers) {
  std::string out = ValueTable("output", r.outputs);
  for (const ValueAccuracy& v : r.outputs)
    if (verbose && v.rows && v.rows->kl_max > 0) out += DivergenceText(v);
  if (!r.layers.empty()) {
    std::vector<ValueAccuracy> worst = r.layers;
    std::stable_sort(worst.begin(), worst.end(), [](const auto& a, const auto& b) {
      return a.metrics.sqnr_db < b.metrics.sqnr_db;
    });
    if (worst.size() > max_layers) worst.resize(max_layers);
    out += Cat("\n", worst.size(), " worst of ", r.layers.size(), " layers, over ", r.layer_samples,
               " samples\n", ValueTable("layer", worst), TapText(r.taps));
  }
  if (r.task) {
    const PairedAccuracy& t = *r.task;
    out += Cat("\ntop-1   golden ", Fixed(100 * t.golden_accuracy(), 2), " %, candidate ",
               Fixed(100 * t.candidate_accuracy(), 2), " % of ", t.samples, " samples; lost ",
               t.lost, ", gained ", t.gained, " (McNemar p = ", Fixed(t.p_value(), 3), ")\n");
  }
  if (r.perplexity && r.perplexity->tokens() > 0) {
    const PairedPerplexity& p = *r.perplexity;
    const auto interval = p.rise_interval();
    out += Cat("\nperplexity  golden ", Rounded(p.golden(), 5), ", candidate ",
               Rounded(p.candidate(), 5), ", ", p.rise() < 0 ? "" : "+", Fixed(100 * p.rise(), 2),
               " %",
               interval ? Cat(" (95 % interval ", Fixed(100 * interval->lo, 2), " to ",
                              Fixed(100 * interval->hi, 2), ")")
                        : "",
               ", on ", p.tokens(), " tokens of ", p.sequences(), " sequences\n");
  }
  return out;
}

std::string GateText(const std::vector<GateResult>& gates) {
  std::string out;
  for (const GateResult& g : gates) {
    out += Cat(g.passed         ? "pass  "
               : g.inconclusive ? "INCONCLUSIVE  "
                                : "FAIL  ",
               Printable(g.message), "\n");
    if (!g.inconclusive || g.passed) continue;
    if (g.samples_needed > 0)
      out += Cat("      about ", g.samples_needed, " samples like these would decide it, here are ",
                 g.samples, "; --allow-inconclusive takes it as passed\n");
    else
      out += "      measure on more data or longer; --allow-inconclusive takes it as passed\n";
  }
  return out;
}

void GateFlags::Declare(Options& options) {
  options.Section("Gates (exit code 1 where one fails)");
  options.Share("--max-drop", &max_drop, "Gate: largest loss of top-1 accuracy (0.5%)");
  options.Share("--max-perplexity-rise", &max_perplexity_rise,
                "Gate: largest rise of a causal language model's perplexity (1%)");
  options.Value("--min-sqnr DB", &min_sqnr, "Gate: least SQNR of every output, in dB");
  options.Share("--min-agreement", &min_agreement,
                "Gate: least share of rows with the golden top-1 class");
  options.Value("--max-error", &max_error, "Gate: largest max|d| / max|ref| of every output");
  options.Value("--max-size SIZE", &max_size,
                "Gate: largest file: 25MB, or 0.3x (30%) of the golden one");
  options.Value("--min-speedup RATIO", &min_speedup,
                "Gate: golden's time / the candidate's, measured in turns (1.5x)");
  options.Flag("--allow-inconclusive", &allow_inconclusive,
               "A gate that too few data cannot decide passes (else exit code 6)");
  eval.Declare(options);
}

Status GateFlags::Check() const {
  if (!max_size.empty()) INFER_TRY(ParseSizeLimit(max_size).status().In("--max-size"));
  if (!min_speedup.empty() && !ParseSpeedup(min_speedup))
    return InvalidArgument(Cat("--min-speedup ", min_speedup, ": write 1.5x"));
  return eval.Check();
}

std::optional<SizeLimit> GateFlags::size() const {
  return max_size.empty() ? std::nullopt : std::optional(*ParseSizeLimit(max_size));
}

std::optional<double> GateFlags::speedup() const {
  return min_speedup.empty() ? std::nullopt : ParseSpeedup(min_speedup);
}

Status GateFlags::CheckNotMeasured() const {
  if (!any() && !size() && !speedup() && !eval.given()) return {};
  return InvalidArgument("--no-verify: a gate never passes without a measurement");
}

ExitCode GateFlags::ExitOf(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::kPassed: return kExitOk;
    case GateVerdict::kInconclusive: return kExitInconclusive;
    case GateVerdict::kFailed: break;
  }
  return kExitGateFailed;
}

GateLimits GateFlags::limits() const {
  GateLimits l;
  if (max_drop >= 0) l.max_drop = max_drop;
  if (max_perplexity_rise >= 0) l.max_perplexity_rise = max_perplexity_rise;
  if (min_sqnr >= 0) l.min_sqnr_db = min_sqnr;
  if (min_agreement >= 0) l.min_agreement = min_agreement;
  if (max_error >= 0) l.max_error_ratio = max_error;
  l.allow_inconclusive = allow_inconclusive;
  return l;
}

}  // namespace infer
