#pragma once
/// The parts of a matrix product's step, as its nodes state them, for all kernels of MatMul and
/// Gemm.
#include <optional>

#include "runtime/cpu/kernels/common/epilogue.h"

namespace infer {

/// "" where some kernel of ours takes the step; else why not.
std::string RefuseMatMul(const StepCall& call);

/// Pre: RefuseMatMul(call) is "".
struct MatMulParts {
  explicit MatMulParts(const StepCall& call);
  /// For a kernel that multiplies by them: `weights`, where they are constant.
  void TakeWeights(const StepCall& call);
  static bool TurnsA(const Node& node);

  bool gemm;
  int a, b, bias;  ///< operands; bias -1: none
  Epilogue epilogue;
  bool trans_a = false, trans_b = false;
  float alpha = 1;
  std::optional<Dims> constant;           ///< extents of constant weights
  std::shared_ptr<WeightSource> weights;  ///< with alpha; nullptr: not constant, or not taken
  Tensor bias_constant;                   ///< with beta; undefined: not constant
  /// As Kernel::packs, of a kernel that has taken the weights.
  bool packs(int operand) const { return weights && operand == b; }
};

}  // namespace infer
