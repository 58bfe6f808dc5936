#include "tools/infer_opt/quantize/policy_file.h"

#include <algorithm>

#include "lib/support/file.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/json_names.h"

namespace infer {
namespace {

constexpr const char* kSchema = "infer-opt/policy@1";
constexpr size_t kShownLayers = 12;

std::string_view NameOf(ErrorMeasure m) {
  switch (m) {
    case ErrorMeasure::kNoise: return "noise";
    case ErrorMeasure::kKl: return "kl";
    case ErrorMeasure::kLoss: return "loss";
  }
  return "";
}

Json ScoreJson(const Score& s) {
  return {{"sqnr_db", JsonNumber(s.sqnr_db())},
          {"kl", JsonNumber(s.kl)},
          {"agreement", JsonNumber(s.agreement)},
          {"loss", JsonNumber(s.loss)},
          {"drop", JsonNumber(s.drop)}};
}

Json CountsJson(const Policy& policy) {
  Json counts = Json::object();
  for (const Precision p : kPrecisions) {
    const auto n = std::count_if(policy.begin(), policy.end(),
                                 [&](const auto& l) { return l.second.precision == p; });
    if (n > 0) counts[std::string(Name(p))] = n;
  }
  return counts;
}

Json PrecisionsJson(const Policy& policy) {
  Json j = Json::object();
  for (const auto& [layer, choice] : policy) j[JsonName(layer)] = Name(choice.precision);
  return j;
}

Json PointJson(const FrontPoint& p, ErrorMeasure m) {
  return {{"name", p.name},
          {"precisions", PrecisionsJson(p.policy)},
          {"layers", CountsJson(p.policy)},
          {"bytes", p.bytes},
          {"ms", p.ms ? Json(*p.ms) : Json()},
          {"predicted_ms", p.predicted.ms},
          {"predicted_error", p.predicted.error},
          {"verified", p.verified},
          {"within_limits", p.within_limits},
          {"error", JsonNumber(ErrorOf(p.score, m))},
          {"beats", p.beats},
          {"score", ScoreJson(p.score)}};
}

std::vector<std::string> PointRow(const FrontPoint& p) {
  std::string layers;
  const Json counts = CountsJson(p.policy);
  for (const auto& [name, n] : counts.items())
    layers += Cat(layers.empty() ? "" : ", ", n.get<int64_t>(), " ", name);
  if (!p.verified) return {p.name, HumanBytes(p.bytes), "-", "-", "-", "-", "not run", "", layers};
  return {p.name,
          HumanBytes(p.bytes),
          p.ms ? Fixed(*p.ms, 3) : Cat("~", Fixed(p.predicted.ms, 3)),
          Fixed(p.score.sqnr_db(), 1),
          Rounded(p.score.kl, 3),
          Fixed(100 * p.score.agreement, 1),
          p.within_limits ? "yes" : "no",
          Join(p.beats, ", "),
          layers};
}

}  // namespace

Json PolicyJson(const Policy& policy, const MixedModel& model) {
  Json j = {{"schema", kSchema}, {"layers", Json::array()}};
  for (const SearchLayer& layer : model.layers()) {
    const auto it = policy.find(layer.key);
    const LayerPolicy choice = it == policy.end() ? LayerPolicy{} : it->second;
    j["layers"].push_back({{"layer", JsonName(layer.key)},
                           {"node", JsonName(layer.name)},
                           {"op", layer.op},
                           {"precision", Name(choice.precision)},
                           {"reason", choice.reason}});
  }
  return j;
}

Result<Policy> ReadPolicy(const std::string& path) {
  INFER_ASSIGN(const std::string text, ReadFile(path, uint64_t{1} << 28));
  const Json j = Json::parse(text, nullptr, false);
  if (!j.is_object() || !j.contains("schema") || j["schema"] != kSchema || !j.contains("layers") ||
      !j["layers"].is_array())
    return InvalidModel(Cat(path, ": no policy (", kSchema, ")"));
  Policy policy;
  for (const Json& l : j["layers"]) {
    if (!l.is_object() || !l.contains("layer") || !l["layer"].is_string() ||
        !l.contains("precision") || !l["precision"].is_string())
      return InvalidModel(Cat(path, ": a layer needs \"layer\" and \"precision\""));
    const auto precision = ParsePrecision(l["precision"].get<std::string>());
    if (!precision)
      return InvalidModel(Cat(path, ": no precision '", l["precision"].get<std::string>(), "'"));
    const bool reason = l.contains("reason") && l["reason"].is_string();
    policy[NameOfJson(l["layer"].get<std::string>())] = {
        *precision, reason ? l["reason"].get<std::string>() : ""};
  }
  return policy;
}

Json ToJson(const SearchResult& r, const SearchOptions& options) {
  Json j = {{"goal", options.goal == SearchGoal::kSize ? "size" : "latency"},
            {"measure", NameOf(r.measure)},
            {"measured", r.measured},
            {"reused", r.reused},
            {"skipped", r.skipped}};
  j["layers"] = Json::array();
  for (const LayerRecord& layer : r.layers) {
    Json l = {{"layer", layer.layer.key}, {"node", layer.layer.name}, {"op", layer.layer.op}};
    l["options"] = Json::array();
    for (const LayerOption& o : layer.options) {
      Json option = {{"precision", Name(o.precision)}, {"measured", o.measured},
                     {"estimated", o.estimated},       {"error", JsonNumber(o.cost.error)},
                     {"bytes", o.cost.bytes},          {"ms", o.cost.ms}};
      if (o.measured && o.precision != Precision::kF32) option["score"] = ScoreJson(o.score);
      l["options"].push_back(std::move(option));
    }
    j["layers"].push_back(std::move(l));
  }
  j["values"] = Json::array();
  for (const ValueScore& v : r.values)
    j["values"].push_back({{"name", v.name}, {"score", ScoreJson(v.score)}});
  j["accumulated"] = Json::array();
  for (const ValueAccuracy& v : r.accumulated)
    j["accumulated"].push_back(
        {{"name", v.name}, {"op", v.op}, {"sqnr_db", JsonNumber(v.metrics.sqnr_db)}});
  for (const auto& [name, points] : {std::pair("uniform", &r.uniform), {"front", &r.front}}) {
    j[name] = Json::array();
    for (const FrontPoint& p : *points) j[name].push_back(PointJson(p, r.measure));
  }
  j["chosen"] = PointJson(r.chosen, r.measure);
  return j;
}

std::string ToText(const SearchResult& r, const SearchOptions& options) {
  std::vector<std::vector<std::string>> rows = {{"policy", "constants", "ms", "SQNR dB", "KL",
                                                 "top-1 same %", "keeps limits", "beats",
                                                 "layers"}};
  for (const auto* points : {&r.uniform, &r.front})
    for (const FrontPoint& p : *points) rows.push_back(PointRow(p));
  rows.push_back(PointRow(r.chosen));
  std::string out = Cat("searched for ", options.goal == SearchGoal::kSize ? "size" : "latency",
                        ", layers ranked by ", NameOf(r.measure), "; ", r.measured, " measured, ",
                        r.reused, " taken from the log\n", TextTable(rows));
  struct Row {
    const LayerRecord* layer;
    const LayerOption* option;
  };
  std::vector<Row> worst;
  for (const LayerRecord& l : r.layers)
    for (const LayerOption& o : l.options)
      if (o.measured && o.precision != Precision::kF32) worst.push_back({&l, &o});
  std::stable_sort(worst.begin(), worst.end(), [](const Row& a, const Row& b) {
    return a.option->cost.error > b.option->cost.error;
  });
  worst.resize(std::min(worst.size(), kShownLayers));
  std::vector<std::vector<std::string>> table = {
      {"most sensitive", "operator", "alone in", "error", "SQNR dB", "ms", "ms in f32"}};
  for (const Row& w : worst)
    table.push_back({w.layer->layer.name, w.layer->layer.op, std::string(Name(w.option->precision)),
                     Rounded(w.option->cost.error, 3), Fixed(w.option->score.sqnr_db(), 1),
                     Rounded(w.option->cost.ms, 3), Rounded(w.layer->options[0].cost.ms, 3)});
  return out + "\n" + TextTable(table);
}

}  // namespace infer
