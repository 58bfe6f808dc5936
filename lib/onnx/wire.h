#pragma once
/// A scan of the protobuf wire format that keeps tensor data out of protobuf's hands: it walks the
/// messages that can hold a TensorProto, copies everything but the data, and notes where the data
/// lies. protobuf parses the copy; data goes from the file to its final place with one read.
/// (Encoding: protobuf.dev "Encoding"; message layout: onnx.proto, onnx-data.proto.)
#include <cstdint>
#include <string>
#include <vector>

#include "lib/support/file.h"

namespace infer::onnx_io {

/// The messages on the way to a TensorProto.
enum class Message : uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparseTensor,
  kFunction,
  kSequence,
  kOptional,
  kMap,
};

/// Tensor data left in the source.
struct Blob {
  enum class Kind : uint8_t {
    kRaw,      ///< raw_data, float_data or double_data: little-endian elements
    kVarints,  ///< packed int32_data, int64_data or uint64_data
  };
  Kind kind = Kind::kRaw;
  uint32_t field = 9;  ///< which field of TensorProto it was
  uint64_t offset = 0, size = 0;
};

/// The message without tensor data. Where TensorProto.raw_data stands in `bytes`, it is the index
/// of a blob, 8 bytes little-endian.
struct SlimMessage {
  std::string bytes;
  std::vector<Blob> blobs;
};

struct ScanLimits {
  int64_t max_nodes = 1'000'000;
  int64_t max_functions = 10'000;
  int max_graph_depth = 32;          ///< subgraphs inside the main graph
  int64_t max_messages = 8'000'000;  ///< an empty message costs 2 bytes in the file, 100 in memory
};

/// InvalidModel: not a well-formed message, or over a limit.
Result<SlimMessage> Scan(const ByteSource& source, Message root, const ScanLimits& limits);

}  // namespace infer::onnx_io
