#include "tools/bench/bench_json.h"

namespace infer::bench {
namespace {

Json OrNull(const std::optional<double>& v) { return v ? Json(*v) : Json(); }

}  // namespace

Json ToJson(const Distribution& d) {
  Json j = {{"runs", d.count},
            {"median", d.median},
            {"median_ci95", {d.median_low, d.median_high}},
            {"mean", d.mean},
            {"min", d.min},
            {"max", d.max},
            {"stddev", d.stddev},
            {"mad", d.mad},
            {"cv", d.cv},
            {"outliers", d.outliers.size()},
            {"outlier_indices", d.outliers}};
  Json upper = Json::object(), withheld = Json::object();
  for (const Percentile& p : d.percentiles) {
    j[p.name] = OrNull(p.value);
    upper[p.name] = OrNull(p.upper);
    if (!p.withheld.empty()) withheld[p.name] = p.withheld;
  }
  j["upper_99"] = std::move(upper);
  j["withheld"] = std::move(withheld);
  return j;
}

Json ToJson(const RunSamples& s) {
  return {{"at_ms", s.at_ms}, {"ms", s.ms}, {"cpu_ms", s.cpu_ms}};
}

Json ToJson(const WarmUp& w) {
  return {{"runs", w.samples.size()}, {"ended", Name(w.ended)}, {"stable", w.stable()},
          {"before_ms", w.before_ms}, {"last_ms", w.last_ms},   {"samples_ms", w.samples.ms}};
}

Json ToJson(const Environment& e) {
  Json caches = Json::array();
  for (const CacheFacts& c : e.caches)
    caches.push_back(
        {{"level", c.level}, {"type", c.type}, {"bytes", c.bytes}, {"shared_by", c.shared_by}});
  return {{"date", e.date},
          {"host_name", e.host_name},
          {"hypervisor", e.hypervisor},
          {"load", {e.load_1min, e.load_5min, e.load_15min}},
          {"affinity", e.affinity},
          {"cores", e.cores},
          {"caches", std::move(caches)},
          {"governors", e.governors},
          {"mhz", e.mhz},
          {"git_revision", e.git_revision},
          {"libraries", e.libraries},
          {"variables", e.variables}};
}

Json ToJson(const Watched& w) {
  return {{"seconds", w.seconds},
          {"own_cores", w.own_cores},
          {"other_cores", w.other_cores < 0 ? Json() : Json(w.other_cores)},
          {"stolen_cores", w.stolen_cores},
          {"spin_before_ms", w.spin_before_ms},
          {"spin_after_ms", w.spin_after_ms},
          {"mhz_before", w.mhz_before},
          {"mhz_after", w.mhz_after},
          {"preemptions", w.preemptions}};
}

Json ToJson(const std::vector<CorePair>& pairs) {
  Json out = Json::array();
  for (const CorePair& p : pairs)
    out.push_back(
        {{"processors", {p.a, p.b}}, {"slowdown", p.slowdown}, {"shares_core", p.shares_core()}});
  return out;
}

}  // namespace infer::bench
