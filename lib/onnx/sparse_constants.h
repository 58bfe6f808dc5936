#pragma once
/// Constants most of which is zero as sparse_initializer (ONNX IR, GraphProto): values, and their
/// places as int64 into the flattened tensor. Internal to lib/onnx.
#include "lib/onnx/export.h"
#include "lib/onnx/graph_writer.h"

namespace infer::onnx_io {

/// The IR version that has them.
inline constexpr int64_t kSparseIrVersion = 5;

/// Takes those out of `written.initializers` for which it is smaller: a place costs 8 bytes, so
/// that 67 % of f32 and 89 % of 8-bit elements have to be zero. A negative zero is none. Graph
/// outputs and what is zero throughout stay whole.
SparseConstants WriteSparseConstants(WrittenModel& written);

}  // namespace infer::onnx_io
