#include "tools/infer_opt/sweep/variant.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/accuracy_report.h"

namespace infer {

std::string_view SweepPageTemplate();  // made of sweep_page.html

namespace {

constexpr double kSignificant = 0.05, kAgreement = 0.98, kSqnrDb = 25;
constexpr std::string_view kDataMark = "SWEEP_PAGE_DATA";

double LeastSqnr(const AccuracyReport& r) {
  double least = std::numeric_limits<double>::infinity();
  for (const ValueAccuracy& v : r.outputs)
    if (v.is_float) least = std::min(least, v.metrics.sqnr_db);
  return least;
}

double LeastCosine(const AccuracyReport& r) {
  double least = 1;
  for (const ValueAccuracy& v : r.outputs)
    if (v.is_float) least = std::min(least, v.metrics.cosine);
  return least;
}

bool IsAcceptable(const Variant& v, double max_drop) {
  if (!v.made() || !v.accuracy) return false;
  if (!v.accuracy->task) return LeastSqnr(*v.accuracy) >= kSqnrDb;
  if (v.accuracy->task->drop() <= max_drop) return true;
  const auto& rows = v.accuracy->outputs[0].rows;
  return v.accuracy->task->p_value() >= kSignificant && rows && rows->top1_agreement >= kAgreement;
}

/// `a` is at least as good in everything, and better in something.
bool Beats(const Variant& a, const Variant& b) {
  const double fa = a.timing->ratio.median, fb = b.timing->ratio.median;
  if (fa < fb || a.bytes > b.bytes || a.score() < b.score()) return false;
  return fa > fb || a.bytes < b.bytes || a.score() > b.score();
}

std::string Percent(double share) { return Cat(share > 0 ? "+" : "", Fixed(100 * share, 2)); }

std::string SpeedUp(const Variant& v) {
  const Summary& r = v.timing->ratio;
  return Cat(Fixed(r.median, 2), " [", Fixed(r.median_low, 2), ", ", Fixed(r.median_high, 2), "]");
}

}  // namespace

std::vector<VariantSpec> PresetVariants(const std::vector<std::string>& modes,
                                        const std::string& budget) {
  const VariantSpec presets[] = {
      {"fp16", "fp16", {}, "fp16"},
      {"int8", "static", {}, "int8"},
      {"int8-dynamic", "dynamic", {}, "int8"},
      {"int8-weights", "weight-only", {"--bits", "8"}, "int8"},
      {"int4", "weight-only", {"--bits", "4"}, "int4"},
      {"mixed", "mixed", {"--budget", budget}, "mixed"},
  };
  std::vector<VariantSpec> out = {{"fp32", "", {}, "fp32"}};
  for (const VariantSpec& p : presets)
    if (std::find(modes.begin(), modes.end(), p.mode) != modes.end()) out.push_back(p);
  return out;
}

Result<VariantSpec> ParseVariant(const std::string& text, const std::vector<std::string>& modes) {
  const size_t at = text.find('=');
  std::vector<std::string> words;
  for (const std::string& w : Split(at == std::string::npos ? "" : text.substr(at + 1), ' '))
    if (!w.empty()) words.push_back(w);
  const std::string id = text.substr(0, at);
  const bool named = !id.empty() && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (words.empty() || !named || id == "fp32" || id[0] == '.')
    return InvalidArgument(Cat("--variant ", text, ": write ID=MODE --option value ..."));
  if (std::find(modes.begin(), modes.end(), words[0]) == modes.end())
    return InvalidArgument(
        Cat("--variant ", text, ": no mode '", words[0], "'; there are: ", Join(modes, ", ")));
  return VariantSpec{id, words[0], {words.begin() + 1, words.end()}, id};
}

int64_t Variant::peak_bytes() const {
  return timing ? timing->memory_a.weight_bytes + timing->memory_a.arena_bytes : 0;
}

double Variant::score() const {
  if (!accuracy) return 1;
  return accuracy->task ? accuracy->task->candidate_accuracy() : LeastCosine(*accuracy);
}

double Variant::delta() const {
  if (!accuracy) return 0;
  return accuracy->task ? -accuracy->task->drop() : LeastCosine(*accuracy) - 1;
}

void Judge(std::vector<Variant>& variants, double max_drop) {
  for (Variant& v : variants) {
    v.acceptable = v.spec.mode.empty() || IsAcceptable(v, max_drop);
    v.pareto = v.made() && v.timing && std::none_of(variants.begin(), variants.end(), [&](auto& o) {
                 return o.made() && o.timing && Beats(o, v);
               });
  }
}

Recommendation Recommend(const std::vector<Variant>& variants) {
  const Variant* best = &variants[0];
  for (const Variant& v : variants)
    if (v.made() && v.acceptable && v.timing && v.timing->ratio.median_low > 1 &&
        v.timing->ratio.median > best->timing->ratio.median)
      best = &v;
  const Variant* fastest = best;
  for (const Variant& v : variants)
    if (v.made() && v.acceptable && v.timing &&
        v.timing->ratio.median_high >= fastest->timing->ratio.median_low && v.bytes < best->bytes)
      best = &v;
  if (best == &variants[0])
    return {best->spec.id, variants[0].accuracy
                               ? "no variant that keeps the accuracy is faster or smaller"
                               : "without data no variant is known to keep the accuracy"};
  std::string why = best == fastest
                        ? Cat("the fastest that keeps the accuracy: ", SpeedUp(*best), " x FP32")
                        : Cat("as fast as the fastest (", fastest->spec.id,
                              ") within the intervals, and smaller: ", SpeedUp(*best), " x FP32");
  why += Cat(", ",
             Fixed(static_cast<double>(best->bytes) /
                       static_cast<double>(std::max<int64_t>(variants[0].bytes, 1)),
                   2),
             " x its size, ");
  const AccuracyReport& a = *best->accuracy;
  why += a.task ? Cat("top-1 ", Percent(best->delta()), " points (lost ", a.task->lost, ", gained ",
                      a.task->gained, " of ", a.task->samples,
                      ", p = ", Fixed(a.task->p_value(), 2), ")")
                : Cat("SQNR ", Fixed(LeastSqnr(a), 1), " dB");
  return {best->spec.id, why};
}

Json ToJson(const Variant& v, const Variant& golden, bool recommended) {
  Json j = {{"id", v.spec.id},
            {"dtype", v.spec.dtype},
            {"quantization", v.spec.mode.empty() ? "none" : v.spec.mode},
            {"arguments", v.spec.arguments},
            {"made", v.made()},
            {"failure", v.failure}};
  if (!v.made()) return j;
  j["path"] = v.path;
  j["bytes"] = v.bytes;
  j["size_ratio"] =
      static_cast<double>(v.bytes) / static_cast<double>(std::max<int64_t>(golden.bytes, 1));
  if (v.timing) {
    j["latency_ms"] = infer::ToJson(v.timing->a);
    j["speed_up"] = infer::ToJson(v.timing->ratio);
    j["peak_bytes"] = v.peak_bytes();
  }
  j["accuracy_score"] = JsonNumber(v.score());
  j["accuracy_delta"] = JsonNumber(v.delta());
  if (v.accuracy) j["accuracy"] = infer::ToJson(*v.accuracy);
  j["acceptable"] = v.acceptable;
  j["pareto"] = v.pareto;
  j["recommended"] = recommended;
  return j;
}

Json VariantsJson(const std::vector<Variant>& variants) {
  Json out = Json::array();
  for (const Variant& v : variants) {
    if (!v.made() || !v.timing) continue;
    Json j = {{"id", v.spec.id},
              {"path", v.path},
              {"dtype", v.spec.dtype},
              {"quantization", v.spec.mode.empty() ? "none" : v.spec.mode},
              {"size_mb", static_cast<double>(v.bytes) / 1e6},
              {"latency_ms", v.timing->a.median}};
    // A number that nobody measured is none.
    j["accuracy_score"] = v.accuracy ? JsonNumber(v.score()) : Json(nullptr);
    out.push_back(std::move(j));
  }
  return out;
}

std::string ToText(const std::vector<Variant>& variants, const Recommendation& r) {
  std::vector<std::vector<std::string>> rows = {{"variant", "file", "x size", "ms", "speed-up",
                                                 "peak memory", "accuracy %", "points", "SQNR dB",
                                                 "keeps", "front"}};
  std::string failed;
  for (const Variant& v : variants) {
    if (!v.made() || !v.timing) {
      failed += Cat("no ", v.spec.id, ": ", Printable(v.failure), "\n");
      continue;
    }
    const bool known = v.accuracy.has_value();
    const bool task = known && v.accuracy->task;
    rows.push_back({v.spec.id, HumanBytes(v.bytes),
                    Fixed(static_cast<double>(v.bytes) /
                              static_cast<double>(std::max<int64_t>(variants[0].bytes, 1)),
                          3),
                    Fixed(v.timing->a.median, 3), SpeedUp(v), HumanBytes(v.peak_bytes()),
                    task ? Fixed(100 * v.score(), 2) : "-", task ? Percent(v.delta()) : "-",
                    known ? Fixed(LeastSqnr(*v.accuracy), 1) : "-",
                    known ? v.acceptable ? "yes" : "no" : "?", v.pareto ? "yes" : ""});
  }
  return Cat(TextTable(rows), failed, "\nrecommended: ", r.id, ", ", r.why, "\n");
}

std::string SweepPage(const Json& report) {
  std::string text = report.dump(-1, ' ', false, Json::error_handler_t::replace);
  // The text stands in a script element, which "</" could end.
  for (size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3)
    text.insert(at + 1, "\\");
  for (size_t at = 0; (at = text.find("<!--", at)) != std::string::npos; at += 6)
    text.replace(at, 1, "\\u003c");
  std::string html(SweepPageTemplate());
  html.replace(html.find(kDataMark), kDataMark.size(), text);
  return html;
}

}  // namespace infer
