#include "lib/ops/registry.h"

#include "lib/ops/families.h"

namespace infer {

OpRegistry AllOps() {
  const std::span<const OpDef> families[] = {
      ControlFlowOps(),   IdentityOps(), ConcatSplitOps(), GatherOps(),    GenerateOps(),
      ReshapeOps(),       ShapeOps(),    SliceOps(),       TransposeOps(), PadOps(),
      ResizeOps(),        ScatterOps(),  SortOps(),        AttentionOps(), ConvOps(),
      MatMulOps(),        PoolOps(),     QLinearOps(),     RecurrentOps(), VariadicOps(),
      UnaryOps(),         LogicalOps(),  CompareOps(),     BinaryOps(),    ActivationOps(),
      NormalizationOps(), ReduceOps(),   SoftmaxOps(),
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
      DetectionOps(),
      EinsumOps(),
      GridOps(),
      RandomOps(),
      ConvOps(),
      MatMulOps(),
      PoolOps(),
      QLinearOps(),
      RecurrentOps(),
  };
  return OpRegistry(families);
}

}  // namespace infer
