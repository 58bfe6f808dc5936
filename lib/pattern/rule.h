#pragma once
/// A rule is one value: what it matches, when, and the graphs that test it. A rewrite rule also
/// says what it builds (passes/rewrite); a rule that builds nothing states which nodes form a
/// group, such as those that a backend computes as one step (runtime/plan_ir/groups).
#include "lib/pattern/match.h"
#include "lib/support/status.h"

namespace infer {

class PatchBuilder;

struct Rule {
  /// A condition on the whole match. `text` completes "needs ..." and is shown to users.
  struct Guard {
    std::string text;
    std::function<bool(const Match&)> holds;
  };
  /// A graph in text form that the rule must leave alone, and a piece of the reason that it gives.
  struct NearMiss {
    std::string graph, reason;
  };

  std::string name;  ///< kebab-case; what --disable and --explain take
  std::string doc;   ///< "before => after", one line
  /// Matching begins here: at the value that is replaced, or at the main node of a group.
  Pattern match;
  /// Further roots: siblings over a value of the first, or what the first is a part of.
  std::vector<Pattern> also = {};
  std::vector<Guard> when = {};
  /// The conditions say what is meant, not what the user missed: a match that they refuse is told
  /// only to those who ask for this rule (--explain).
  bool quiet = false;
  /// The value that replaces the root; further ones by PatchBuilder::Replace. nullptr: only those
  /// are replaced. A failure with InvalidModel or Unsupported is a refusal with that reason.
  /// Empty: the rule states a group.
  std::function<Result<Value*>(const Match&, PatchBuilder&)> build = {};
  std::vector<std::string> fires_on =
      {};                                ///< each is matched once, and rewritten by this rule alone
  std::vector<NearMiss> silent_on = {};  ///< one at least per guard

  /// `match` and `also`.
  std::vector<Pattern> roots() const;
};

/// The rule's match that begins at `root`, its guards included. On failure `why`, when given, says
/// what was in the way; where a guard was, all operators of the pattern have matched.
std::optional<Match> FindMatch(const Rule& rule, Value* root, Mismatch* why = nullptr);
/// The same where the values of several roots are given.
std::optional<Match> FindMatch(const Rule& rule, std::span<Value* const> values,
                               Mismatch* why = nullptr);

/// A rule that makes no node: the root is the value that `x` bound.
inline std::function<Result<Value*>(const Match&, PatchBuilder&)> ReplaceBy(const Pattern& x) {
  return [x](const Match& m, PatchBuilder&) -> Result<Value*> { return m[x]; };
}

}  // namespace infer
