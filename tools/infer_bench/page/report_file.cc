#include "tools/infer_bench/page/report_file.h"

#include <algorithm>
#include <array>
#include <span>

#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/parse_json.h"

namespace infer {
namespace {

constexpr uint64_t kMostBytes = uint64_t{64} << 20;

enum class Kind { kObject, kObjects, kTexts, kNumbers };

/// What a value has to be, unless it is missing or null. "*" is every element of an array.
struct Rule {
  std::string_view path;
  Kind kind;
};

constexpr Rule kCommon[] = {{"host", Kind::kObject},     {"environment", Kind::kObject},
                            {"settings", Kind::kObject}, {"warnings", Kind::kTexts},
                            {"command", Kind::kTexts},   {"watch", Kind::kObject},
                            {"target", Kind::kObject},   {"target/model", Kind::kObject}};
constexpr Rule kRun[] = {{"results", Kind::kObjects},
                         {"results/*/model", Kind::kObject},
                         {"results/*/latency_ms", Kind::kObject},
                         {"results/*/latency_ms/median_ci95", Kind::kNumbers},
                         {"results/*/latency_ms/outlier_indices", Kind::kNumbers},
                         {"results/*/latency_ms/upper_99", Kind::kObject},
                         {"results/*/latency_ms/withheld", Kind::kObject},
                         {"results/*/samples_ms", Kind::kNumbers},
                         {"results/*/samples_at_ms", Kind::kNumbers},
                         {"results/*/warnings", Kind::kTexts},
                         {"results/*/warmup", Kind::kObject},
                         {"results/*/memory", Kind::kObject},
                         {"results/*/cold", Kind::kObject},
                         {"results/*/cold/stages_ms", Kind::kObject},
                         {"results/*/profile", Kind::kObject},
                         {"results/*/profile/roofline", Kind::kObject},
                         {"results/*/profile/roofline/levels", Kind::kObjects},
                         {"results/*/layers", Kind::kObjects},
                         {"results/*/layers/*/cost", Kind::kObject},
                         {"results/*/layers/*/fused_from", Kind::kTexts}};
constexpr Rule kCompare[] = {{"sides", Kind::kObjects},
                             {"sides/*/model", Kind::kObject},
                             {"sides/*/environment", Kind::kTexts},
                             {"sides/*/starts", Kind::kObjects},
                             {"sides/*/starts/*/samples_ms", Kind::kNumbers},
                             {"sides/*/starts/*/undisturbed_ms", Kind::kNumbers},
                             {"attempts", Kind::kObjects},
                             {"attempts/*/interval", Kind::kNumbers},
                             {"effect", Kind::kObject},
                             {"effect/ci95", Kind::kNumbers},
                             {"noise_floor", Kind::kObject}};
constexpr Rule kCompareFiles[] = {{"a", Kind::kObject},
                                  {"a/reports", Kind::kTexts},
                                  {"b", Kind::kObject},
                                  {"b/reports", Kind::kTexts},
                                  {"pairs", Kind::kObjects},
                                  {"pairs/*/a_starts_ms", Kind::kNumbers},
                                  {"pairs/*/b_starts_ms", Kind::kNumbers},
                                  {"pairs/*/effect", Kind::kObject},
                                  {"pairs/*/effect/ci95", Kind::kNumbers},
                                  {"pairs/*/of_runs", Kind::kObject},
                                  {"pairs/*/of_runs/ci95", Kind::kNumbers},
                                  {"pairs/*/noise_floor", Kind::kObject},
                                  {"unmatched", Kind::kTexts}};
constexpr Rule kLoad[] = {{"result", Kind::kObject},
                          {"result/latency_ms", Kind::kObject},
                          {"result/waiting_ms", Kind::kObject},
                          {"result/service_ms", Kind::kObject},
                          {"result/lag_ms", Kind::kObject},
                          {"result/queue", Kind::kObject},
                          {"result/samples", Kind::kObject},
                          {"result/samples/ms", Kind::kNumbers},
                          {"result/samples/at_ms", Kind::kNumbers},
                          {"capacity", Kind::kObject},
                          {"curve", Kind::kObject},
                          {"curve/points", Kind::kObjects},
                          {"curve/points/*/result", Kind::kObject},
                          {"curve/points/*/result/latency_ms", Kind::kObject},
                          {"curve/points/*/result/queue", Kind::kObject},
                          {"scenario", Kind::kObject},
                          {"scenario/reasons", Kind::kTexts},
                          {"scenario/deviations", Kind::kTexts}};
constexpr Rule kSoak[] = {{"windows", Kind::kObjects},
                          {"drift", Kind::kObject},
                          {"drift/latency_ms", Kind::kObject},
                          {"drift/latency_ms/slope_ci95", Kind::kNumbers},
                          {"drift/p99_ms", Kind::kObject},
                          {"drift/resident_bytes", Kind::kObject},
                          {"drift/resident_bytes/slope_ci95", Kind::kNumbers},
                          {"result", Kind::kObject},
                          {"result/latency_ms", Kind::kObject},
                          {"result/waiting_ms", Kind::kObject},
                          {"result/service_ms", Kind::kObject},
                          {"result/lag_ms", Kind::kObject},
                          {"result/queue", Kind::kObject}};

constexpr Rule kPeers[] = {{"engines", Kind::kObjects},
                           {"engines/*/versions", Kind::kObject},
                           {"results", Kind::kObjects},
                           {"results/*/model", Kind::kObject},
                           {"results/*/engines", Kind::kObjects},
                           {"results/*/rounds", Kind::kObjects},
                           {"results/*/rounds/*/median_ms", Kind::kObject},
                           {"results/*/comparisons", Kind::kObjects},
                           {"results/*/comparisons/*/ratio", Kind::kObject},
                           {"results/*/comparisons/*/ratio/ci95", Kind::kNumbers},
                           {"geometric_means", Kind::kObjects},
                           {"geometric_means/*/ratio", Kind::kObject},
                           {"geometric_means/*/ratio/ci95", Kind::kNumbers}};
constexpr Rule kPredict[] = {{"machine", Kind::kObject},
                             {"results", Kind::kObjects},
                             {"results/*/model", Kind::kObject},
                             {"results/*/layers", Kind::kObjects},
                             {"results/*/layers/*/fused_from", Kind::kTexts},
                             {"summary", Kind::kObject}};
constexpr Rule kKernels[] = {
    {"cases", Kind::kObjects},       {"cases/*/check", Kind::kObject},
    {"cases/*/time", Kind::kObject}, {"models", Kind::kObjects},
    {"coverage", Kind::kObject},     {"coverage/not_covered", Kind::kObjects}};
constexpr Rule kAccuracy[] = {{"model", Kind::kObject},
                              {"golden", Kind::kObject},
                              {"candidate", Kind::kObject},
                              {"accuracy", Kind::kObject},
                              {"accuracy/outputs", Kind::kObjects},
                              {"accuracy/outputs/*/rows", Kind::kObject},
                              {"accuracy/layers", Kind::kObjects},
                              {"accuracy/task", Kind::kObject},
                              {"accuracy/task/drop_ci95", Kind::kNumbers},
                              {"gates", Kind::kObjects},
                              {"isolated", Kind::kObjects},
                              {"latency", Kind::kObject},
                              {"latency/speedup", Kind::kObject},
                              {"latency/speedup/median_ci95", Kind::kNumbers},
                              {"quantization", Kind::kObject},
                              {"quantization/layers", Kind::kObjects},
                              {"recipe", Kind::kObject},
                              {"recipe/steps", Kind::kObjects},
                              {"worth", Kind::kObject},
                              {"worth/latency", Kind::kObject},
                              {"worth/latency/ratio", Kind::kObject},
                              {"worth/latency/ratio/median_ci95", Kind::kNumbers}};

struct Schema {
  std::string_view name;
  std::span<const Rule> rules;
};
constexpr std::array<Schema, 10> kSchemas = {{{"infer-bench/run@2", kRun},
                                              {"infer-bench/compare@1", kCompare},
                                              {"infer-bench/compare-files@1", kCompareFiles},
                                              {"infer-bench/load@1", kLoad},
                                              {"infer-bench/soak@1", kSoak},
                                              {"infer-bench/peers@1", kPeers},
                                              {"infer-bench/predict@1", kPredict},
                                              {"infer-bench/kernels@1", kKernels},
                                              {"infer-opt/quantize@1", kAccuracy},
                                              {"infer-opt/compare@1", kAccuracy}}};

/// JSON has no infinities: JsonNumber writes them as texts.
bool IsNumber(const Json& j) {
  return j.is_number() || j.is_null() || j == "nan" || j == "inf" || j == "-inf";
}

template <typename Is>
bool IsArrayOf(const Json& j, Is is) {
  return j.is_array() && std::all_of(j.begin(), j.end(), is);
}

bool Fits(const Json& j, Kind kind) {
  switch (kind) {
    case Kind::kObject: return j.is_object();
    case Kind::kObjects: return IsArrayOf(j, [](const Json& e) { return e.is_object(); });
    case Kind::kTexts: return IsArrayOf(j, [](const Json& e) { return e.is_string(); });
    case Kind::kNumbers: return IsArrayOf(j, IsNumber);
  }
  return false;
}

std::string_view Name(Kind kind) {
  switch (kind) {
    case Kind::kObject: return "an object";
    case Kind::kObjects: return "an array of objects";
    case Kind::kTexts: return "an array of texts";
    case Kind::kNumbers: return "an array of numbers";
  }
  return "";
}

/// `at`: the path of `j`, for the message. Objects before the last part have rules of their own.
Status Check(const Json& j, std::string_view rest, Kind kind, const std::string& at) {
  if (j.is_null()) return {};
  if (rest.empty()) {
    if (Fits(j, kind)) return {};
    return InvalidModel(Cat(at, ": not ", Name(kind)));
  }
  const size_t slash = rest.find('/');
  const std::string part(rest.substr(0, slash));
  rest = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  if (part == "*") {
    for (size_t i = 0; i < j.size(); ++i) INFER_TRY(Check(j[i], rest, kind, Cat(at, "/", i)));
    return {};
  }
  const auto found = j.find(part);
  return found == j.end() ? Status() : Check(*found, rest, kind, Cat(at, "/", part));
}

}  // namespace

Status CheckReport(const Json& report) {
  if (!report.is_object()) return InvalidModel("no JSON object, so no report");
  const auto named = report.find("schema");
  if (named == report.end() || !named->is_string())
    return InvalidModel("it does not say its schema, so it is no report of infer-bench");
  const auto name = named->get<std::string>();
  if (name.starts_with("infer-bench/history@"))
    return InvalidModel("a history of comparisons: --history takes it");
  std::string known;
  for (const Schema& s : kSchemas) {
    known += Cat(known.empty() ? "" : ", ", s.name);
    if (s.name != name) continue;
    for (const std::span<const Rule> rules : {std::span<const Rule>(kCommon), s.rules})
      for (const Rule& r : rules) INFER_TRY(Check(report, r.path, r.kind, ""));
    return {};
  }
  return InvalidModel(Cat("schema ", name, ": the page shows ", known));
}

Result<Json> ReadReport(const std::string& path) {
  auto text = ReadFile(path, kMostBytes);
  if (!text.ok() && text.status().code() == Code::kResource)
    return InvalidModel(Cat(path, ": more than ", HumanBytes(kMostBytes), ", too much for a page"));
  if (!text.ok()) return text.status();
  auto report = ParseJson(*text);
  if (!report.ok()) return InvalidModel(Cat(path, ": ", report.status().message()));
  if (Status s = CheckReport(*report); !s.ok()) return std::move(s).In(path);
  return report;
}

}  // namespace infer
