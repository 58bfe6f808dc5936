#include "tools/infer_opt/sweep/variant.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/accuracy_report.h"
#include "tools/common/html_page.h"
#include "tools/infer_opt/sweep/pruned.h"

namespace infer {

std::string SweepPageTemplate();  // made of sweep_page.html

namespace {

constexpr std::string_view kDataMark = "SWEEP_PAGE_DATA";

/// What the allocator gave out where it is counted, else the resident set.
int64_t PeakBytes(const Variant& v) {
  const Json& memory = v.measured.at("memory");
  const Json& allocated = memory.at("allocated_peak_bytes");
  return (allocated.is_null() ? memory.at("resident_peak_bytes") : allocated).get<int64_t>();
}

/// Of the weights of layers.
std::string ZeroPercent(const Variant& v) {
  const Json& share = v.measured.at("sparsity");
  return share.is_number() ? Fixed(100 * share.get<double>(), 1) : "-";
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

std::string KeyOf(const VariantSpec& spec) {
  return Cat(spec.id, "=", spec.mode, spec.arguments.empty() ? "" : " ", Join(spec.arguments, " "));
}

Json MeasuredJson(const std::optional<AccuracyReport>& accuracy, const PairTiming& timing) {
  Json j = {{"latency_ms", infer::ToJson(timing.a)}, {"speed_up", infer::ToJson(timing.ratio)}};
  double score = 1, delta = 0;
  if (accuracy) {
    j["accuracy"] = infer::ToJson(*accuracy);
    const double cosine = LeastOf(j["accuracy"], "cosine", 1);
    score = accuracy->task ? accuracy->task->candidate_accuracy() : cosine;
    delta = accuracy->task ? -accuracy->task->drop() : cosine - 1;
  }
  j["accuracy_score"] = JsonNumber(score);
  j["accuracy_delta"] = JsonNumber(delta);
  return j;
}

Json MemoryJson(const bench::ColdStart& start, const MemoryInfo& planned) {
  const auto& allocated = start.allocated_peak_bytes;
  return {{"resident_peak_bytes", start.peak_resident_bytes},
          {"allocated_peak_bytes", allocated ? Json(*allocated) : Json(nullptr)},
          {"weight_bytes", planned.weight_bytes},
          {"arena_bytes", planned.arena_bytes}};
}

Json ToJson(const Variant& v, const Variant& golden, bool recommended) {
  Json j = {{"id", v.spec.id},
            {"dtype", v.spec.dtype},
            {"quantization", v.spec.mode.empty() ? "none" : v.spec.mode},
            {"arguments", v.spec.arguments},
            {"pruning", PruningOf(v.spec)},
            {"made", v.made()},
            {"failure", v.failure}};
  if (!v.made()) return j;
  j.update(v.measured);
  j["size_ratio"] = SizeRatio(v, golden);
  j["acceptable"] = v.acceptable;
  j["pareto"] = v.pareto;
  j["recommended"] = recommended;
  return j;
}

Json VariantsJson(const std::vector<Variant>& variants, const std::string& model_sha256) {
  Json out = Json::array();
  for (const Variant& v : variants) {
    if (!v.made()) continue;
    Json j = {
        {"id", v.spec.id},
        {"path", v.measured.at("path")},
        {"dtype", v.spec.dtype},
        {"quantization", v.spec.mode.empty() ? "none" : v.spec.mode},
        {"device", v.measured.at("device")},
        {"size_mb", static_cast<double>(v.bytes()) / 1e6},
        {"latency_ms", v.measured.at("latency_ms").at("median")},
        {"peak_memory_mb", v.measured.at("memory").at("resident_peak_bytes").get<double>() / 1e6}};
    // A number that nobody measured is none.
    const bool known = v.measured.contains("accuracy");
    const bool by_command = v.measured.contains("eval_score");
    j["accuracy_score"] = by_command ? v.measured.at("eval_score")
                          : known    ? v.measured.at("accuracy_score")
                                     : Json(nullptr);
    j["accuracy_metric"] = by_command                                   ? Json("eval-command")
                           : !known                                     ? Json(nullptr)
                           : v.measured.at("accuracy").contains("task") ? Json("top-1")
                                                                        : Json("cosine");
    j["sha256"] = v.measured.at("sha256");
    j["model_sha256"] = model_sha256;
    j["pruning"] = PruningOf(v.spec);
    j["sparsity"] = v.measured.at("sparsity");
    out.push_back(std::move(j));
  }
  return out;
}

std::string ToText(const std::vector<Variant>& variants, const Recommendation& r) {
  std::vector<std::vector<std::string>> rows = {
      {"variant", "device", "file", "x size", "ms", "speed-up", "peak memory", "resident", "zero %",
       "accuracy %", "points", "SQNR dB", "keeps", "front"}};
  const bool by_command = !variants.empty() && variants[0].measured.contains("eval_score");
  if (by_command) rows[0].emplace_back("eval");
  std::string failed;
  for (const Variant& v : variants) {
    if (!v.made()) {
      failed += Cat("no ", v.spec.id, ": ", Printable(v.failure), "\n");
      continue;
    }
    const bool known = v.measured.contains("accuracy");
    const bool task = known && v.measured.at("accuracy").contains("task");
    rows.push_back({v.spec.id, v.measured.at("device").get<std::string>(), HumanBytes(v.bytes()),
                    Fixed(SizeRatio(v, variants[0]), 3),
                    Fixed(v.measured.at("latency_ms").at("median").get<double>(), 3),
                    SpeedUpText(v), HumanBytes(PeakBytes(v)),
                    HumanBytes(v.measured.at("memory").at("resident_peak_bytes").get<int64_t>()),
                    ZeroPercent(v), task ? Fixed(100 * v.score(), 2) : "-",
                    task ? SignedPercent(v.delta()) : "-",
                    known ? Fixed(LeastSqnr(v.measured.at("accuracy")), 1) : "-",
                    known || by_command ? v.acceptable ? "yes" : "no" : "?",
                    v.pareto ? "yes" : ""});
    if (by_command) rows.back().push_back(Cat(Rounded(EvalScore(v), 6)));
  }
  return Cat(TextTable(rows), failed, "\nrecommended: ", r.id, ", ", r.why, "\n");
}

std::string SweepPage(const Json& report) {
  return PageWithData(SweepPageTemplate(), kDataMark, report);
}

}  // namespace infer
