#include "lib/ops/registry.h"

#include <span>

namespace infer {

// The families, each defined in the file of its name. They stand in no header, so that a new one
// recompiles nothing but its own file and this one.
std::span<const OpDef> ControlFlowOps();
std::span<const OpDef> IdentityOps();
std::span<const OpDef> ConcatSplitOps();
std::span<const OpDef> GatherOps();
std::span<const OpDef> GenerateOps();
std::span<const OpDef> ReshapeOps();
std::span<const OpDef> ShapeOps();
std::span<const OpDef> SliceOps();
std::span<const OpDef> TransposeOps();
std::span<const OpDef> PadOps();
std::span<const OpDef> ResizeOps();
std::span<const OpDef> ScatterOps();
std::span<const OpDef> SortOps();
std::span<const OpDef> NonZeroOps();
std::span<const OpDef> CumulativeOps();
std::span<const OpDef> AttentionOps();
std::span<const OpDef> ContribAttentionOps();
std::span<const OpDef> ContribFusedOps();
std::span<const OpDef> ContribGroupAttentionOps();
std::span<const OpDef> ContribIntegerOps();
std::span<const OpDef> ContribOtherOps();
std::span<const OpDef> ContribQLinearOps();
std::span<const OpDef> ConvOps();
std::span<const OpDef> ConvGradientOps();
std::span<const OpDef> MatMulOps();
std::span<const OpDef> PoolOps();
std::span<const OpDef> QLinearOps();
std::span<const OpDef> RecurrentOps();
std::span<const OpDef> VariadicOps();
std::span<const OpDef> UnaryOps();
std::span<const OpDef> LogicalOps();
std::span<const OpDef> CompareOps();
std::span<const OpDef> BinaryOps();
std::span<const OpDef> ActivationOps();
std::span<const OpDef> ClipOps();
std::span<const OpDef> CastOps();
std::span<const OpDef> QuantizeLinearOps();
std::span<const OpDef> NormalizationOps();
std::span<const OpDef> RowNormalizationOps();
std::span<const OpDef> ReduceOps();
std::span<const OpDef> SoftmaxOps();
std::span<const OpDef> DetectionOps();
std::span<const OpDef> EinsumOps();
std::span<const OpDef> GridOps();
std::span<const OpDef> ImageDecoderOps();
std::span<const OpDef> RandomOps();
std::span<const OpDef> SignalOps();
std::span<const OpDef> SignalWindowOps();
std::span<const OpDef> SequenceOps();
std::span<const OpDef> LiftedNormalizationOps();
std::span<const OpDef> LossOps();
std::span<const OpDef> StringOps();
std::span<const OpDef> TfIdfOps();
std::span<const OpDef> TokenizerOps();
std::span<const OpDef> FusedOps();
std::span<const OpDef> FusedBlockOps();
std::span<const OpDef> LinearAttentionOps();
std::span<const OpDef> DeformConvOps();
std::span<const OpDef> MlFeatureOps();
std::span<const OpDef> MlLabelOps();
std::span<const OpDef> MlLinearOps();
std::span<const OpDef> MlMapOps();
std::span<const OpDef> MlSvmOps();
std::span<const OpDef> MlTreeOps();

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
      NonZeroOps(),
      CumulativeOps(),
      AttentionOps(),
      ContribAttentionOps(),
      ContribFusedOps(),
      ContribGroupAttentionOps(),
      ContribIntegerOps(),
      ContribOtherOps(),
      ContribQLinearOps(),
      ConvOps(),
      ConvGradientOps(),
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
      ClipOps(),
      CastOps(),
      QuantizeLinearOps(),
      NormalizationOps(),
      RowNormalizationOps(),
      ReduceOps(),
      SoftmaxOps(),
      DetectionOps(),
      EinsumOps(),
      GridOps(),
      ImageDecoderOps(),
      RandomOps(),
      SignalOps(),
      SignalWindowOps(),
      SequenceOps(),
      LiftedNormalizationOps(),
      LossOps(),
      StringOps(),
      TfIdfOps(),
      TokenizerOps(),
      FusedOps(),
      FusedBlockOps(),
      LinearAttentionOps(),
      DeformConvOps(),
      MlFeatureOps(),
      MlLabelOps(),
      MlLinearOps(),
      MlMapOps(),
      MlSvmOps(),
      MlTreeOps(),
  };
  // clang-format on
  return OpRegistry(families);
}

}  // namespace infer
