#include "tools/infer_opt/fuse/report.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr size_t kMaxRefusals = 10;  // lines for people
constexpr size_t kShownNodes = 6;

Json ToJson(const GraphStatistics& s, const Graph& g) {
  Json operators = Json::object();
  for (const auto& [op, n] : s.operators) operators[op] = n;
  const auto peak = PeakActivationBytes(g);
  return {{"nodes", s.nodes},
          {"operators", operators},
          {"constant_bytes", s.constant_bytes},
          {"cost", infer::ToJson(s.cost)},
          {"peak_activation_bytes", peak ? Json(*peak) : Json()}};
}

std::string_view OutcomeName(MatchRecord::Outcome o) {
  switch (o) {
    case MatchRecord::Outcome::kApplied: return "applied";
    case MatchRecord::Outcome::kRefused: return "refused";
    case MatchRecord::Outcome::kNoMatch: return "no match";
  }
  return "?";
}

/// All runs of one pass.
struct PassTime {
  std::string pass;
  int64_t runs = 0;
  double ms = 0, check_ms = 0;
};

/// In the order in which the passes ran first.
std::vector<PassTime> PassTimes(const OptimizeReport& r) {
  std::vector<PassTime> times;
  for (const PassRecord& p : r.passes) {
    auto at = std::find_if(times.begin(), times.end(),
                           [&](const PassTime& t) { return t.pass == p.name; });
    if (at == times.end()) at = times.insert(at, {.pass = p.name});
    ++at->runs;
    at->ms += p.ms;
    at->check_ms += p.verify_ms;
  }
  return times;
}

/// Why each rule was refused: how often.
std::map<std::string, std::map<std::string, int64_t>> ReasonsOf(const OptimizeReport& r) {
  std::map<std::string, std::map<std::string, int64_t>> reasons;
  for (const MatchRecord& m : r.records)
    if (m.outcome == MatchRecord::Outcome::kRefused) ++reasons[m.rule][m.reason];
  return reasons;
}

/// One line for all places where a rule refused for the same reason; attempts that came furthest
/// first.
std::string Refusals(const OptimizeReport& r) {
  using Key = std::tuple<bool, int, std::string, std::string>;  // no match, -matched, rule, reason
  std::map<Key, std::set<std::string>> places;
  for (const MatchRecord& m : r.records)
    if (m.outcome != MatchRecord::Outcome::kApplied)
      places[{m.outcome == MatchRecord::Outcome::kNoMatch, -m.matched, m.rule, m.reason}].insert(
          m.at);
  std::string out;
  size_t shown = 0;
  for (const auto& [key, at] : places) {
    if (++shown > kMaxRefusals) break;
    const auto& [no_match, matched, rule, reason] = key;
    const std::string more = at.size() > 1 ? Cat(" and ", at.size() - 1, " more") : "";
    out += Printable(Cat(no_match ? "no match" : "refused", "  ", rule, " at '", *at.begin(), "'",
                         more, ": ", reason)) +
           "\n";
  }
  if (places.size() > kMaxRefusals)
    out += Cat("... and ", places.size() - kMaxRefusals, " more (--json has them all)\n");
  return out;
}

/// One line for all constants that the budget keeps from being computed now.
std::string NotFolded(const OptimizeReport& r) {
  constexpr std::string_view kReasons[] = {": its result would be too large",
                                           ": constants have grown as far as they may"};
  std::string first;
  int more = 0;
  for (const std::string& note : r.notes)
    for (const std::string_view reason : kReasons)
      if (note.starts_with("not folded: ") && note.ends_with(reason)) {
        const size_t begin = std::string_view("not folded: ").size();
        if (first.empty())
          first = note.substr(begin, note.size() - begin - reason.size());
        else
          ++more;
      }
  if (first.empty()) return "";
  return Printable(Cat("not folded  ", first, more > 0 ? Cat(" and ", more, " more") : "",
                       ": the constants would grow by more than --fold-budget")) +
         "\n";
}

}  // namespace

std::optional<int64_t> PeakActivationBytes(const Graph& g) {
  std::unordered_map<const Value*, const Node*> last;  // reader
  for (const auto& n : g.nodes())
    for (const Value* v : n->inputs())
      if (v && !v->is_constant()) last[v] = n.get();
  const auto bytes = [](const Value* v) -> std::optional<int64_t> {
    if (!v->type().is_tensor() || !v->tensor_type().is_static()) return std::nullopt;
    const auto count = CheckedNumElements(v->shape().static_dims());
    if (!count || v->dtype() == DType::kString) return std::nullopt;
    return PackedBytes(v->dtype(), *count);
  };
  int64_t alive = 0, peak = 0;
  for (const Value* v : g.inputs()) {
    const auto b = bytes(v);
    if (!b) return std::nullopt;
    alive += *b;
  }
  for (const auto& n : g.nodes()) {
    for (const Value* v : n->outputs()) {
      if (!v) continue;
      const auto b = bytes(v);
      if (!b) return std::nullopt;
      alive += *b;
    }
    peak = std::max(peak, alive);
    std::set<const Value*> done;
    for (const auto* values : {&n->inputs(), &n->outputs()})
      for (const Value* v : *values) {
        if (!v || v->is_constant() || v->is_output() || v->is_input()) continue;
        const auto it = last.find(v);
        if ((it == last.end() || it->second == n.get()) && done.insert(v).second)
          alive -= *bytes(v);
      }
  }
  return peak;
}

Json ToJson(const OptimizeReport& r, const Graph& before, const Graph& after) {
  Json j = {{"before", ToJson(r.before, before)},
            {"after", ToJson(r.after, after)},
            {"rewrites", r.rewrites}};
  j["verified_matches"] = r.verified;
  j["not_evaluated_matches"] = r.not_evaluated;
  j["ms"] = r.ms;
  j["verify_ms"] = r.verify_ms;
  j["passes"] = Json::array();
  for (const PassTime& t : PassTimes(r))
    j["passes"].push_back(
        {{"pass", t.pass}, {"runs", t.runs}, {"ms", t.ms}, {"check_ms", t.check_ms}});
  j["rules"] = Json::array();
  const auto reasons = ReasonsOf(r);
  for (const auto& [name, s] : r.rules) {
    if (s.matched == 0) continue;
    Json why = Json::array();
    if (const auto it = reasons.find(name); it != reasons.end())
      for (const auto& [reason, count] : it->second)
        why.push_back({{"reason", reason}, {"count", count}});
    j["rules"].push_back({{"rule", name},
                          {"matched", s.matched},
                          {"applied", s.applied},
                          {"refused", s.refused},
                          {"reasons", why},
                          {"max_error", s.max_error < 0 ? Json() : JsonNumber(s.max_error)}});
  }
  j["matches"] = Json::array();
  for (const MatchRecord& m : r.records)
    j["matches"].push_back({{"rule", m.rule},
                            {"at", m.at},
                            {"nodes", m.nodes},
                            {"outcome", OutcomeName(m.outcome)},
                            {"reason", m.reason},
                            {"error", m.error < 0 ? Json() : JsonNumber(m.error)}});
  j["notes"] = r.notes;
  return j;
}

Json ToJson(const std::vector<NearMiss>& misses) {
  Json out = Json::array();
  for (const NearMiss& m : misses)
    out.push_back({{"rule", m.rule},
                   {"at", m.at},
                   {"nodes", m.nodes},
                   {"matched", m.matched},
                   {"of", m.of},
                   {"reason", m.reason}});
  return out;
}

std::string SummaryText(const OptimizeReport& r) {
  std::vector<std::vector<std::string>> rows = {
      {"rule", "matched", "applied", "refused", "max error"}};
  for (const auto& [name, s] : r.rules)
    if (s.matched > 0)
      rows.push_back({name, Cat(s.matched), Cat(s.applied), Cat(s.refused),
                      s.max_error < 0 ? "-" : Rounded(s.max_error, 3)});
  std::string out = rows.size() > 1 ? TextTable(rows) : "no rule matched\n";
  const auto moved = [](const Cost& c) {
    return Fixed(static_cast<double>(c.bytes_read + c.bytes_written) / 1e6, 2);
  };
  out += Cat("nodes ", r.before.nodes, " -> ", r.after.nodes, ", MFLOP ",
             Fixed(static_cast<double>(r.before.cost.flops) / 1e6, 2), " -> ",
             Fixed(static_cast<double>(r.after.cost.flops) / 1e6, 2), ", MB moved ",
             moved(r.before.cost), " -> ", moved(r.after.cost), "\n");
  return out + Refusals(r) + NotFolded(r);
}

std::string PassText(const OptimizeReport& r) {
  std::vector<std::vector<std::string>> rows = {{"pass", "runs", "ms", "checks of it, ms"}};
  for (const PassTime& t : PassTimes(r))
    rows.push_back({t.pass, Cat(t.runs), Fixed(t.ms, 1), Fixed(t.check_ms, 1)});
  return Cat(TextTable(rows), "checks of ", r.verified, " matches: ", Fixed(r.verify_ms, 1),
             " ms of these\n");
}

std::string ToText(const std::vector<NearMiss>& misses) {
  if (misses.empty()) return "no near miss\n";
  std::string out;
  for (const NearMiss& m : misses) {
    std::vector<std::string> names(
        m.nodes.begin(),
        m.nodes.begin() + static_cast<std::ptrdiff_t>(std::min(m.nodes.size(), kShownNodes)));
    if (m.nodes.size() > kShownNodes) names.push_back(Cat(m.nodes.size() - kShownNodes, " more"));
    const std::string fitted =
        m.matched == m.of ? Cat("all ", m.of, " nodes") : Cat(m.matched, " of ", m.of, " nodes");
    const std::string which = names.empty() ? "" : Cat(" (", Join(names, ", "), ")");
    out += Printable(Cat("near miss  ", m.rule, " at '", m.at, "': ", fitted, " fit, but ",
                         m.reason, which)) +
           "\n";
  }
  return out;
}

}  // namespace infer
