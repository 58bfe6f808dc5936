#pragma once
/// What our own fused operators are called in a file that holds them as functions. No protobuf
/// here.
#include <string>
#include <string_view>

#include "lib/ops/op_def.h"

namespace infer::onnx_io {

/// Our own fused operators live in this domain.
inline constexpr std::string_view kFusedDomain = "infer";

/// The function that stands for `def` with these attributes: "Name", or "Name__HASH" of them.
std::string FunctionName(const OpDef& def, const AttrMap& attrs);
/// The operator behind a function's name: "Name" or "Name__HASH" -> "Name".
std::string FusedName(const std::string& function_name);

}  // namespace infer::onnx_io
