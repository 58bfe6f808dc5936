#pragma once
/// Model: a graph with what an ONNX file says around it. Import and export (lib/onnx/import.h,
/// export.h) are the only code that sees protobuf.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/ir/graph.h"
#include "lib/support/file.h"

namespace infer {

/// The newest opset of ai.onnx that we read and write.
inline constexpr int kNewestOpset = 27;

struct ModelInfo {
  int64_t ir_version = 8;
  std::map<std::string, int64_t> opsets;  ///< as imported; "" is ai.onnx
  std::string producer_name, producer_version, domain, doc_string;
  int64_t model_version = 0;
  std::vector<std::pair<std::string, std::string>> metadata;  ///< metadata_props, in order
  std::string extra;       ///< ModelProto fields that we keep but do not read (serialised)
  std::string sha256;      ///< of the file as read, hex; "" for a model not from a file
  int64_t file_bytes = 0;  ///< with external data; 0 for a model not from a file
  std::vector<FileId> source_files;   ///< the model and its external data; never written to
  std::vector<std::string> warnings;  ///< what import left out or did not believe
};

struct Model {
  explicit Model(Graph g) : graph(std::move(g)) {}
  Graph graph;
  ModelInfo info;
};

}  // namespace infer
