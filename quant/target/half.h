#pragma once
/// What ONNX Runtime cannot do in f16 that the standard allows.
#include <string>

#include "lib/ir/graph.h"

namespace infer {

/// Why ONNX Runtime cannot run the node, or not load it, where its numbers are f16 (1.30, tried
/// node by node); "" where nothing is known.
std::string WhyOrtLacksHalf(const Node& node);

}  // namespace infer
