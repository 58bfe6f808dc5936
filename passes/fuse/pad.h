#pragma once
/// A Pad node before a layer that can pad by itself.
#include "passes/rewrite/rule.h"

namespace infer {

/// Pad of constant amounts with a constant value.
struct PadPattern {
  explicit PadPattern(Pattern x_in = Any(), Pattern value_in = Number(0).OrOmitted());
  Pattern x, value, pads = Constant(), axes = Constant().OrOmitted(), node;
};

/// The attributes of `layer` with the pads of the Pad node added.
Result<AttrMap> WithPads(const Match& m, const PadPattern& p, const Node& layer);
/// As above for a pool, of which no window may lie in the padding alone.
Result<AttrMap> PoolWithPads(const Match& m, const PadPattern& p, const Node& pool);

}  // namespace infer
