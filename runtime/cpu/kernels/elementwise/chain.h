#pragma once
/// Chains of element-wise operators, with normalizations of rows among them and a quantization at
/// their end, as one step: a block of elements goes through all of them while it lies in L1.
#include "runtime/cpu/simd/loops.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Where an operator of a chain reads or writes.
struct ChainPlace {
  enum class Kind : uint8_t { kNone, kSlot, kOperand, kResult };
  Kind kind = Kind::kNone;
  int index = 0;  ///< of the slot, or of the operand or result of the step
};

struct ChainOp {
  enum class Kind : uint8_t { kUnary, kBinary, kLayerNorm, kRmsNorm, kQuantize };
  Kind kind = Kind::kUnary;
  simd::Unary unary = simd::Unary::kAbs;
  simd::Binary binary = simd::Binary::kAdd;
  float a = 0, b = 0;  ///< of the unary loop; a: epsilon, or the scale of kQuantize
  int32_t zero_point = 0;
  bool is_signed = false;  ///< kQuantize
  ChainPlace in[3];        ///< operands; scale and bias of a normalization
  ChainPlace out;
};

struct Chain {
  std::vector<ChainOp> ops;
  int slots = 0;            ///< blocks of intermediate values that live at once
  bool by_rows = false;     ///< some operator needs a row of the last dimension as a whole
  bool keeps_zero = true;   ///< all zeros in, zeros out: padding stays as it is
  bool quantizes = false;   ///< the last result has 8 bits
  std::vector<bool> reads;  ///< by operand of the step: the others are parameters, known now
};

/// Floats of all slots together.
constexpr int64_t kChainFloats = 16384;
/// Elements that go through a chain at once where it has no rows.
constexpr int64_t kChainBlock = 1024;

/// Operators of two tensors that a chain takes.
std::vector<std::string_view> ChainBinaryOperators();

/// Unsupported says which node does not fit.
Result<Chain> DecodeChain(const StepCall& call);

}  // namespace infer
