#pragma once
/// Forms of normalisations that import turns into others.
#include "lib/ops/op_def.h"

namespace infer {

/// BatchNormalization before opset 14, and with training_mode: its parts over the batch's
/// statistics.
Status LiftBatchNorm(NodeSpec node, int opset, LiftContext& out);

}  // namespace infer
