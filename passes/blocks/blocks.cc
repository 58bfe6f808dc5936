#include "passes/blocks/blocks.h"

namespace infer {

std::vector<RuleGroup> BlockRules() {
  return {
      {"fuse-rope", {FuseRope(), FuseInterleavedRope()}},
      {"attention-extents", {ScoreExtentFromInputs()}},
      {"choose-by-mask", {ChooseByMask()}},
      {"fuse-attention",
       {TurnKeysFirst(), FuseAttention(), KeyExtentFromInputs(), AttentionFoldedHeads(),
        AttentionHeads(), AttentionScale(), AttentionCache()}},
      {"attention-layout", {AttentionHeadsLast(), AttentionSequenceFirst()}},
      {"merge-biased-projections", {MergeBiasedProjections()}},
      {"merge-projections", {MergeProjections()}},
      {"fuse-dense-squeeze-excite", {FuseDenseSqueezeExcite()}},  // it has an Mlp inside
      {"fuse-feed-forward", {FuseMlp(), FuseSqueezeExcite(), FuseSwiGlu(), FuseGeGlu()}},
      {"merge-gemm-projections", {MergeGemmProjections()}},
      {"fuse-skip-norms", {FuseSkipLayerNorm(), FuseSkipRmsNorm()}},
  };
}

}  // namespace infer
