#include "tools/infer_bench/load/recommendations.h"

#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer::bench {
namespace {

using engine::Gain;
using engine::Recommendation;
using engine::Setting;

/// "1 by 2 instances" as options.
std::string ThreadsOption(const std::string& to) {
  const size_t by = to.find(" by ");
  return Cat("--threads ", to.substr(0, by), " --lanes ",
             to.substr(by + 4, to.find(' ', by + 4) - by - 4));
}

/// The option of `infer-bench load` and `soak` that does it; "": there is none.
std::string OptionFor(const Recommendation& r) {
  switch (r.setting) {
    case Setting::kInstances: return Cat("--lanes ", r.to);
    case Setting::kMaxRows: return Cat("--max-batch ", r.to);
    case Setting::kMaxDelay: return "--batch-delay 0";
    case Setting::kAdapts: return "--adapt-batch";
    case Setting::kBuckets: return "--pad-to";
    case Setting::kVariant: return "--route";
    case Setting::kThreads: return ThreadsOption(r.to);
    case Setting::kPrecision: return Cat("--precision ", r.to);
    case Setting::kMemory: return "--model-memory";
    case Setting::kMaxRequests: return "";
  }
  return "";
}

std::string Percent(double share) { return Cat(std::lround(100 * share), " %"); }

std::string GainText(const std::optional<Gain>& gain) {
  if (!gain) return "only a trial tells the gain";
  return Cat(Percent(gain->low), " to ", Percent(gain->high),
             gain->of == Gain::Of::kThroughput ? " more throughput" : " less latency");
}

std::string Text(const Recommendation& r) {
  std::string out = Cat("recommended: ", Name(r.setting), " ", r.from, " -> ", r.to, " (",
                        GainText(r.gain), "). ", r.why);
  const std::string option = OptionFor(r);
  if (!option.empty()) out += Cat(" Try ", option, ".");
  out += "\n ";
  for (const auto& [figure, value] : r.evidence) out += Cat("  ", figure, ": ", Rounded(value, 3));
  return out + "\n";
}

}  // namespace

Json RecommendationsJson(const std::vector<AdvisedModel>& models) {
  Json list = Json::array();
  for (const AdvisedModel& m : models)
    for (const Recommendation& r : m.advised.recommendations) {
      Json evidence = Json::array();
      for (const auto& [figure, value] : r.evidence)
        evidence.push_back({{"figure", figure}, {"value", JsonNumber(value)}});
      const std::string option = OptionFor(r);
      list.push_back(
          {{"variant", m.name},
           {"setting", Name(r.setting)},
           {"from", r.from},
           {"to", r.to},
           {"why", r.why},
           {"evidence", std::move(evidence)},
           {"gain",
            r.gain ? Json({{"of", Name(r.gain->of)}, {"low", r.gain->low}, {"high", r.gain->high}})
                   : Json()},
           {"try", option.empty() ? Json() : Json(option)}});
    }
  return list;
}

Json NoRecommendationJson(const std::vector<AdvisedModel>& models) {
  std::string none;
  for (const AdvisedModel& m : models) {
    if (m.advised.none.empty()) return nullptr;
    none +=
        Cat(none.empty() ? "" : "; ", models.size() > 1 ? Cat(m.name, ": ") : "", m.advised.none);
  }
  return none;
}

std::string RecommendationsText(const std::vector<AdvisedModel>& models) {
  std::string out;
  for (const AdvisedModel& m : models)
    for (const Recommendation& r : m.advised.recommendations)
      out += Cat(models.size() > 1 ? Cat(m.name, ": ") : "", Text(r));
  const Json none = NoRecommendationJson(models);
  if (none.is_string()) out += Cat("nothing to recommend: ", none.get<std::string>(), "\n");
  return out;
}

}  // namespace infer::bench
