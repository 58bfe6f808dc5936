#pragma once
/// A Pad node before a layer that can pad by itself.
#include "passes/rewrite/rule.h"

namespace infer {

/// Pad of constant amounts with a constant value.
struct PadPattern {
  explicit PadPattern(Pattern x_in = Any(), Pattern value_in = Number(0).OrOmitted());
  Pattern x, value, pads = Constant(), axes = Constant().OrOmitted(), node;
};

/// The pads attribute of `layer` with those of the Pad node added.
Result<std::vector<int64_t>> AddedPads(const Match& m, const PadPattern& p, const Node& layer);

}  // namespace infer
