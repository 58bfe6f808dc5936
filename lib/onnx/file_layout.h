#pragma once
/// The parts of an ONNX file -> the file and its external data. protobuf never sees tensor data: a
/// message is the concatenation of its fields. Internal to lib/onnx.
#include <onnx/onnx_pb.h>

#include "lib/onnx/export.h"
#include "lib/onnx/graph_writer.h"

namespace infer::onnx_io {

struct FileParts {
  onnx::ModelProto header;  ///< all but the graph
  WrittenModel written;     ///< of which the graph and its initializers are read here
};

/// Of a model, as ExportModel would write it; its errors.
Result<FileParts> FilePartsOf(const Model& model, const ExportOptions& options);

/// The file at `path`, which must be none of `inputs`; a link is followed. `report` gets bytes and
/// stale data. InvalidArgument, Unsupported (over 2 GiB beside external data), Io.
Status WriteFileOf(const FileParts& parts, const std::string& path,
                   const std::vector<FileId>& inputs, const ExportOptions& options,
                   ExportReport& report);

/// The same in memory, without external data. Unsupported: over 2 GiB.
Result<std::string> BytesOfFile(const FileParts& parts);

}  // namespace infer::onnx_io
