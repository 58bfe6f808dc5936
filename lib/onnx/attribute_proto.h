#pragma once
/// AttributeProto <-> AttrValue. Graphs are not here: they become subgraphs. Internal to lib/onnx.
#include <onnx/onnx_pb.h>

#include <string>

#include "lib/onnx/tensor_proto.h"
#include "lib/ops/op_def.h"

namespace infer::onnx_io {

/// The kind as stated, or as the filled field implies in files older than IR 2.
onnx::AttributeProto::AttributeType KindOf(const onnx::AttributeProto& proto);
/// Unsupported for lists of tensors, graphs and types.
Result<AttrValue> FromAttribute(const onnx::AttributeProto& proto, const TensorReader& tensors,
                                int64_t max_rank);
void FillAttribute(std::string_view name, const AttrValue& value, onnx::AttributeProto& proto);
/// The tensor that a Constant's attribute stands for; undefined for kinds that a Constant has not.
Tensor ConstantOf(const AttrValue& value);

}  // namespace infer::onnx_io
