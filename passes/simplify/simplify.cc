#include "passes/simplify/simplify.h"

namespace infer {

std::vector<Rule> SimplifyRules() {
  return {
      RemoveIdentity(),
      RemoveDropout(),
      RemoveNoOpCast(),
      RemoveNoOpTranspose(),
      RemoveNoOpReshape(),
      RemoveNoOpSlice(),
      RemoveNoOpPad(),
      RemoveSingleConcat(),
      RemoveAddZero(),
      RemoveMulOne(),
      RemovePowOne(),
      MergeTransposes(),
      CancelTransposesAcrossUnary(),
      CancelSqueezeUnsqueeze(),
      MergeReshapes(),
      StaticReshape(),
      MergeReluClip(),
      MergeRelus(),
  };
}

}  // namespace infer
