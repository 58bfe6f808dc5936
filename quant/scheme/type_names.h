#pragma once
/// Integer types of a scheme by the names that options have for them.
#include <string_view>

#include "quant/scheme/plan.h"

namespace infer {

/// Sets the types of activations ("u8", "s8", "u16", "s16") and of weights ("s8", "u8").
/// InvalidArgument: another name, or a pair that no runtime multiplies.
Status ChooseTypes(std::string_view activations, std::string_view weights, QuantScheme& scheme);

/// InvalidArgument: `format` ("qdq", "qoperator") has no operators for the scheme's types.
Status CheckFormat(std::string_view format, const QuantScheme& scheme);

}  // namespace infer
