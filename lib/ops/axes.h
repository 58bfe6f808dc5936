#pragma once
/// Which indices of a result hang on which indices of an operand, as a function of one call: what
/// whoever cuts, permutes or scales a tensor along an axis has to do to its neighbours.
///
/// A link says that an axis of an operand and an axis of a result (or of another operand) run
/// alike. To state merged, split and concatenated axes in the same words, each side gives its
/// indices *labels*. What a link promises of every label is checked on the operators' examples by
/// tests/lib/ops/axes_test.cc. An axis without a link cannot be narrowed by itself: it is reduced,
/// windowed, normalized, carried along, or nothing is known of it.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/tensor/shape.h"

namespace infer {

class OpCall;

/// An axis whose indices begin, begin + step, ... (count of them) have labels: the k-th has
/// k / inner modulo the number of labels of the link. Other indices have none.
struct LabelledAxis {
  size_t value = 0;  ///< position among the operands or the results of the call
  int axis = 0;      ///< from the front
  int64_t inner = 1;
  int64_t begin = 0, step = 1;
  int64_t count = -1;  ///< -1: the whole axis

  /// Every index has a label of its own.
  bool is_whole() const { return inner == 1 && begin == 0 && step == 1 && count < 0; }
  /// -1: none. `labels` is the link's; -1: as many as the axis has indices.
  int64_t LabelOf(int64_t index, int64_t labels) const;
};

struct AxisLink {
  enum class Kind : uint8_t {
    /// A change of the operand under a label reaches the result under this label only; under no
    /// label it reaches nothing.
    kSame,
    /// Products of the operand and of another one are summed over the axis: what the one has under
    /// a label is multiplied by what the other has under this label only.
    kContracted,
  };
  Kind kind = Kind::kSame;
  int64_t labels = -1;  ///< -1: the axes are whole and of the same extent, which is not known
  LabelledAxis from;    ///< of an operand
  LabelledAxis to;      ///< of a result; kContracted: of another operand
};
using AxisLinks = std::vector<AxisLink>;

/// All links of a call whose result types are set. What hangs on values that are not constant has
/// none.
AxisLinks AxesOf(const OpCall& call);
/// The axis of operand `in` that runs, as a whole, like this axis of a result.
std::optional<int> OperandAxis(const OpCall& call, size_t in, size_t out, int out_axis);

// Helpers by which operator families state their links.

/// Whole axes, the one of operand `in`, the other of result `out`. Nothing where their extents are
/// known to differ, or are not known to be equal.
void LinkSame(const OpCall& call, size_t in, int in_axis, size_t out, int out_axis,
              AxisLinks& links);
/// Whole axes of two operands.
void LinkContracted(const OpCall& call, size_t a, int a_axis, size_t b, int b_axis,
                    AxisLinks& links);
/// Operand 0 and result 0, axis by axis, but for those in `without`.
void LinkAllBut(const OpCall& call, const std::vector<int>& without, AxisLinks& links);
/// Operand `in` and result 0, aligned at the last axis, where they have the same extent.
void LinkBroadcast(const OpCall& call, size_t in, AxisLinks& links);
/// Operand 0 and result 0 have the same elements in the same order.
void LinkReshaped(const OpCall& call, AxisLinks& links);

// Of whole families, for OpDef::axes.

/// Element-wise over operands that broadcast.
void BroadcastAxes(const OpCall& call, AxisLinks& links);
void ReshapedAxes(const OpCall& call, AxisLinks& links);
/// All axes of operand 0 but attribute `axis`, in every result of the same rank.
void AllButAxis(const OpCall& call, AxisLinks& links);
/// All axes of operand 0 but the last one, in result 0: features go by positions there.
void AllButLastAxis(const OpCall& call, AxisLinks& links);
/// Rows of operands of two axes, in every result: models of features. An operand of one axis is one
/// row.
void RowAxes(const OpCall& call, AxisLinks& links);
/// The first two axes: samples and channels, each by itself.
void SampleAndChannelAxes(const OpCall& call, AxisLinks& links);

}  // namespace infer
