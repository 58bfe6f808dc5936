#pragma once
/// Shared by conversions: names and bytes for the report, and refusals.
#include <string>

#include "lib/ir/editor.h"
#include "quant/scheme/report.h"

namespace infer {

/// The node's name, or its first result's, or its operator.
std::string LayerName(const Node& node);
/// InvalidArgument when the graph has Q/DQ or dynamic quantization already, or its layers have
/// weights of f16 or bf16 and none of f32.
Status CheckIsFloat(const Graph& g);
/// Adds a node with one output, both of this name (a suffix where it is taken).
Result<Value*> AddNamed(GraphEditor& editor, std::string_view op, std::vector<Value*> inputs,
                        AttrMap attrs, const std::string& name, std::string_view domain = "");
/// Adds a Cast.
Result<Value*> AddCast(GraphEditor& editor, Value* v, DType to, const std::string& name);

}  // namespace infer
