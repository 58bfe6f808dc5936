#pragma once
/// States of loops that no iteration changes.
#include "lib/ir/editor.h"

namespace infer {

/// Each value that a Loop carries and whose body passes it on as it came (a while loop of
/// TensorFlow hands its weights from iteration to iteration so) becomes one that the body captures:
/// it is copied no more, and a constant is one inside. Loops that carry nothing else stay. Returns
/// how many values are captured.
Result<int> CaptureUnchangedStates(Graph& g);

}  // namespace infer
