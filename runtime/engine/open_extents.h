#pragma once
/// Facts about extents that a model leaves open, which proofs along one of them share
/// (batch_axes.h, padding.h).
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/ir/graph.h"

namespace infer::engine {

/// "'x'".
std::string Quoted(const Value& v);

/// Elements are whole bytes.
inline bool CanBeCut(DType t) { return BitWidth(t) >= 8; }

/// Axes whose extent is `symbol`; nullopt where another extent hangs on it. Extents of which
/// nothing is known are none of them. Pre: a known rank.
std::optional<std::vector<int>> AxesNamed(const Shape& shape, const std::string& symbol);

/// The extent hangs on `symbol`. Of one that is not known that cannot be said.
bool HangsOn(const Dim& extent, const std::string& symbol);

/// Of a small integer tensor, where inference knows all of them; nullptr else.
const std::vector<Dim>* KnownElements(const Value& v);

/// Nothing is known of one of the extents, or of their number.
bool HasUnknownExtent(const Value& v);

/// The operand, which hangs on an extent, only says how long the result is: neither where its
/// elements begin nor how far apart they lie.
bool OnlySaysLengths(const Node& node, size_t operand);

/// Both axes run alike, as a whole.
bool AreLinked(const AxisLinks& links, size_t in, int in_axis, size_t out, int out_axis);

/// Whole numbers that are the smaller of an extent and constants, element by element: what
/// exporters cut tables of positions with. Inference follows extents through tensors of integers;
/// these also pass through conversions and minima.
class LeastExtents {
 public:
  /// Pre: nodes in their order.
  void Follow(const Node& node);
  /// The extents; nullptr: `v` is not made so.
  const std::vector<Dim>* Of(const Value* v) const;

 private:
  std::unordered_map<const Value*, std::vector<Dim>> of_;
};

/// An axis of input 0 that is read from its first index up to the smaller of `end` and constants.
struct Prefix {
  int axis = 0;
  Dim end;
};
/// nullopt: the node reads no such part of input 0.
std::optional<std::vector<Prefix>> PrefixesOf(const Node& node, const LeastExtents& extents);

}  // namespace infer::engine
