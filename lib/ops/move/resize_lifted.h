#pragma once
/// Older forms of Resize, in and out.
#include "lib/ops/op_def.h"

namespace infer {

/// Resize before opset 11 (two operands) and 18 (a transform more).
Status LiftResize(NodeSpec node, int opset, LiftContext& out);
/// The form of opset 11, where roi and scales had to stand (empty ones are none), that of opset 10,
/// or Upsample. Unsupported: what the older form cannot say.
Result<NodeSpec> LowerResize(NodeSpec node, int opset, LiftContext& out);
/// Upsample as a Resize. Opset 1 has two scales, 7 an attribute, 9 an operand.
Status LiftUpsample(NodeSpec node, int opset, LiftContext& out);

}  // namespace infer
