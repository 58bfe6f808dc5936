#include "passes/fuse/fusions.h"

#include "passes/ort/ort.h"
#include "passes/simplify/simplify.h"

namespace infer {

std::vector<RuleGroup> FusionRules() {
  // One rule per line, so that changes merge.
  // clang-format off
  return {
      {"expand-and-gather",
       {
           TakeApartFused(),
           ExpandEinsum(),
           MoveOnIntegers(),
           DropBoundBeforeQuantize(),
           GatherBeforeDequantize(),
           FuseSpaceToDepth(),
           FoldChannelOrder(),
           FuseDepthToSpace(),
           FuseReshapedSpaceToDepth(),
       }},
      {"fuse-activations",
       {
           FuseClip(),
           FuseRelu(),
           FuseLeakyRelu(),
           FusePRelu(),
           FuseGelu(),
           FuseTanhGelu(),
           FuseHardSwish(),
           FuseHardSigmoid(),
           FuseSilu(),
           FuseSigmoid(),
           FuseSwish(),
           FuseSoftplus(),
           FuseMish(),
           FuseSoftsign(),
           FuseSoftmax(),
           FuseLogSoftmax(),
           RemoveSoftmaxShift(),
       }},
      {"fuse-normalizations",
       {
           FuseScaledLayerNorm(),
           FuseLayerNorm(),
           FuseRmsNorm(),
           FuseNormCasts(),
           FuseInstanceNorm(),
           FuseLayerNormScale(),
           FuseLayerNormBias(),
           FuseLayerNormChannelScale(),
           FuseLayerNormChannelBias(),
           FuseRmsNormScale(),
           FuseGroupNorm(),
           FoldNormScale(),
           FoldNormShift(),
       }},
      // Before layers take their neighbours in: a bias behind a Transpose is none of theirs.
      {"move-transposes",
       {
           MoveTransposes(),
           MergeTransposeGemm(),
           MergeTransposeMatMul(),
           MergeGemmTranspose(),
       }},
      {"fold-into-layers",
       {
           FusePadConv(),
           FusePadAveragePool(), FusePadMaxPool(), FuseGlobalAveragePool(),
           FoldBatchNorm(),
           FoldChannelScale(),
           FoldChannelShift(),
           FoldRowScale(),
           FoldBatchNormBehindView(),
           FuseMatMulAdd(), FoldInputBatchNorm(), FoldInputScale(), FuseMatMulNBitsBias(),
       }},
      {"fuse-what-is-left",
       {
           FuseBatchNorm(),
       }},
  };
  // clang-format on
}

std::vector<Rule> FinishingRules() {
  return {DivideByMultiplying(), ViewTransposes(), SplitIntoParts(), SliceOfShape()};
}

}  // namespace infer
