#pragma once
/// Which open extents of a model follow from others, by what inference states about them.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "lib/tensor/equations.h"

namespace infer {

/// What inference states where every open dimension of an input is a symbol: its own, or its name
/// ("x[1]") where it has none. Up to the first node that is ill-typed.
std::vector<ExtentEquation> EquationsOf(const Graph& g);

/// Expressions over the other symbols for those that equations determine.
using ExtentSolution = std::map<std::string, Dim>;

enum class Strictness : uint8_t {
  kEqual,      ///< only what must hold
  kBroadcast,  ///< operands of a broadcast have one extent, though one of them could be 1; those
               ///< of a constant with many are left, for samples would be large
  kLarge,      ///< those of constants with many, too
};

/// Eliminates one symbol per equation that is linear in it with a coefficient of 1 or -1, best one
/// that becomes a sum without negative terms (total = past + new, not past = total - new), and
/// else not one of `kept`. Symbols that are not `open` are left alone, with their equations: they
/// stand for roundings. What contradicts earlier equations is dropped: whoever tries the extents
/// finds out. `fixed`: numbers of symbols that are not up for choice.
ExtentSolution SolveExtents(const std::vector<ExtentEquation>& equations, Strictness strictness,
                            const std::set<std::string>& open, const std::set<std::string>& kept,
                            const std::map<std::string, int64_t>& fixed);

}  // namespace infer
