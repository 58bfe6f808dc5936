#pragma once
/// States of loops that no iteration changes.
#include "lib/ir/editor.h"

namespace infer {

/// Each tensor that a Loop or Scan of `g` carries and whose body passes it on as it came (a while
/// loop of TensorFlow hands its weights from iteration to iteration so) becomes one that the body
/// reads from outside: it is copied no more, and its final value is the first one. A constant
/// becomes one of the body, as import puts those that a body reads; others are captured. A loop
/// that gives nothing else stays. Bodies are not searched. Returns how many values are carried no
/// more.
Result<int> CaptureUnchangedStates(Graph& g);

}  // namespace infer
