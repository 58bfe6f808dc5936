#pragma once
/// What level 3 does: what networks are built from becomes one operator each: attention,
/// feed-forward nets, skip connections with their normalization. Standard where ONNX has it, of our
/// own (domain infer) where it does not. Quantization wants the layers inside and stops before this
/// level.
#include "passes/fuse/fusions.h"

namespace infer {

/// In order: a small block does not take the pieces of a large one.
/// `own`: feed-forward nets as operators of domain infer, too; without, those that a target would
/// write as their nodes anyway stay nodes, in the form that they came in.
std::vector<RuleGroup> BlockRules(bool own = true);

Rule FuseAttention();
Rule AttentionFoldedHeads();
Rule AttentionHeads();
Rule AttentionGroups();
Rule AttentionScale();
Rule AttentionCache();
Rule AttentionHeadsLast();
Rule AttentionSequenceFirst();
Rule ScoreExtentFromInputs();
Rule KeyExtentFromInputs();
Rule TurnKeysFirst();
Rule ChooseByMask();
Rule FuseRope();
Rule FuseSplitRope();
Rule FuseInterleavedRope();
Rule FuseTurnedPairsRope();
Rule FusePartialRope();
Rule FusePartialPairsRope();
Rule FuseSlicedRope();
Rule FuseSlicedPairsRope();
Rule FuseRopeOfPart();
Rule FuseSplitPartialRope();
Rule MergeProjections();
Rule MergeBiasedProjections();
Rule MergeGemmProjections();
Rule FuseSwiGlu();
Rule FuseGeGlu();
Rule FuseMlp();
Rule FuseSqueezeExcite();
Rule FuseDenseSqueezeExcite();
Rule FuseSkipLayerNorm();
Rule FuseSkipRmsNorm();

}  // namespace infer
