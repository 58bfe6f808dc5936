#include "tools/infer_bench/tune/tune_report.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer::bench {
namespace {

Json EvidenceJson(const TuneCandidate& c, const Evidence& e, const Slo& slo) {
  if (e.queries() == 0) return nullptr;
  Json limits = Json::array();
  for (const SloLimit& limit : slo) {
    const Percentile p = e.latency().AtQuantile(limit.q);
    limits.push_back({{"percentile", limit.name},
                      {"ms", p.value ? Json(*p.value + c.gather_ms) : Json()},
                      {"upper_99_ms", p.upper ? Json(*p.upper + c.gather_ms) : Json()},
                      {"beyond", e.latency().CountAbove(limit.ms - c.gather_ms)},
                      {"limit_ms", limit.ms}});
  }
  return {{"queries", e.queries()},
          {"seconds", e.seconds()},
          {"samples_per_s", e.samples_per_s()},
          {"min_ms", e.latency().min()},
          {"p50_ms", e.latency().Quantile(0.5)},
          {"max_ms", e.latency().max()},
          {"limits", std::move(limits)}};
}

Json CandidateJson(const TuneCandidate& c, const TuneOptions& o) {
  return {{"name", c.setting.Name()},
          {"variant", c.setting.variant.empty() ? Json() : Json(c.setting.variant)},
          {"precision", c.setting.precision},
          {"threads", c.setting.threads},
          {"batch", c.batch > 0           ? Json(c.batch)
                    : c.setting.batch > 0 ? Json(c.setting.batch)
                                          : Json()},
          {"lanes", c.setting.lanes},
          {"max_batch", c.setting.max_batch > 0 ? Json(c.setting.max_batch) : Json()},
          {"fate", Name(c.fate)},
          {"reason", c.reason},
          {"accuracy_loss", c.setting.accuracy_loss ? Json(*c.setting.accuracy_loss) : Json()},
          {"sqnr_db", c.sqnr_db ? JsonNumber(*c.sqnr_db) : Json()},
          {"gather_ms", c.gather_ms},
          {"closed_loop", EvidenceJson(c, c.closed, o.slo)},
          {"open_loop", EvidenceJson(c, c.open, o.slo)},
          {"confirmed", EvidenceJson(c, c.confirmed, o.slo)}};
}

/// The freshest of what the SLO is about.
const Evidence& Shown(const TuneCandidate& c) {
  if (c.confirmed.queries() > 0) return c.confirmed;
  return c.open.queries() > 0 ? c.open : c.closed;
}

std::vector<std::string> Row(const TuneCandidate& c, const TuneOptions& o) {
  const Evidence& e = Shown(c);
  const bool any = e.queries() > 0;
  std::vector<std::string> row = {
      c.setting.variant.empty() ? c.setting.precision : c.setting.variant, Cat(c.setting.threads),
      c.setting.max_batch > 0 ? Cat(c.setting.max_batch)
      : c.batch > 0           ? Cat(c.batch)
      : c.setting.batch > 0   ? Cat(c.setting.batch)
                              : "-",
      Cat(c.setting.lanes)};
  row.push_back(any ? Cat(e.queries()) : "-");
  row.push_back(any ? Rounded(e.latency().Quantile(0.5) + c.gather_ms, 4) : "-");
  for (const SloLimit& limit : o.slo) {
    const Percentile p = e.latency().AtQuantile(limit.q);
    row.push_back(p.upper ? Rounded(*p.upper + c.gather_ms, 4) : "-");
  }
  row.push_back(c.closed.queries() > 0 ? Rounded(c.samples_per_s(), 4) : "-");
  row.emplace_back(Name(c.fate));
  row.push_back(c.reason);
  return row;
}

}  // namespace

Json ToJson(const Slo& slo) {
  Json out = Json::array();
  for (const SloLimit& limit : slo)
    out.push_back({{"percentile", limit.name}, {"limit_ms", limit.ms}});
  return out;
}

Json ToJson(const TuneResult& r, const TuneOptions& o) {
  Json candidates = Json::array();
  for (const TuneCandidate& c : r.candidates) candidates.push_back(CandidateJson(c, o));
  const auto name = [&](const std::optional<size_t>& i) {
    return i ? Json(r.candidates[*i].setting.Name()) : Json();
  };
  return {{"verdict", Name(r.verdict)},   {"reason", r.reason},
          {"seconds", r.seconds},         {"measurements", r.measurements},
          {"interrupted", r.interrupted}, {"candidates", std::move(candidates)},
          {"chosen", name(r.chosen)},     {"best_guess", name(r.best_guess)}};
}

std::string TuneTable(const TuneResult& r, const TuneOptions& o) {
  std::vector<std::vector<std::string>> rows = {
      {"precision", "threads", "batch", "lanes", "queries", "p50 ms"}};
  if (!r.candidates.empty() && r.candidates[0].setting.max_batch > 0) {
    rows[0][2] = "max batch";
    rows[0][3] = "instances";
  }
  for (const SloLimit& limit : o.slo) rows[0].push_back(Cat(limit.name, " <= ms"));
  for (const char* name : {"samples/s", "", ""}) rows[0].emplace_back(name);
  for (const TuneCandidate& c : r.candidates) rows.push_back(Row(c, o));
  std::string out = TextTable(rows);
  std::vector<std::string> limits;
  for (const SloLimit& limit : o.slo)
    limits.push_back(Cat(limit.name, " <= ", Rounded(limit.ms, 6), " ms"));
  out += Cat(Join(limits, ", "), ": ", Name(r.verdict), r.reason.empty() ? "" : ": ", r.reason,
             " (", r.measurements, " measurements, ", Fixed(r.seconds, 1), " s)\n");
  if (r.chosen) out += Cat("chosen: ", r.candidates[*r.chosen].setting.Name(), "\n");
  if (r.best_guess)
    out += Cat("most promising: ", r.candidates[*r.best_guess].setting.Name(), "\n");
  return out;
}

}  // namespace infer::bench
