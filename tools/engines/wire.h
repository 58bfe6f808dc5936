#pragma once
/// What passes between a program and its workers besides lines of JSON: tensors as raw
/// little-endian values in files. The protocol stands at the top of peers_protocol.py.
#include "lib/tensor/tensor.h"
#include "tools/common/report.h"

namespace infer::peers {

/// Writes the values to `file` and returns {"name", "dtype", "dims", "file"}. Unsupported: text.
Result<Json> WriteTensor(const Tensor& t, const std::string& name, const std::string& file);

/// The tensor that WriteTensor's result describes. InvalidModel: the description is none, or the
/// file does not hold as many bytes as it says.
Result<Tensor> ReadTensor(const Json& described);

}  // namespace infer::peers
