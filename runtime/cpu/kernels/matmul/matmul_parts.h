#pragma once
/// The parts of a matrix product's step, as its nodes state them, for all kernels of MatMul and
/// Gemm.
#include "runtime/cpu/kernels/common/epilogue.h"

namespace infer {

/// "" where some kernel of ours takes the step; else why not.
std::string RefuseMatMul(const StepCall& call);

/// Pre: RefuseMatMul(call) is "".
struct MatMulParts {
  explicit MatMulParts(const StepCall& call);
  static bool TurnsA(const Node& node);

  bool gemm;
  int a, b, bias;  ///< operands; bias -1: none
  Epilogue epilogue;
  bool trans_a = false, trans_b = false;
  Tensor weights, bias_constant;  ///< with alpha and beta; undefined: not constant
};

}  // namespace infer
