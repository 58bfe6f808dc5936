#include "passes/blocks/blocks.h"

namespace infer {

std::vector<RuleGroup> BlockRules() {
  return {
      {"fuse-attention",
       {FuseAttention(), AttentionFoldedHeads(), AttentionHeads(), AttentionScale(),
        AttentionCache()}},
      {"attention-layout", {AttentionHeadsLast(), AttentionSequenceFirst()}},
  };
}

}  // namespace infer
