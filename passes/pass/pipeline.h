#pragma once
/// The pipelines behind `fuse --rewrites`, and the whole of `infer-opt fuse` but its printing.
#include <array>

#include "passes/pass/pass.h"
#include "passes/rewrite/verify_match.h"

namespace infer {

/// 0: nothing. 1: simplify: the same operators, fewer of them. 2: also fusions: layers and what
/// follows them. 3: also blocks: attention, feed-forward nets, skip connections.
inline constexpr int kSimplifyLevel = 1, kFuseLevel = 2, kBlockLevel = 3;
inline constexpr int kMaxLevel = kBlockLevel;
/// The levels as words; the index is the level.
inline constexpr std::array<const char*, kMaxLevel + 1> kLevelNames = {"none", "simplify", "fuse",
                                                                       "blocks"};
/// The reader of the file that the graph becomes.
enum class RewriteFor : uint8_t {
  kAll,          ///< operators of domain infer may be in it
  kPlain,        ///< they are written as their nodes, so few are made
  kOnnxRuntime,  ///< as kPlain, and with what only ONNX Runtime reads (passes/ort)
};
/// `extra`: rules of the user; they run at every level, before the fusions.
PassManager BuildPipeline(int level, std::vector<Rule> extra = {},
                          RewriteFor reader = RewriteFor::kAll);

/// Every rule with the level that brings it in; the one list behind --patterns and the docs.
struct ListedRule {
  int level;
  Rule rule;
  bool ort_only = false;  ///< of RewriteFor::kOnnxRuntime
};
std::vector<ListedRule> AllRules();

struct OptimizeOptions {
  int level = kMaxLevel;
  RewriteFor reader = RewriteFor::kAll;
  std::vector<Rule> extra_rules;     ///< of the user; run before the fusions, at every level
  std::vector<std::string> only;     ///< globs of rule names; empty: all rules
  std::vector<std::string> disable;  ///< globs of rule names
  int64_t stop_after = -1;           ///< rewrites by rules, for bisection; < 0: no end
  std::vector<std::string> explain;  ///< "RULE" or "RULE@NODE" globs
  int64_t max_fold_growth_bytes = int64_t{1} << 16;  ///< of one node
  bool verify_each = true;                           ///< graph invariants after every pass
  /// What the graph's values are in some runs: on them every match is checked alone. Taken over.
  std::optional<CapturedValues> captured;
  RunValues run_values = ReferenceValues;  ///< what checks matches
  /// Further say over every match.
  std::vector<MatchReviewer*> reviewers;
  std::function<void(const Graph&, const PassRecord&)> after_each;
};

struct GraphStatistics {
  int64_t nodes = 0;  ///< with subgraphs
  std::map<std::string, int64_t> operators;
  int64_t constant_bytes = 0;  ///< each content once
  /// Of the nodes with static types.
  Cost cost;
};
GraphStatistics StatisticsOf(const Graph& g);

struct OptimizeReport {
  GraphStatistics before, after;
  std::vector<PassRecord> passes;
  std::map<std::string, RuleSummary> rules;
  std::vector<MatchRecord> records;
  std::vector<std::string> notes;
  int64_t rewrites = 0;
  int64_t verified = 0, not_evaluated = 0;  ///< matches checked alone
  double ms = 0, verify_ms = 0;
};

/// Growth of a model's constants up to which nothing is said of it.
int64_t FoldingBudget(const GraphStatistics& before, const OptimizeOptions& options = {});

/// Optimises in place. InvalidArgument for a glob that fits no rule.
Result<OptimizeReport> Optimize(Graph& g, OptimizeOptions options = {});

}  // namespace infer
