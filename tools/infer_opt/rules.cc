/// infer-opt rules: the rewrite rules, built in and of a user's files: list, show, test.
#include <algorithm>

#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "passes/rewrite/rule_fuzz.h"
#include "passes/rewrite/rule_suite.h"
#include "tools/common/report.h"
#include "tools/common/rule_files.h"
#include "tools/infer_opt/commands.h"

namespace infer {
namespace {

/// A rule of either kind.
struct Shown {
  Rule rule;
  std::string origin;  ///< "user" or the level that brings it in
  std::string source;  ///< of a user's rule
  std::string made_example;
};

Json Strings(const std::vector<std::string>& texts) {
  Json j = Json::array();
  for (const std::string& t : texts) j.push_back(t);
  return j;
}

class RulesCommand : public Command {
 public:
  std::string_view name() const override { return "rules"; }
  std::string_view help() const override {
    return "List, show or test rewrite rules, built-in ones and your own";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt rules list\n"
           "  infer-opt rules test my.rules\n"
           "  infer-opt rules show fuse-gelu\n"
           "  infer-opt rules show my-rule --rules my.rules\n";
  }
  void Declare(Options& o) override {
    o.Positional("action", &action_, "list, show or test");
    o.Offer({"list", "show", "test"});
    o.Positional("what", &what_, "list, test: files of rules; show: names (globs)", false,
                 PathUse::kRead);
    o.Values("--rules", &files_, "Files of rules", PathUse::kRead);
    o.Value("--graphs", &graphs_, "test: random graphs around each rule", 0);
    o.Value("--seed", &seed_, "test: seed of the random graphs");
  }

  Result<ExitCode> Run(Context& context) override {
    if (action_ != "list" && action_ != "show" && action_ != "test")
      return InvalidArgument(Cat("'", action_, "' is not list, show or test"));
    if (action_ == "show" && what_.empty()) return InvalidArgument("show what? Give a rule's name");
    std::vector<std::string> files = files_;
    if (action_ != "show") files.insert(files.end(), what_.begin(), what_.end());
    INFER_ASSIGN(const std::vector<UserRule> user, LoadRules(files, context.ops()));
    std::vector<Shown> rules;
    for (const UserRule& r : user) {
      Shown& s = rules.emplace_back(Shown{r.rule, "user", r.text.source, ""});
      if (s.rule.fires_on.empty() && action_ != "list")
        s.made_example = MakeExample(r, context.ops(), seed_ + 1);
    }
    // With files, `list` and `test` are about these.
    if (files.empty() || action_ == "show")
      for (ListedRule& r : AllRules())
        rules.push_back({std::move(r.rule), kLevelNames[static_cast<size_t>(r.level)], "", ""});
    Json report = NewReport(context, "infer-opt/rules@1");
    report["rules"] = Json::array();
    bool passed = true;
    if (action_ == "list")
      List(context, rules, report);
    else if (action_ == "show")
      INFER_TRY(Show(context, rules, report));
    else
      passed = Test(context, rules, user, report);
    report["passed"] = passed;
    INFER_TRY(WriteReport(context, std::move(report)));
    return passed ? kExitOk : kExitGateFailed;
  }

 private:
  static Json Entry(const Shown& s) {
    return {{"rule", s.rule.name}, {"origin", s.origin}, {"doc", s.rule.doc}};
  }

  static void List(Context& context, const std::vector<Shown>& rules, Json& report) {
    std::vector<std::vector<std::string>> rows = {{"rule", "from", "what it does"}};
    for (const Shown& s : rules) {
      rows.push_back({s.rule.name, s.origin, s.rule.doc});
      report["rules"].push_back(Entry(s));
    }
    context.Print(TextTable(rows));
  }

  Status Show(Context& context, const std::vector<Shown>& rules, Json& report) const {
    for (const std::string& glob : what_) {
      bool found = false;
      for (const Shown& s : rules) {
        if (!GlobMatch(glob, s.rule.name)) continue;
        found = true;
        ShowOne(context, s);
        Json entry = Entry(s);
        entry["pattern"] = Describe(s.rule.match);
        entry["fires"] = Strings(s.rule.fires_on);
        entry["silent"] = Json::array();
        for (const Rule::NearMiss& miss : s.rule.silent_on)
          entry["silent"].push_back({{"graph", miss.graph}, {"reason", miss.reason}});
        report["rules"].push_back(std::move(entry));
      }
      if (!found)
        return InvalidArgument(Cat("no rule is called '", glob, "' (rules list has all)"));
    }
    return {};
  }

  static void ShowOne(Context& context, const Shown& s) {
    context.PrintLine(Cat(s.rule.name, "  (", s.origin, ")"));
    context.PrintLine(Cat("  ", s.rule.doc));
    context.PrintLine(Cat("pattern  ", Describe(s.rule.match)));
    for (const Pattern& p : s.rule.also) context.PrintLine(Cat("and      ", Describe(p)));
    for (const Rule::Guard& g : s.rule.when) context.PrintLine(Cat("needs    ", g.text));
    if (!s.source.empty()) return context.PrintLine(Cat("source\n", s.source));
    for (const std::string& text : s.rule.fires_on) context.PrintLine(Cat("fires on\n  ", text));
    for (const Rule::NearMiss& miss : s.rule.silent_on)
      context.PrintLine(Cat("silent, because ", miss.reason, "\n  ", miss.graph));
  }

  /// Every rule by its own examples, then by random graphs around them.
  bool Test(Context& context, std::vector<Shown>& rules, const std::vector<UserRule>& user,
            Json& report) const {
    std::vector<Rule> extra;
    for (const UserRule& r : user) extra.push_back(r.rule);
    std::vector<std::vector<std::string>> rows = {
        {"rule", "result", "examples", "near misses", "random graphs", "fired on"}};
    std::string reasons;
    size_t failed = 0, done = 0;
    for (Shown& s : rules) {
      if (!s.made_example.empty()) s.rule.fires_on = {s.made_example};
      std::vector<std::string> broken = CheckRule(s.rule, context.ops(), seed_ + 1);
      if (s.rule.fires_on.empty())
        broken.push_back("none could be made from the pattern: write one with 'fires'");
      const bool is_user = s.origin == "user";
      FuzzOptions options{.seed = seed_ + 1, .graphs = graphs_};
      options.pipeline = [&](Graph& g) {
        OptimizeOptions o;
        if (is_user) o.extra_rules = extra;
        return Optimize(g, std::move(o)).status();
      };
      // What breaks on its own example needs no random graphs.
      FuzzResult fuzz;
      if (broken.empty()) fuzz = FuzzRule(s.rule, s.rule.fires_on, context.ops(), options);
      for (const FuzzFailure& f : fuzz.failures)
        broken.push_back(Cat("random graph, seed ", f.seed, f.bends.empty() ? "" : " (", f.bends,
                             f.bends.empty() ? "" : ")", ": ", f.what, "\nbefore:\n", f.graph));
      rows.push_back({s.rule.name, broken.empty() ? "pass" : "FAIL",
                      s.made_example.empty() ? Cat(s.rule.fires_on.size()) : "1 made",
                      Cat(s.rule.silent_on.size()), Cat(fuzz.graphs), Cat(fuzz.fired)});
      for (const std::string& b : broken) reasons += Cat("\n", s.rule.name, ": ", b, "\n");
      failed += !broken.empty();
      Json entry = Entry(s);
      entry["passed"] = broken.empty();
      entry["reasons"] = Strings(broken);
      entry["graphs"] = fuzz.graphs;
      entry["fired"] = fuzz.fired;
      report["rules"].push_back(std::move(entry));
      context.Progress("test", static_cast<int64_t>(++done), static_cast<int64_t>(rules.size()));
    }
    context.Print(TextTable(rows));
    if (!reasons.empty()) context.Print(reasons);
    context.PrintLine(
        Cat(rules.size() - failed, " of ", rules.size(), " rules pass (seed ", seed_, ")"));
    return failed == 0;
  }

  std::string action_;
  std::vector<std::string> what_, files_;
  int64_t graphs_ = 200;
  uint64_t seed_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeRulesCommand() { return std::make_unique<RulesCommand>(); }

}  // namespace infer
