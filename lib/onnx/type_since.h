#pragma once
/// Since which opset an operator of ai.onnx takes the element types that it has. No protobuf here.
#include "lib/ir/graph.h"

namespace infer::onnx_io {

/// The lowest opset in which `n` may have operands of these kinds and element types; 1 where the
/// operator always took them. Element types that are younger than the operator's other types are
/// for OpsetOf(ValueType).
int64_t TypesOpsetOf(const Node& n);

}  // namespace infer::onnx_io
