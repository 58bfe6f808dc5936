#pragma once
/// Activations inside a block, as an attribute that names them.
#include "lib/ir/graph.h"

namespace infer {

/// What may stand between two layers of a block, as Op() takes it.
inline constexpr std::string_view kActivations =
    "Relu|Gelu|infer::Silu|Swish|Sigmoid|Tanh|HardSwish|HardSigmoid|LeakyRelu|Elu|Selu|Mish|"
    "Softplus";

/// The node's operator and attributes as a body's parameter says it: "Relu", "infer::Silu",
/// "LeakyRelu {alpha=0.2}".
Result<std::string> ActivationText(const Node& activation);

}  // namespace infer
