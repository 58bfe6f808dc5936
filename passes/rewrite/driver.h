#pragma once
/// Applies rules until none fires. A work list, with the rules indexed by the operator of their
/// root: the time is linear in the nodes and in the rewrites.
#include <map>
#include <set>

#include "passes/rewrite/rule.h"

namespace infer {

/// What became of one match, or, where the caller asked for explanations, of one attempt.
struct MatchRecord {
  enum class Outcome : uint8_t {
    kApplied,
    kRefused,  ///< a guard, the builder, the type check, or a reviewer said no: see `reason`
    kNoMatch,  ///< only with explain
  };
  std::string rule;
  std::string at;                  ///< name of the root value before the rewrite
  std::vector<std::string> nodes;  ///< names of the original nodes that the match stands for
  Outcome outcome = Outcome::kApplied;
  std::string reason;
  int matched = 0, of = 0;  ///< operators of the pattern that fitted
  Price price;
  /// Of the match alone on captured values: max|d| / max|ref|; < 0: not evaluated.
  double error = -1, tolerance = 0;
};

struct RuleSummary {
  int64_t matched = 0, applied = 0, refused = 0;
  double max_error = -1;
};

/// Grows over all passes of one run.
struct RewriteLog {
  std::vector<MatchRecord> records;  ///< at most max_records
  size_t max_records = 100000;
  /// Rule and root of each refusal: one is told and counted once, however often it is tried.
  std::set<std::pair<std::string, std::string>> refused;
  std::map<std::string, RuleSummary> rules;  ///< every rule that was enabled
  int64_t applied = 0;
  int64_t visited = 0;   ///< nodes taken from the work list
  int64_t attempts = 0;  ///< rules tried at a value
};

/// A match that passed all checks, about to be spliced.
struct Candidate {
  const Rule& rule;
  const Match& match;
  const Patch& patch;
  const Price& price;
  bool top_level;  ///< not in a subgraph
};

/// Looks at every candidate: verifying, measuring and analysing are reviewers.
class MatchReviewer {
 public:
  virtual ~MatchReviewer() = default;
  /// Not ok: the match is refused with that message. May fill error and tolerance of the record.
  virtual Status Review(const Candidate& c, MatchRecord& record) = 0;
  /// A node that a patch brought into the top-level graph. Where a result of it takes the place of
  /// another value it takes over that one's name afterwards.
  virtual void OnAdded(const Node& /*node*/) {}
  /// A node of the top-level graph that nothing reads after a patch. Results of it that the patch
  /// replaces give their names to others.
  virtual void OnErasing(const Node& /*node*/) {}
};

struct RewriteOptions {
  /// nullptr: all rules.
  std::function<bool(const Rule&)> enabled = {};
  /// "RULE" or "RULE@NODE" globs: attempts of these rules are recorded even if they do not match.
  std::vector<std::string> explain = {};
  std::vector<MatchReviewer*> reviewers = {};
  /// Stops after so many rewrites in all passes together (bisection); < 0: never. Counted in log.
  int64_t max_rewrites = -1;
};

/// Rewrites `g` and its subgraphs. Returns the number of rewrites. Internal when the rules do not
/// converge or a rule builds nonsense.
Result<int64_t> ApplyRules(Graph& g, std::span<const Rule> rules, const RewriteOptions& options,
                           RewriteLog& log);

/// Calls `f` for every subgraph of `g`, innermost first, then for `g`.
Status ForEachGraph(Graph& g, const std::function<Status(Graph&, int depth)>& f, int depth = 0);

}  // namespace infer
