#include "tools/common/accuracy_report.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

Json ValueJson(const ValueAccuracy& v) {
  const TensorMetrics& m = v.metrics;
  Json j = {{"name", v.name}, {"op", v.op}, {"samples", m.samples}, {"elements", m.elements}};
  if (v.is_float) {
    j["sqnr_db"] = JsonNumber(m.sqnr_db);
    j["psnr_db"] = JsonNumber(m.psnr_db);
    j["cosine"] = JsonNumber(m.cosine);
    j["max_abs_error"] = JsonNumber(m.max_abs_error);
    j["mean_abs_error"] = JsonNumber(m.mean_abs_error);
    j["max_error_ratio"] = JsonNumber(m.max_error_ratio);
    j["non_finite_mismatches"] = m.non_finite_mismatches;
  } else {
    j["unequal"] = m.unequal;
  }
  if (v.rows)
    j["rows"] = {{"count", v.rows->rows},
                 {"kl", JsonNumber(v.rows->kl)},
                 {"kl_max", JsonNumber(v.rows->kl_max)},
                 {"top1_agreement", v.rows->top1_agreement},
                 {"top5_agreement", v.rows->top5_agreement}};
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

}  // namespace

Json ToJson(const AccuracyReport& r) {
  Json j = {{"samples", r.samples}};
  j["outputs"] = Json::array();
  for (const ValueAccuracy& v : r.outputs) j["outputs"].push_back(ValueJson(v));
  j["layer_samples"] = r.layer_samples;
  j["layers"] = Json::array();
  for (const ValueAccuracy& v : r.layers) j["layers"].push_back(ValueJson(v));
  if (r.task) {
    const PairedAccuracy& t = *r.task;
    const Interval interval = t.DropInterval();
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
                 {"mcnemar_p", t.p_value()}};
  }
  return j;
}

Json ToJson(const std::vector<GateResult>& gates) {
  Json out = Json::array();
  for (const GateResult& g : gates) {
    Json j = {{"name", g.name},     {"where", g.where},
              {"limit", g.limit},   {"measured", JsonNumber(g.measured)},
              {"passed", g.passed}, {"message", g.message}};
    if (g.interval) j["ci95"] = {g.interval->lo, g.interval->hi};
    out.push_back(std::move(j));
  }
  return out;
}

std::string AccuracyText(const AccuracyReport& r, size_t max_layers) {
  std::string out = ValueTable("output", r.outputs);
  if (!r.layers.empty()) {
    std::vector<ValueAccuracy> worst = r.layers;
    std::stable_sort(worst.begin(), worst.end(), [](const auto& a, const auto& b) {
      return a.metrics.sqnr_db < b.metrics.sqnr_db;
    });
    if (worst.size() > max_layers) worst.resize(max_layers);
    out += Cat("\n", worst.size(), " worst of ", r.layers.size(), " layers, over ", r.layer_samples,
               " samples\n", ValueTable("layer", worst));
  }
  if (r.task) {
    const PairedAccuracy& t = *r.task;
    out += Cat("\ntop-1   golden ", Fixed(100 * t.golden_accuracy(), 2), " %, candidate ",
               Fixed(100 * t.candidate_accuracy(), 2), " % of ", t.samples, " samples; lost ",
               t.lost, ", gained ", t.gained, " (McNemar p = ", Fixed(t.p_value(), 3), ")\n");
  }
  return out;
}

std::string GateText(const std::vector<GateResult>& gates) {
  std::string out;
  for (const GateResult& g : gates)
    out += Cat(g.passed ? "pass  " : "FAIL  ", Printable(g.message), "\n");
  return out;
}

void GateFlags::Declare(Options& options) {
  options.Share("--max-drop", &max_drop, "Gate: largest loss of top-1 accuracy (0.5%)");
  options.Value("--min-sqnr", &min_sqnr, "Gate: least SQNR of every output, in dB");
  options.Share("--min-agreement", &min_agreement,
                "Gate: least share of rows with the golden top-1 class");
  options.Value("--max-error", &max_error, "Gate: largest max|d| / max|ref| of every output");
}

GateLimits GateFlags::limits() const {
  GateLimits l;
  if (max_drop >= 0) l.max_drop = max_drop;
  if (min_sqnr >= 0) l.min_sqnr_db = min_sqnr;
  if (min_agreement >= 0) l.min_agreement = min_agreement;
  if (max_error >= 0) l.max_error_ratio = max_error;
  return l;
}

}  // namespace infer
