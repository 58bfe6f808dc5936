#pragma once
/// Functions of one operand, as shaders number them (Apply in shaders/common.glsl), alone or behind
/// a product.
#include "runtime/vulkan/kernels/shader_kernel.h"

namespace infer::vulkan {

/// A number of shaders/common.glsl, with its parameters.
struct UnaryCode {
  int code = 0;
  float a = 0, b = 0;
};
/// Of `node` in the step of `call`. Unsupported: no such operator, or a bound that only a run
/// knows.
Result<UnaryCode> UnaryCodeOf(const StepCall& call, const Node& node);

/// (operator, domain) of all that UnaryCodeOf may know.
std::vector<std::pair<std::string_view, std::string_view>> UnaryOperators();

/// A number of Arithmetic in shaders/common.glsl; 0: the node is no function of two f32 operands.
int ArithmeticCodeOf(const Node& node);
/// The operators that have one.
std::vector<std::string_view> ArithmeticOperators();

/// What follows the main node of a step: a bias, a residual of the result's extents, functions.
struct Tail {
  static constexpr size_t kMost = 3;
  static constexpr int kResidual = 100;  ///< code of the addition
  std::vector<UnaryCode> ops;
  int residual = -1;  ///< operand of the step
  int bias = -1;      ///< operand of the step [N], added first, over the last axis
  /// Specialisation constants of shaders/tail.glsl: kMost codes.
  std::vector<int32_t> Constants() const;
  /// Push constants of shaders/tail.glsl: kMost pairs.
  void Add(Push& push) const;
};
/// Unsupported names the node that cannot be folded. With `may_bias` an Add of a vector over the
/// last axis right behind the main node is a bias.
Result<Tail> TailOf(const StepCall& call, bool may_bias);

}  // namespace infer::vulkan
