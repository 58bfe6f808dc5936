#include "passes/simplify/simplify.h"

namespace infer {

std::vector<Rule> SimplifyRules() {
  return {
      RemoveIdentity(),
      RemoveDropout(),
      RemoveNoOpCast(),
      MergeCasts(),
      SkipCastBeforeShape(),
      RemoveNoOpTranspose(),
      RemoveNoOpReshape(),
      RemoveNoOpSlice(),
      RemoveNoOpPad(),
      RemoveSingleConcat(),
      RemoveSingleSplit(),
      RemoveSingleSum(),
      SumOfTwo(),
      RemoveAddZero(),
      RemoveMulOne(),
      RemovePowOne(),
      RemoveKnownWhere(),
      MergeNotWhere(),
      CancelNegations(),
      MergeTransposes(),
      TransposeJoinedAxes(),
      CancelTransposesAcrossUnary(),
      CancelSqueezeUnsqueeze(),
      MergeReshapes(),
      MergeViews(),
      StaticReshape(),
      StaticExpand(),
      SkipExpand(),
      MergeSlices(),
      SliceOfConcat(),
      SliceByGather(),
      SliceOfShuffle(),
      MergeGatherUnsqueeze(),
      MergeConcats(),
      CancelSplitConcat(),
      CancelConcatSplit(),
      MergeReduceSqueeze(),
      MergeReduceUnsqueeze(),
      RemoveRepeated(),
      MergeBounds(),
      MergeConstantFactors(),
      MergeConstantTerms(),
      InlineIf(),
      UnflattenMatMul(),
  };
}

}  // namespace infer
