#include "passes/fuse/fusions.h"

namespace infer {

std::vector<RuleGroup> FusionRules() {
  return {
      {"fuse-activations",
       {FuseGelu(), FuseTanhGelu(), FuseHardSwish(), FuseHardSigmoid(), FuseSilu()}},
      {"fuse-normalizations", {FuseLayerNorm(), FuseLayerNormScale(), FuseLayerNormBias()}},
      {"fold-into-layers",
       {FusePadConv(), FusePadAveragePool(), FoldBatchNorm(), FoldChannelScale(),
        FoldChannelShift(), FuseMatMulAdd()}},
  };
}

}  // namespace infer
