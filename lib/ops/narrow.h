#pragma once
/// The same call after some of its operands and results lost indices along axes: which attributes
/// and constant operands have to change with them. Most operators need nothing. AxesOf (axes.h)
/// says which indices have to go together.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lib/ops/op_def.h"

namespace infer {

/// Indices that stay along one axis of an operand or a result, ascending, at least one.
struct KeptIndices {
  bool is_result = false;
  size_t value = 0;  ///< position among the operands or the results
  int axis = 0;      ///< from the front
  std::vector<int64_t> kept;
};

struct NarrowedCall {
  std::vector<KeptIndices> axes;  ///< those that lose indices; others keep theirs
  AttrMap attrs;                  ///< all attributes of the call, changed where that is needed
  /// Operands that get another constant: extents, starts. One that was absent is added.
  std::map<size_t, Tensor> replaced;

  /// nullptr: the axis keeps all.
  const KeptIndices* Find(bool is_result, size_t value, int axis) const;
  /// The extent afterwards. Pre: the operand or result is there, with a rank.
  Dim ExtentOf(const OpCall& call, bool is_result, size_t value, int axis) const;
};

/// Fills `to.attrs` and `to.replaced` for `to.axes`. Unsupported: the call cannot be written with
/// these axes; the message says why, without naming the node. What comes out is to be inferred and
/// compared with the extents that are expected: operators that mix an axis keep its old extent.
Status Narrow(const OpCall& call, NarrowedCall& to);

/// A Slice with a step along one axis, as the Gather that it is: what loses indices along that axis
/// keeps no step.
struct CallAsGather {
  int axis = 0;  ///< from the front
  Tensor indices;
};
std::optional<CallAsGather> AsGather(const OpCall& call);

}  // namespace infer
