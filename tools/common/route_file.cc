#include "tools/common/route_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/parse_json.h"
#include "tools/common/variants_file.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostPolicyBytes = uint64_t{1} << 20;
constexpr double kMostSeconds = 1e9;

/// Settings of one table. Keys that nobody asks for are unknown ones.
class Settings {
 public:
  Settings(const Json& table, std::string of) : table_(table), of_(std::move(of)) {
    if (!table_.is_object()) Fail(Cat(of_, " is a table of settings"));
  }

  bool Has(const char* key) {
    asked_.emplace_back(key);
    return table_.is_object() && table_.contains(key);
  }
  void Text(const char* key, std::string* to) {
    if (const Json* j = Find(key)) {
      if (!j->is_string()) return Fail(Cat("'", key, "' is a text"));
      *to = j->get<std::string>();
    }
  }
  void Flag(const char* key, bool* to) {
    if (const Json* j = Find(key)) {
      if (!j->is_boolean()) return Fail(Cat("'", key, "' is true or false"));
      *to = j->get<bool>();
    }
  }
  void Number(const char* key, double* to) {
    if (const Json* j = Find(key)) {
      if (!j->is_number() || !std::isfinite(j->get<double>()))
        return Fail(Cat("'", key, "' is a number"));
      *to = j->get<double>();
    }
  }
  /// Not below 0.
  template <typename Count>
  void Whole(const char* key, Count* to) {
    if (const Json* j = Find(key)) {
      const bool whole = j->is_number_unsigned() || (j->is_number_integer() && *j >= 0);
      if (!whole || j->get<uint64_t>() > uint64_t{1'000'000'000})
        return Fail(Cat("'", key, "' is a whole number from 0 to 1000000000"));
      *to = static_cast<Count>(j->get<uint64_t>());
    }
  }
  /// In units of `unit_ns`; more than 0.
  void Time(const char* key, double unit_ns, int64_t* to_ns) {
    double units = static_cast<double>(*to_ns) / unit_ns;
    Number(key, &units);
    const double ns = units * unit_ns;
    if (!(ns >= 1 && ns <= kMostSeconds * 1e9))
      return Fail(Cat("'", key, "' is more than 0 and less than 30 years"));
    *to_ns = static_cast<int64_t>(std::llround(ns));
  }
  void Numbers(const char* key, std::vector<double>* to) {
    const Json* j = Find(key);
    if (!j) return;
    to->clear();
    const bool all = j->is_array() &&
                     std::all_of(j->begin(), j->end(), [](const Json& n) { return n.is_number(); });
    if (!all) return Fail(Cat("'", key, "' is a list of numbers"));
    for (const Json& n : *j) to->push_back(n.get<double>());
  }
  void Fail(std::string why) {
    if (status_.ok()) status_ = InvalidModel(std::move(why));
  }
  /// The first thing that is wrong.
  Status Finish() {
    if (!status_.ok()) return status_;
    for (const auto& [key, value] : table_.items())
      if (std::find(asked_.begin(), asked_.end(), key) == asked_.end())
        return InvalidModel(
            Cat("'", key, "' is no setting of ", of_, "; it has: ", Join(asked_, ", ")));
    return {};
  }

 private:
  const Json* Find(const char* key) { return Has(key) ? &table_.at(key) : nullptr; }

  const Json& table_;
  std::string of_;
  std::vector<std::string> asked_;
  Status status_;
};

Status ReadExperiment(Settings& s, const Json& file, engine::SplitRoute& mode) {
  if (!s.Has("experiment")) return {};
  engine::ExperimentRules rules;
  Settings e(file.at("experiment"), "an experiment");
  e.Number("alpha", &rules.alpha);
  e.Number("effect", &rules.effect);
  e.Whole("least_samples", &rules.least_samples);
  mode.experiment = rules;
  return e.Finish();
}

void ReadCanary(Settings& s, engine::CanaryRoute& mode) {
  engine::CanaryRules& rules = mode.rules;
  s.Text("salt", &mode.salt);
  s.Numbers("steps", &rules.steps);
  s.Time("interval_s", 1e9, &rules.interval_ns);
  s.Whole("least_samples", &rules.least_samples);
  s.Number("most_error_rate", &rules.most_error_rate);
  s.Number("most_slowdown", &rules.most_slowdown);
  s.Whole("failures_to_roll_back", &rules.failures_to_roll_back);
}

void ReadAffinity(Settings& s, engine::AffinityRoute& mode) {
  std::string by = "key";
  s.Text("by", &by);
  if (by != "key" && by != "device") s.Fail(Cat("'by' is key or device, not '", by, "'"));
  if (by == "key") return s.Text("salt", &mode.salt);
  mode.by = engine::AffinityRoute::By::kDevice;
  s.Whole("seed", &mode.seed);
}

void ReadShadow(Settings& s, engine::ShadowRoute& mode) {
  s.Number("share", &mode.share);
  s.Whole("most_waiting", &mode.most_waiting);
  s.Time("timeout_s", 1e9, &mode.timeout_ns);
  s.Whole("seed", &mode.seed);
}

void ReadCascade(Settings& s, engine::CascadeRoute& mode) {
  s.Number("min_confidence", &mode.min_confidence);
  s.Flag("logits", &mode.logits);
  s.Whole("output", &mode.output);
}

/// The settings of the mode that the file names.
Status ReadMode(Settings& s, const Json& file, const std::string& name, engine::RouteMode& mode) {
  if (name == "split") {
    engine::SplitRoute split;
    s.Text("salt", &split.salt);
    INFER_TRY(ReadExperiment(s, file, split));
    mode = std::move(split);
  } else if (name == "canary") {
    ReadCanary(s, mode.emplace<engine::CanaryRoute>());
  } else if (name == "affinity") {
    ReadAffinity(s, mode.emplace<engine::AffinityRoute>());
  } else if (name == "balance") {
    s.Whole("seed", &mode.emplace<engine::BalanceRoute>().seed);
  } else if (name == "shadow") {
    ReadShadow(s, mode.emplace<engine::ShadowRoute>());
  } else if (name == "cascade") {
    ReadCascade(s, mode.emplace<engine::CascadeRoute>());
  } else if (name == "slo") {
    s.Number("margin", &mode.emplace<engine::SloRoute>().margin);
  } else {
    return InvalidModel(Cat(name.empty() ? "'mode' is missing" : Cat("no mode '", name, "'"),
                            ": split, canary, affinity, balance, shadow, cascade or slo"));
  }
  return {};
}

struct VariantEntry {
  engine::RouteVariant variant;
  std::string path;
};

Result<VariantEntry> ReadVariant(const Json& table, const std::string& mode) {
  VariantEntry e;
  Settings s(table, Cat("a variant of mode ", mode));
  s.Text("name", &e.variant.model);
  s.Text("path", &e.path);
  double number = 0;
  for (const auto& [key, to] :
       {std::pair{"weight", &e.variant.weight}, std::pair{"accuracy", &e.variant.accuracy}})
    if (s.Has(key)) {
      s.Number(key, &number);
      *to = number;
    }
  if (s.Has("run_ms")) s.Time("run_ms", 1e6, &e.variant.run_ns.emplace(1));
  if (s.Has("device")) s.Text("device", &e.variant.device.emplace());
  INFER_TRY(s.Finish());
  if (e.variant.model.empty()) return InvalidModel("a variant has no 'name'");
  return e;
}

/// Takes what a variants.json says of the variants that the file names without a path, or of all.
Status Complete(const std::string& json, const engine::RouteMode& mode, const std::string& device,
                std::vector<VariantEntry>& entries) {
  const bool slo = std::holds_alternative<engine::SloRoute>(mode);
  const auto* affinity = std::get_if<engine::AffinityRoute>(&mode);
  const bool by_device = affinity && affinity->by == engine::AffinityRoute::By::kDevice;
  INFER_ASSIGN(const std::vector<VariantFile> listed, ReadVariants(json));
  if (entries.empty())
    for (const VariantFile& f : listed) entries.push_back({.variant = {.model = f.id}, .path = {}});
  for (VariantEntry& e : entries) {
    if (!e.path.empty()) continue;
    const auto f = std::find_if(listed.begin(), listed.end(),
                                [&](const VariantFile& v) { return v.id == e.variant.model; });
    if (f == listed.end())
      return InvalidModel(Cat(json, " has no variant '", e.variant.model, "'"));
    e.path = f->path;
    if (by_device && !e.variant.device) e.variant.device = f->device;
    if (!slo) continue;
    if (!e.variant.accuracy) e.variant.accuracy = f->accuracy;
    // A time of another device tells nothing; the engine learns it from the first runs.
    const bool is_here = !f->device || *f->device == device;
    if (!e.variant.run_ns && is_here && f->latency_ms > 0)
      e.variant.run_ns = std::max<int64_t>(1, std::llround(f->latency_ms * 1e6));
  }
  return {};
}

Result<RouteFile> ReadRoute(const Json& file, const fs::path& folder, const std::string& device) {
  if (!file.is_object()) return InvalidModel("a route is a table of settings");
  RouteFile out;
  std::string mode, json;
  if (file.contains("mode") && file.at("mode").is_string()) mode = file.at("mode");
  Settings s(file, Cat("mode ", mode));
  s.Text("mode", &mode);
  INFER_TRY(ReadMode(s, file, mode, out.policy.mode));
  if (s.Has("breaker")) {
    Settings b(file.at("breaker"), "a breaker");
    b.Whole("failures", &out.policy.breaker.failures);
    b.Time("open_s", 1e9, &out.policy.breaker.open_ns);
    INFER_TRY(b.Finish());
  }
  std::vector<VariantEntry> entries;
  if (s.Has("variants")) {
    if (!file.at("variants").is_array()) return InvalidModel("'variants' is a list of tables");
    for (const Json& table : file.at("variants")) {
      INFER_ASSIGN(VariantEntry e, ReadVariant(table, mode));
      entries.push_back(std::move(e));
    }
  }
  s.Text("variants_json", &json);
  INFER_TRY(s.Finish());
  const auto beside = [&](const std::string& path) { return (folder / path).string(); };
  for (VariantEntry& e : entries)
    if (!e.path.empty()) e.path = beside(e.path);
  if (!json.empty()) INFER_TRY(Complete(beside(json), out.policy.mode, device, entries));
  for (VariantEntry& e : entries) {
    out.policy.variants.push_back(std::move(e.variant));
    out.paths.push_back(std::move(e.path));
  }
  if (std::count(out.paths.begin(), out.paths.end(), "") > 1)
    return InvalidModel("more than one variant has no 'path'");
  if (Status fits = Check(out.policy); !fits.ok()) return InvalidModel(fits.message());
  return out;
}

}  // namespace

Result<RouteFile> ReadRouteFile(const std::string& path, const std::string& device) {
  INFER_ASSIGN(const std::string text, ReadFile(path, kMostPolicyBytes));
  const std::string_view trimmed = Trim(text);
  const bool json = !trimmed.empty() && trimmed.front() == '{';
  Result<Json> file = json ? ParseJson(text) : JsonOfToml(text);
  if (!file.ok()) return InvalidModel(Cat(path, ": ", file.status().message()));
  auto route = ReadRoute(*file, fs::path(path).parent_path(), device);
  if (!route.ok() && route.status().code() == Code::kInvalidModel)
    return InvalidModel(Cat(path, ": ", route.status().message()));
  return route;
}

}  // namespace infer
