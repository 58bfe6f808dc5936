#include "passes/rewrite/rule_suite.h"

#include <algorithm>

#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "passes/rewrite/verify_match.h"

namespace infer {
namespace {

class RuleChecker {
 public:
  RuleChecker(const Rule& rule, const OpRegistry& ops, uint64_t seed)
      : rule_(rule), ops_(ops), seed_(seed) {}

  std::vector<std::string> Run() {
    if (rule_.fires_on.empty()) Broken("has no example");
    for (size_t i = 0; i < rule_.fires_on.size(); ++i)
      CheckExample(rule_.fires_on[i], Cat("example ", i + 1));
    for (size_t i = 0; i < rule_.silent_on.size(); ++i)
      CheckNearMiss(rule_.silent_on[i], Cat("near miss ", i + 1));
    for (const Rule::Guard& guard : rule_.when) CheckGuard(guard);
    return std::move(broken_);
  }

 private:
  void Broken(std::string what) { broken_.push_back(std::move(what)); }
  bool Holds(const Status& s, const std::string& where) {
    if (!s.ok()) Broken(Cat(where, ": ", s.message()));
    return s.ok();
  }
  Result<int64_t> Apply(Graph& g, const Rule& rule, RewriteLog& log) const {
    if (!rule.build) return CountMatches(g, rule, log);
    RewriteOptions options;
    options.explain = {rule.name};
    return ApplyRules(g, std::span(&rule, 1), options, log);
  }

  /// Of a rule that states a group.
  static int64_t CountMatches(const Graph& g, const Rule& rule, RewriteLog& log) {
    int64_t count = 0;
    for (const auto& n : g.nodes())
      for (Value* root : n->outputs()) {
        if (!root) continue;
        Mismatch why;
        if (FindMatch(rule, root, &why)) {
          ++count;
        } else {
          const bool guarded = why.text.starts_with("needs ");
          log.records.push_back({.rule = rule.name,
                                 .at = root->name(),
                                 .outcome = MatchRecord::Outcome::kNoMatch,
                                 .reason = guarded ? why.text : why.ToString()});
        }
      }
    return count;
  }

  void CheckExample(const std::string& text, const std::string& where) {
    auto parsed = ParseGraph(text, ops_);
    if (!Holds(parsed.status(), where)) return;
    const Graph before = parsed->Clone();
    Graph& after = *parsed;
    RewriteLog log;
    const auto fired = Apply(after, rule_, log);
    if (!Holds(fired.status(), where)) return;
    if (*fired != 1) Broken(Cat(where, ": fires ", *fired, " times", Reasons(log)));
    if (!rule_.build) return;
    if (!Holds(Verify(after), where)) return;
    for (size_t i = 0; i < before.outputs().size(); ++i)
      if (before.outputs()[i]->name() != after.outputs()[i]->name())
        Broken(Cat(where, ": output '", before.outputs()[i]->name(), "' became '",
                   after.outputs()[i]->name(), "'"));
    Compare(before, after, where);
    const uint64_t print = Fingerprint(after);
    const auto again = Apply(after, rule_, log);
    if (!again.ok() || *again != 0 || Fingerprint(after) != print)
      Broken(Cat(where, ": a second run changes the graph"));
  }

  void Compare(const Graph& before, const Graph& after, const std::string& where) {
    auto inputs = RandomInputs(before, seed_);
    if (!Holds(inputs.status(), where)) return;
    const auto a = Evaluate(before, *inputs), b = Evaluate(after, *inputs);
    if (!Holds(a.status(), where) || !Holds(b.status(), where)) return;
    double tolerance = 0;
    for (const Graph* g : {&before, &after})
      for (const auto& n : g->nodes()) tolerance += ToleranceOf(*n);
    for (size_t i = 0; i < a->size(); ++i) {
      const auto error = RelativeError((*a)[i], (*b)[i]);
      if (!Holds(error.status(), where)) continue;
      if (!(*error <= tolerance))
        Broken(Cat(where, ": output ", i, " deviates by ", *error, " (tolerance ", tolerance, ")"));
    }
  }

  void CheckNearMiss(const Rule::NearMiss& miss, const std::string& where) {
    auto g = ParseGraph(miss.graph, ops_);
    if (!Holds(g.status(), where)) return;
    const uint64_t print = Fingerprint(*g);
    RewriteLog log;
    const auto fired = Apply(*g, rule_, log);
    if (!Holds(fired.status(), where)) return;
    if (*fired != 0) return Broken(Cat(where, ": fires, but should not (", miss.reason, ")"));
    if (Fingerprint(*g) != print) Broken(Cat(where, ": the graph changed without a rewrite"));
    const bool stated = std::any_of(
        log.records.begin(), log.records.end(),
        [&](const MatchRecord& r) { return r.reason.find(miss.reason) != std::string::npos; });
    if (!stated) Broken(Cat(where, ": not refused because '", miss.reason, "'", Reasons(log)));
  }

  void CheckGuard(const Rule::Guard& guard) {
    const auto shows = [&](const Rule::NearMiss& miss) { return miss.reason == guard.text; };
    const auto miss = std::find_if(rule_.silent_on.begin(), rule_.silent_on.end(), shows);
    if (miss == rule_.silent_on.end())
      return Broken(Cat("no near miss shows that '", guard.text, "' is needed"));
    Rule without = rule_;
    std::erase_if(without.when, [&](const Rule::Guard& g) { return g.text == guard.text; });
    auto g = ParseGraph(miss->graph, ops_);
    if (!g.ok()) return;  // told above
    RewriteLog log;
    const auto fired = Apply(*g, without, log);
    if (!fired.ok() || *fired == 0)
      Broken(Cat("guard '", guard.text, "' is not what stops its near miss", Reasons(log)));
  }

  static std::string Reasons(const RewriteLog& log) {
    std::string text;
    for (const MatchRecord& r : log.records)
      if (r.outcome != MatchRecord::Outcome::kApplied)
        text += Cat("\n    at '", r.at, "': ", r.reason);
    return text;
  }

  const Rule& rule_;
  const OpRegistry& ops_;
  const uint64_t seed_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> CheckRule(const Rule& rule, const OpRegistry& ops, uint64_t seed) {
  return RuleChecker(rule, ops, seed).Run();
}

}  // namespace infer
