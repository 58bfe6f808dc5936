#pragma once
/// What a file says of the types of values. Internal to lib/onnx.
#include <onnx/onnx_pb.h>

#include <string>
#include <unordered_set>

#include "lib/ir/graph.h"

namespace infer::onnx_io {

/// Inputs or outputs of a graph, with what is known of their types.
void FillInterface(const Value& v, const std::string& name, onnx::ValueInfoProto& out);

/// value_info only where a reader could not infer as much: what our file needs to come back as it
/// was.
void FillValueInfo(const Graph& g, const std::unordered_set<const Value*>& interface,
                   onnx::GraphProto& out);

}  // namespace infer::onnx_io
