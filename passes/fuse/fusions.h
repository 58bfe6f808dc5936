#pragma once
/// What level 2 does: subgraphs that exporters write become one operator, standard where ONNX has
/// it, of our own (domain infer, lib/ops/fused/fused.cc) where it does not. A rule is a file, or a
/// family of rules is.
#include "passes/rewrite/rule.h"

namespace infer {

/// Rules that run together until none fires. Groups run in order, so that a small pattern does not
/// take the pieces of a large one.
struct RuleGroup {
  std::string name;
  std::vector<Rule> rules;
};
std::vector<RuleGroup> FusionRules();
/// What waits until the blocks are found, which are made of Transposes, Slices and divisions as
/// exporters write them.
std::vector<Rule> FinishingRules();

Rule FuseClip();
Rule FuseRelu();
Rule FuseLeakyRelu();
Rule FusePRelu();
Rule FuseGelu();
Rule FuseTanhGelu();
Rule FuseHardSwish();
Rule FuseHardSigmoid();
Rule FuseSilu();
Rule FuseSigmoid();
Rule FuseSwish();
Rule FuseSoftplus();
Rule FuseMish();
Rule FuseSoftsign();
Rule FuseSoftmax();
Rule FuseLogSoftmax();
Rule RemoveSoftmaxShift();
Rule FuseScaledLayerNorm();
Rule FuseLayerNorm();
Rule FuseLayerNormScale();
Rule FuseLayerNormBias();
Rule FuseLayerNormChannelScale();
Rule FuseLayerNormChannelBias();
Rule FuseRmsNorm();
Rule FuseRmsNormScale();
Rule FuseNormCasts();
Rule FuseGroupNorm();
Rule FuseInstanceNorm();
Rule FoldNormScale();
Rule FoldNormShift();
Rule FuseBatchNorm();
Rule FusePadConv();
Rule FusePadAveragePool();
Rule FusePadMaxPool();
Rule FuseGlobalAveragePool();
Rule FoldInputBatchNorm();
Rule FoldInputScale();
Rule FoldBatchNorm();
Rule FoldChannelScale();
Rule FoldChannelShift();
Rule FoldRowScale();
Rule FoldBatchNormBehindView();
Rule FuseMatMulAdd();
Rule FuseMatMulNBitsBias();

Rule ExpandEinsum();
Rule MoveOnIntegers();
Rule DropBoundBeforeQuantize();
Rule GatherBeforeDequantize();
Rule FuseSpaceToDepth();
Rule FoldChannelOrder();
Rule FuseDepthToSpace();
Rule FuseReshapedSpaceToDepth();
Rule SplitIntoParts();

}  // namespace infer
