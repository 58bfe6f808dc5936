#include "passes/blocks/blocks.h"

namespace infer {

std::vector<RuleGroup> BlockRules(bool own) {
  std::vector<RuleGroup> groups = {
      {"fuse-rope-of-parts", {FusePartialRope(), FusePartialPairsRope()}},
      {"fuse-rope",
       {FuseRope(), FuseSplitRope(), FuseInterleavedRope(), FuseTurnedPairsRope(), FuseSlicedRope(),
        FuseSlicedPairsRope(), FuseRopeOfPart(), FuseSplitPartialRope()}},
      {"attention-extents", {ScoreExtentFromInputs()}},
      {"choose-by-mask", {ChooseByMask()}},
      {"fuse-attention",
       {TurnKeysFirst(), FuseAttention(), KeyExtentFromInputs(), AttentionFoldedHeads(),
        AttentionHeads(), AttentionGroups(), AttentionScale(), AttentionCache()}},
      {"attention-layout", {AttentionHeadsLast(), AttentionSequenceFirst()}},
      {"merge-biased-projections", {MergeBiasedProjections()}},
      {"merge-projections", {MergeProjections()}},
  };
  if (own) {
    groups.push_back(
        {"fuse-dense-squeeze-excite", {FuseDenseSqueezeExcite()}});  // has an Mlp inside
    groups.push_back(
        {"fuse-feed-forward", {FuseMlp(), FuseSqueezeExcite(), FuseSwiGlu(), FuseGeGlu()}});
  }
  groups.push_back({"merge-gemm-projections", {MergeGemmProjections()}});
  groups.push_back({"fuse-skip-norms", {FuseSkipLayerNorm(), FuseSkipRmsNorm()}});
  return groups;
}

}  // namespace infer
