#pragma once
/// What passes between a program and its workers besides lines of JSON: tensors as raw
/// little-endian values in files. The protocol stands at the top of peers_protocol.py.
#include "lib/tensor/datum.h"
#include "tools/common/report.h"

namespace infer::peers {

/// Writes the values to `file` and returns {"name", "dtype", "dims", "file"}. Unsupported: text.
Result<Json> WriteTensor(const Tensor& t, const std::string& name, const std::string& file);

/// The tensor that WriteTensor's result describes. InvalidModel: the description is none, or the
/// file does not hold as many bytes as it says.
Result<Tensor> ReadTensor(const Json& described);

/// WriteTensor that takes text as well: of an engine that is asked for outputs, not for times.
Result<Json> WriteNumbersOrText(const Tensor& t, const std::string& name, const std::string& file);
/// What a "compare" run may answer: tensors of numbers or text, sequences, maps and optionals. An
/// undefined tensor: left out. InvalidModel: as ReadTensor.
Result<Datum> ReadValue(const Json& described);

}  // namespace infer::peers
