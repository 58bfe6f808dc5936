#pragma once
/// The one table of operators that INT8 covers, and what each needs from a node.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/ir/graph.h"

namespace infer {

enum class QuantRole : uint8_t {
  kWeighted,     ///< multiplies and sums activations with weights (or activations)
  kElementwise,  ///< integer only where an operand is integer already
  kPool,         ///< averages; own parameters for the result
  kConcat,       ///< operands and result share parameters
  kMovement,     ///< moves or selects elements of operand 0: results share its parameters
};

struct QuantOp {
  std::string_view op;
  QuantRole role;
  /// Integer kernels can return f32, so that nothing is rounded where nobody wants integers.
  bool float_result = false;
  /// Why this node cannot be quantized; "" when it can.
  std::string (*refuse)(const Node&) = nullptr;
};

/// nullptr: the table does not have the operator.
const QuantOp* FindQuantOp(const Node& node);

/// A node that gives floats, or what is no tensor: arithmetic on extents and masks is no layer, and
/// is not reported as one.
bool IsLayer(const Node& node);

/// Operands of `node` that are quantized as activations.
bool IsQuantizedOperand(const QuantOp& op, const Node& node, size_t operand);
/// The operand that holds constant weights; nullopt for none.
std::optional<size_t> WeightOperand(const QuantOp& op, const Node& node);
/// The axis of the weights along which each output channel has a scale; -1: only per tensor.
int WeightAxis(const Node& node, size_t weight_operand);
/// Operand of a bias that becomes int32: input 2 of Conv, ConvTranspose and Gemm, where present.
std::optional<size_t> BiasOperand(const Node& node);

}  // namespace infer
