#pragma once
/// A rewrite rule is one value: what it matches, when, what it builds, and the graphs that test it
/// (passes/rewrite/rule_suite.h).
#include "passes/rewrite/patch.h"

namespace infer {

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
  Pattern match;
  std::vector<Pattern> also = {};  ///< further roots: siblings over a value of the first
  std::vector<Guard> when = {};
  /// The conditions say what is meant, not what the user missed: a match that they refuse is told
  /// only to those who ask for this rule (--explain).
  bool quiet = false;
  /// The value that replaces the root; further ones by PatchBuilder::Replace. nullptr: only those
  /// are replaced. A failure with InvalidModel or Unsupported is a refusal with that reason.
  std::function<Result<Value*>(const Match&, PatchBuilder&)> build;
  std::vector<std::string> fires_on = {};  ///< each is rewritten, by this rule alone
  std::vector<NearMiss> silent_on = {};    ///< one at least per guard
};

/// A rule that makes no node: the root is the value that `x` bound.
inline std::function<Result<Value*>(const Match&, PatchBuilder&)> ReplaceBy(const Pattern& x) {
  return [x](const Match& m, PatchBuilder&) -> Result<Value*> { return m[x]; };
}

}  // namespace infer
