#pragma once
/// TypeProto <-> ValueType. Internal to lib/onnx.
#include <onnx/onnx_pb.h>

#include "lib/tensor/value_type.h"

namespace infer::onnx_io {

/// An absent type is an unknown one. A negative extent is unknown; names that exporters use for
/// "any" ("?", "None", ...) too, because equal symbols mean equal extents. Unsupported for sparse
/// and opaque types, and element types that we do not know.
Result<ValueType> FromTypeProto(const onnx::TypeProto& proto, int64_t max_rank);
/// What can be said of `type`; false when nothing can (proto is then left empty).
bool ToTypeProto(const ValueType& type, onnx::TypeProto& proto);

}  // namespace infer::onnx_io
