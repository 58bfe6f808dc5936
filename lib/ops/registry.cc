#include "lib/ops/registry.h"

#include "lib/ops/families.h"
#include "lib/ops/fused.h"

namespace infer {

OpRegistry AllOps() {
  // One family per line, so that changes merge.
  // clang-format off
  const std::span<const OpDef> families[] = {
      ControlFlowOps(),
      IdentityOps(),
      ConcatSplitOps(),
      GatherOps(),
      GenerateOps(),
      ReshapeOps(),
      ShapeOps(),
      SliceOps(),
      TransposeOps(),
      PadOps(),
      ResizeOps(),
      ScatterOps(),
      SortOps(),
      AttentionOps(),
      ContribFusedOps(),
      ConvOps(),
      MatMulOps(),
      PoolOps(),
      QLinearOps(),
      RecurrentOps(),
      VariadicOps(),
      UnaryOps(),
      LogicalOps(),
      CompareOps(),
      BinaryOps(),
      ActivationOps(),
      CastOps(),
      QuantizeLinearOps(),
      NormalizationOps(),
      ReduceOps(),
      SoftmaxOps(),
      DetectionOps(),
      EinsumOps(),
      GridOps(),
      RandomOps(),
      SignalOps(),
      SequenceOps(),
      LiftedNormalizationOps(),
      LossOps(),
      StringOps(),
      FusedOps(),
  };
  // clang-format on
  return OpRegistry(families);
}

}  // namespace infer
