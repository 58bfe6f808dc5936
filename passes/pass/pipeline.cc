#include "passes/pass/pipeline.h"

#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "lib/ir/op_name.h"
#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "passes/blocks/blocks.h"
#include "passes/fuse/fusions.h"
#include "passes/ort/ort.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr int kMaxRounds = 8;
constexpr const char* kUserRules = "user-rules";

std::vector<std::unique_ptr<Pass>> SimplifyPasses() {
  std::vector<std::unique_ptr<Pass>> passes;
  passes.push_back(RemoveDeadCode());
  passes.push_back(ReadUnchangedStatesOutside());
  passes.push_back(FoldConstants());
  // Half a dozen groups of a pipeline have them.
  static const auto rules = std::make_shared<const std::vector<Rule>>(SimplifyRules());
  passes.push_back(std::make_unique<RulePass>("simplify", rules));
  passes.push_back(MergeDuplicates());
  passes.push_back(UniteEqualExtents());
  passes.push_back(ShareKnownExtents());
  return passes;
}

Status CheckGlobs(const std::vector<std::string>& globs, const std::vector<ListedRule>& rules) {
  for (const std::string& glob : globs) {
    const std::string name = glob.substr(0, glob.find('@'));
    const bool fits = std::any_of(rules.begin(), rules.end(), [&](const ListedRule& r) {
      return GlobMatch(name, r.rule.name);
    });
    if (fits) continue;
    std::vector<std::string> names;
    for (const ListedRule& r : rules) names.push_back(r.rule.name);
    return InvalidArgument(Cat("no rule is called '", name, "'; there are: ", Join(names, ", ")));
  }
  return {};
}

bool AnyFits(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return GlobMatch(glob, name); });
}

/// `seen`: contents; a file holds each once, whatever graphs read it.
void AddStatistics(const Graph& g, GraphStatistics& s, std::unordered_set<uint64_t>& seen) {
  for (const auto& v : g.values())
    if (v->is_constant() && seen.insert(HashOf(*v->constant())).second)
      s.constant_bytes += v->constant()->byte_size();
  for (const auto& n : g.nodes()) {
    ++s.nodes;
    ++s.operators[FullOpName(n->def().domain, n->op())];
    if (const auto cost = StaticCostOf(*n, &g.ops())) {
      s.cost.flops += cost->flops;
      s.cost.bytes_read += cost->bytes_read;
      s.cost.bytes_written += cost->bytes_written;
    }
    for (const auto& [attr, sub] : n->subgraphs()) AddStatistics(*sub, s, seen);
  }
}

}  // namespace

PassManager BuildPipeline(int level, std::vector<Rule> extra, RewriteFor reader) {
  PassManager manager;
  const auto add = [&](std::vector<RuleGroup> groups) {
    for (RuleGroup& group : groups)
      manager.Add(std::make_unique<RulePass>(group.name, std::move(group.rules)));
    if (!groups.empty()) manager.AddGroup(kMaxRounds, SimplifyPasses());
  };
  if (level >= kSimplifyLevel) manager.AddGroup(kMaxRounds, SimplifyPasses());
  if (!extra.empty()) {
    manager.Add(std::make_unique<RulePass>(kUserRules, std::move(extra)));
    if (level >= kSimplifyLevel) manager.AddGroup(kMaxRounds, SimplifyPasses());
  }
  if (level >= kFuseLevel) add(FusionRules());
  if (level >= kBlockLevel) add(BlockRules(reader == RewriteFor::kAll));
  if (level >= kFuseLevel) add({{"finish", FinishingRules()}});
  if (level >= kFuseLevel && reader == RewriteFor::kOnnxRuntime) add(OrtRules());
  return manager;
}

std::vector<ListedRule> AllRules() {
  std::vector<ListedRule> all;
  const auto add = [&](int level, std::vector<RuleGroup> groups, bool ort_only = false) {
    for (RuleGroup& group : groups)
      for (Rule& r : group.rules) all.push_back({level, std::move(r), ort_only});
  };
  for (Rule& r : SimplifyRules()) all.push_back({kSimplifyLevel, std::move(r)});
  add(kFuseLevel, FusionRules());
  add(kBlockLevel, BlockRules());
  add(kFuseLevel, {{"finish", FinishingRules()}});
  add(kFuseLevel, OrtRules(), true);
  return all;
}

GraphStatistics StatisticsOf(const Graph& g) {
  GraphStatistics s;
  std::unordered_set<uint64_t> seen;
  AddStatistics(g, s, seen);
  return s;
}

int64_t FoldingBudget(const GraphStatistics& before, const OptimizeOptions& options) {
  return std::max(options.max_fold_growth_bytes, before.constant_bytes / 16);
}

/// Names that the options take are those of rules, and rules of the user have names of their own.
Status CheckNames(const OptimizeOptions& options) {
  if (options.extra_rules.empty() && options.only.empty() && options.disable.empty() &&
      options.explain.empty())
    return {};
  auto rules = AllRules();
  for (const Rule& extra : options.extra_rules) {
    const auto taken = [&](const ListedRule& r) { return r.rule.name == extra.name; };
    if (std::any_of(rules.begin(), rules.end(), taken))
      return InvalidArgument(Cat("a built-in rule is called '", extra.name, "', too"));
    rules.push_back({0, extra});
  }
  for (const auto* globs : {&options.only, &options.disable, &options.explain})
    INFER_TRY(CheckGlobs(*globs, rules));
  return {};
}

Result<OptimizeReport> Optimize(Graph& g, OptimizeOptions options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.level < 0 || options.level > kMaxLevel)
    return InvalidArgument(Cat("level ", options.level, " is not in 0..", kMaxLevel));
  INFER_TRY(CheckNames(options));

  OptimizeReport report;
  report.before = StatisticsOf(g);
  PassContext context;
  context.max_fold_growth_bytes = options.max_fold_growth_bytes;
  // While it runs: slices of a weight stand beside it until the last of them is folded.
  context.fold_growth_left_bytes =
      std::max(16 * options.max_fold_growth_bytes, report.before.constant_bytes / 4);
  context.rewrite.enabled = [&](const Rule& r) {
    return (options.only.empty() || AnyFits(options.only, r.name)) &&
           !AnyFits(options.disable, r.name);
  };
  context.rewrite.explain = options.explain;
  context.rewrite.max_rewrites = options.stop_after;
  std::unique_ptr<VerifyingReviewer> verifier;
  if (options.captured && options.level > 0) {
    verifier =
        std::make_unique<VerifyingReviewer>(*std::move(options.captured), options.run_values);
    context.rewrite.reviewers.push_back(verifier.get());
  }
  for (MatchReviewer* r : options.reviewers) context.rewrite.reviewers.push_back(r);

  PassManager manager =
      BuildPipeline(options.level, std::move(options.extra_rules), options.reader);
  auto passes = manager.Run(g, context,
                            {.verify_each = options.verify_each, .after_each = options.after_each});
  // What a rule of the user does wrong is no bug of ours.
  if (const Status s = passes.status(); s.message().starts_with(Cat("pass ", kUserRules)))
    return InvalidModel(s.message());
  if (!passes.ok()) return passes.status();
  report.passes = *std::move(passes);
  report.after = StatisticsOf(g);
  report.rules = std::move(context.log.rules);
  report.records = std::move(context.log.records);
  report.notes = std::move(context.notes);
  const int64_t grown = report.after.constant_bytes - report.before.constant_bytes;
  if (const int64_t may_grow = FoldingBudget(report.before, options); grown > may_grow)
    report.notes.push_back(Cat("constants grew by ", HumanBytes(grown), " to ",
                               HumanBytes(report.after.constant_bytes), ", more than the ",
                               HumanBytes(may_grow), " that go untold"));
  report.rewrites = context.log.applied;
  if (verifier) {
    report.verified = verifier->verified();
    report.not_evaluated = verifier->not_evaluated();
    report.verify_ms = verifier->seconds() * 1e3;
  }
  report.ms = MsSince(start);
  return report;
}

}  // namespace infer
