#include "tools/infer_bench/peers/peers_report.h"

#include <algorithm>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer::peers {
namespace {

Json ToJson(const Ratio& r) { return {{"median", r.median}, {"ci95", {r.low, r.high}}}; }

Json ToJson(const Contender& c) {
  Json j = {{"name", c.name}, {"failure", c.failure}};
  if (!c.loaded.is_object()) return j;
  j["load_ms"] = c.load_ms;
  j["first_ms"] = c.first_ms;
  j["timed"] = c.loaded.value("timed", "");
  j["settings"] = c.loaded.value("settings", Json::object());
  j["warmup_runs"] = c.warmup_runs;
  j["stable"] = c.stable;
  j["brought_back_threads"] = c.brought_back;
  j["settle_runs"] = c.settle_runs;
  j["block_runs"] = c.block_runs;
  if (c.samples_ms.empty()) return j;
  const Summary s = Summarize(c.samples_ms);
  j["latency_ms"] = infer::ToJson(s);
  if (QuantileSupported(s.count, 0.9)) j["latency_ms"]["p90"] = Quantile(c.samples_ms, 0.9);
  return j;
}

Json ToJson(const Round& r, const std::vector<Contender>& contenders) {
  Json order = Json::array(), medians = Json::object();
  for (size_t i : r.order) order.push_back(contenders[i].name);
  for (size_t i = 0; i < contenders.size(); ++i)
    if (std::isfinite(r.median_ms[i])) medians[contenders[i].name] = r.median_ms[i];
  return {{"start", r.start},     {"order", std::move(order)},  {"median_ms", std::move(medians)},
          {"seconds", r.seconds}, {"other_load", r.other_load}, {"waiting_load", r.waiting_load},
          {"quiet", r.quiet}};
}

Json ToJson(const OutputDifference& d) {
  return {{"name", d.name},
          {"max_ratio", JsonNumber(d.max_ratio)},
          {"rms_ratio", JsonNumber(d.rms_ratio)},
          {"differing_share", d.differing_share},
          {"beyond_one_share", d.beyond_one_share},
          {"agrees", d.agrees}};
}

Json ToJson(const Comparison& c) {
  Json outputs = Json::array();
  for (const OutputDifference& d : c.outputs) outputs.push_back(ToJson(d));
  return {{"peer", c.peer},
          {"outputs", std::move(outputs)},
          {"outputs_agree", c.outputs.empty() ? Json() : Json(!c.disagrees)},
          {"ratio", c.ratio ? ToJson(*c.ratio) : Json()},
          {"verdict", c.ratio ? WordOf(*c.ratio) : "none"},
          {"reason", c.reason}};
}

/// Of a reason, which may be a page of an engine's, what fits a table. The report has it whole.
std::string Short(const std::string& reason) {
  constexpr size_t kMost = 120;
  std::string text;
  for (char c : reason) {
    const bool space = c == ' ' || c == '\n' || c == '\t';
    if (!space || (!text.empty() && text.back() != ' ')) text += space ? ' ' : c;
    if (text.size() == kMost) return text + " ...";
  }
  return text;
}

std::vector<std::string> RowOf(const NamedOutcome& o, size_t k) {
  const Contender& c = o.outcome.contenders[k];
  std::vector<std::string> row = {o.path, Cat(o.outcome.threads), c.name};
  if (c.samples_ms.empty()) {
    row.insert(row.end(), {"-", "-"});
  } else {
    const auto count = static_cast<int64_t>(c.samples_ms.size());
    row.push_back(Fixed(Quantile(c.samples_ms, 0.5), 3));
    row.push_back(QuantileSupported(count, 0.9) ? Fixed(Quantile(c.samples_ms, 0.9), 3) : "-");
  }
  if (k == 0) {
    row.insert(row.end(), {"", "", Short(c.failure)});
    return row;
  }
  const Comparison& comparison = o.outcome.comparisons[k - 1];
  if (const auto& r = comparison.ratio)
    row.insert(row.end(),
               {Fixed(r->median, 3), Cat(Fixed(r->low, 3), " to ", Fixed(r->high, 3)), WordOf(*r)});
  else
    row.insert(row.end(), {"-", "-", "no verdict: " + Short(comparison.reason)});
  return row;
}

}  // namespace

std::vector<GeometricRow> GeometricRows(const std::vector<NamedOutcome>& outcomes) {
  std::vector<GeometricRow> rows;
  std::vector<std::vector<StartRatios>> ratios;
  for (const NamedOutcome& o : outcomes)
    for (const Comparison& c : o.outcome.comparisons) {
      const auto it = std::find_if(rows.begin(), rows.end(), [&](const GeometricRow& r) {
        return r.peer == c.peer && r.threads == o.outcome.threads;
      });
      const auto at = static_cast<size_t>(it - rows.begin());
      if (it == rows.end()) {
        rows.push_back({.peer = c.peer, .threads = o.outcome.threads});
        ratios.emplace_back();
      }
      (c.ratio ? rows[at].models : rows[at].left_out).push_back(o.path);
      if (c.ratio) ratios[at].push_back(c.start_ratios);
    }
  for (size_t i = 0; i < rows.size(); ++i)
    if (!ratios[i].empty()) rows[i].ratio = GeometricMean(ratios[i]);
  return rows;
}

Json ToJson(const EngineState& e) {
  return {{"name", e.spec.name},
          {"status", e.failure.empty() ? "ok"
                     : e.missing       ? "missing"
                                       : "failed"},
          {"message", e.failure},
          {"versions", e.versions}};
}

Json GatedJson(const Comparison& c, double max_ratio) {
  Json j = ToJson(c);
  j["gate"] = max_ratio > 0 && c.ratio ? Json(NameOf(GateOf(*c.ratio, max_ratio))) : Json();
  return j;
}

Json ToJson(const ModelOutcome& o) {
  Json j = {{"threads", o.threads}, {"cpus", o.cpus}};
  j["agreement"] = {{"quantized", o.rule.quantized}, {"rule", o.rule.ToString()}};
  j["engines"] = Json::array();
  for (const Contender& c : o.contenders) j["engines"].push_back(ToJson(c));
  j["rounds"] = Json::array();
  for (const Round& r : o.contest.rounds) j["rounds"].push_back(ToJson(r, o.contenders));
  j["quiet_rounds"] = o.contest.quiet_rounds;
  j["other_load"] = o.contest.other_load();
  j["other_load_known"] = o.contest.load_known;
  return j;
}

Json ToJson(const GeometricRow& r) {
  return {{"peer", r.peer},
          {"threads", r.threads},
          {"models", r.models},
          {"left_out", r.left_out},
          {"ratio", r.models.empty() ? Json() : ToJson(r.ratio)},
          {"verdict", r.models.empty() ? "none" : WordOf(r.ratio)}};
}

std::string OutcomeTable(const std::vector<NamedOutcome>& outcomes,
                         const std::vector<GeometricRow>& means) {
  const std::string base = outcomes.empty() ? "" : outcomes[0].outcome.contenders[0].name;
  std::vector<std::vector<std::string>> rows = {{"model", "threads", "engine", "median ms", "p90",
                                                 Cat(base, " / engine"), "95 % interval",
                                                 Cat(base, " is")}};
  for (const NamedOutcome& o : outcomes)
    for (size_t k = 0; k < o.outcome.contenders.size(); ++k) rows.push_back(RowOf(o, k));
  for (const GeometricRow& m : means) {
    if (m.models.size() < 2) continue;
    std::string name = Cat("geometric mean of ", m.models.size());
    if (!m.left_out.empty()) name += Cat(" (", m.left_out.size(), " left out)");
    rows.push_back({name, Cat(m.threads), m.peer, "", "", Fixed(m.ratio.median, 3),
                    Cat(Fixed(m.ratio.low, 3), " to ", Fixed(m.ratio.high, 3)), WordOf(m.ratio)});
  }
  return TextTable(rows);
}

}  // namespace infer::peers
