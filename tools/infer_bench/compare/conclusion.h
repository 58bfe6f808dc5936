#pragma once
/// What a comparison concluded, in words: for people, for Markdown, and for GitHub's workflows.
#include <span>
#include <string>

#include "tools/infer_bench/compare/decision.h"

namespace infer {

struct Conclusion {
  std::string title;  ///< what was compared
  Verdict verdict = Verdict::kInconclusive;
  Estimate effect;         ///< B's time over A's - 1, 95 %
  bool measured = false;   ///< there is an effect
  bool suspected = false;  ///< a difference was seen but not confirmed
  bool fails = false;      ///< the gate
  double min_effect = 0;
  std::string reason;      ///< of what is inconclusive, where more than the interval is to be said
  std::string a_ms, b_ms;  ///< as shown
  std::string basis;       ///< "8 starts in 9.1 s"
};

std::string Percent(double share);  ///< "+1.25 %"; "?" where there is no number
/// "B is slower by +3.10 % (95 % interval +2.70 % to +3.50 %)", or what is known of it.
std::string Sentence(const Conclusion& c);
/// A table with a row each.
std::string MarkdownTable(std::span<const Conclusion> all);
/// Workflow commands that annotate a pull request: ::error where a gate failed, ::warning for what
/// is inconclusive, ::notice else.
std::string GithubCommands(std::span<const Conclusion> all);

}  // namespace infer
