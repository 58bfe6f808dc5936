#pragma once
/// The property test of rules, built in or a user's: random graphs around the examples of a rule
/// must keep their values, names and laws, whatever fires on them.
#include "passes/rewrite/rule.h"
#include "passes/rewrite/sketch.h"

namespace infer {

/// Bends `s` in one random way; false: nothing to bend in that way. The result may be ill-typed.
/// `kind` < NumBends(): operators before and behind, further readers and outputs, the region twice,
/// shared and separate constants, other constants, attributes, operands, shapes and types.
bool Bend(Sketch& s, int kind, uint64_t seed, const OpRegistry& ops);
int NumBends();
std::string_view BendName(int kind);

struct FuzzOptions {
  uint64_t seed = 1;
  int64_t graphs = 20;
  int max_bends = 5;
  double max_seconds = 1e9;
  /// Runs everything a user would run on the graph, after which it must compute the same; nullptr:
  /// only the rule alone is tried. (A function, because pipelines stand above this folder's rules.)
  std::function<Status(Graph&)> pipeline = {};
};

struct FuzzFailure {
  std::string rule, what;
  uint64_t seed = 0;  ///< of the graph: FuzzOptions::seed with graphs = 1 makes it again
  std::string bends;  ///< those that the failure needs
  std::string graph;  ///< in text form, shrunk
};

struct FuzzResult {
  int64_t graphs = 0;    ///< checked
  int64_t fired = 0;     ///< graphs on which the rule fired
  int64_t rewrites = 0;  ///< by the rule alone
  int64_t skipped = 0;   ///< ill-typed, or the reference kernels refuse them
  int64_t rounding = 0;  ///< overflowed, or differ by what 16 bits cannot hold; f32 agrees
  std::vector<FuzzFailure> failures;
};

/// Graphs around `examples` (graphs in text form).
FuzzResult FuzzRule(const Rule& rule, std::span<const std::string> examples, const OpRegistry& ops,
                    const FuzzOptions& options);

}  // namespace infer
