#include "tools/infer_opt/fuse/analysis.h"

#include <algorithm>
#include <map>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

struct Sum {
  int64_t matches = 0, nodes = 0, bytes = 0;
  double ms = 0;
  bool complete = true;  ///< every match has a predicted time
};

std::map<std::string, Sum> ByRule(const Analysis& a) {
  std::map<std::string, Sum> sums;
  for (const Opportunity& o : a.found) {
    Sum& s = sums[o.rule];
    ++s.matches;
    s.nodes += o.price.nodes_removed - o.price.nodes_added;
    s.bytes += o.saved_bytes();
    s.ms += o.saved_ms.value_or(0);
    s.complete &= o.saved_ms.has_value();
  }
  return sums;
}

Json MsOrNull(std::optional<double> ms) { return ms ? Json(*ms) : Json(); }

}  // namespace

std::optional<double> NodeFloorMs(const Node& n, const Roofline& roofline, int64_t program_bytes) {
  const auto cost = StaticCostOf(n);
  if (!cost) return std::nullopt;
  if (n.Is(Trait::kView) || n.Is("Dropout")) return 0.0;  // a runtime does nothing for it
  StepInfo step;
  for (const Value* v : n.inputs())
    if (v && v->is_constant()) step.constant_bytes += v->constant()->byte_size();
  return roofline.FloorMs(step, *cost, program_bytes);
}

double GraphFloorMs(const Graph& g, const Roofline& roofline, int64_t program_bytes) {
  double ms = 0;
  for (const auto& n : g.nodes()) ms += NodeFloorMs(*n, roofline, program_bytes).value_or(0);
  return ms;
}

Status PricingReviewer::Review(const Candidate& c, MatchRecord& record) {
  Opportunity o{record.rule, record.at, record.nodes, c.price, 0.0};
  const auto add = [&](const Node& n, double sign) {
    const auto ms = NodeFloorMs(n, roofline_, program_bytes_);
    if (!ms)
      o.saved_ms.reset();
    else if (o.saved_ms)
      *o.saved_ms += sign * *ms;
  };
  for (const Node* n : DyingNodes(c.match, c.patch)) add(*n, 1);
  for (const auto& n : c.patch.graph.nodes()) add(*n, -1);
  found_.push_back(std::move(o));
  return {};
}

std::string ToText(const Analysis& a) {
  std::vector<std::vector<std::string>> rows = {
      {"rule", "matches", "nodes saved", "kB saved", "us saved"}};
  auto sums = ByRule(a);
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& x, const auto& y) { return x.second.ms > y.second.ms; });
  for (const auto& [rule, s] : sorted)
    rows.push_back({rule, Cat(s.matches), Cat(s.nodes),
                    Fixed(static_cast<double>(s.bytes) / 1e3, 1),
                    Cat(Fixed(1e3 * s.ms, 2), s.complete ? "" : " at least")});
  return Cat(rows.size() > 1 ? TextTable(rows) : "no opportunity\n",
             "predicted: ", Rounded(a.before_ms, 4), " -> ", Rounded(a.after_ms, 4),
             " ms, every node by itself at this machine's best (", a.roofline.ToString(), ")\n");
}

Json ToJson(const Analysis& a) {
  Json rules = Json::array(), found = Json::array();
  for (const auto& [rule, s] : ByRule(a))
    rules.push_back({{"rule", rule},
                     {"matches", s.matches},
                     {"nodes_saved", s.nodes},
                     {"bytes_saved", s.bytes},
                     {"ms_saved", s.complete ? Json(s.ms) : Json()}});
  for (const Opportunity& o : a.found)
    found.push_back({{"rule", o.rule},
                     {"at", o.at},
                     {"nodes", o.nodes},
                     {"nodes_removed", o.price.nodes_removed},
                     {"nodes_added", o.price.nodes_added},
                     {"flops_saved", o.price.before.flops - o.price.after.flops},
                     {"bytes_saved", o.saved_bytes()},
                     {"ms_saved", MsOrNull(o.saved_ms)}});
  return {{"roofline", infer::ToJson(a.roofline)},
          {"predicted_ms", {{"before", a.before_ms}, {"after", a.after_ms}}},
          {"rules", std::move(rules)},
          {"opportunities", std::move(found)}};
}

}  // namespace infer
