#pragma once
/// Rewrite rules as pairs of model-local functions: what onnx.helper can write becomes the text
/// that rules are read from (docs/rules.md).
#include <string>

#include "lib/ops/op_def.h"

namespace infer {

/// The functions NAME__match (NAME__match2, ... are alternatives) and NAME__replace of the ONNX
/// model at `path` as rules in text form; the doc string of the first is the rule's. An attribute
/// that refers to one of the function's is `$attribute`. InvalidModel, Unsupported: a function
/// without its partner, an operator that we do not know or that its opset writes otherwise.
Result<std::string> RulesFromFunctions(const std::string& path, const OpRegistry& ops);

}  // namespace infer
