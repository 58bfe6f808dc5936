#pragma once
/// What a ModelFile holds, and walks over it. Internal to lib/onnx.
#include <functional>
#include <set>
#include <unordered_set>

#include "lib/onnx/file_layout.h"
#include "lib/onnx/model_file.h"

namespace infer {

struct ModelFile::State {
  onnx_io::FileParts parts;
  std::vector<FileId> source_files;
  std::unordered_set<std::string> dropped;  ///< values whose shapes were dropped

  onnx::GraphProto& graph() { return parts.written.graph; }
  const onnx::GraphProto& graph() const { return parts.written.graph; }
  bool IsInitializer(const std::string& name) const;
  const onnx::ValueInfoProto* FindInfo(const std::string& name) const;
};

namespace onnx_io {

/// Names that the node reads: operands, and what its bodies read from outside.
std::vector<std::string> ReadsOf(const onnx::NodeProto& node);
/// Calls `visit` with every mention of a value of this graph, also in bodies and annotations; not
/// with names that a body defines itself. Initializers of the main graph stand elsewhere.
void ForEachMention(onnx::GraphProto& graph, const std::function<void(std::string&)>& visit);
/// Names of values that the graph and its bodies define.
void CollectNames(const onnx::GraphProto& graph, std::unordered_set<std::string>& names);
/// Domain and name of functions of the model that nodes of the graph call, and that these call.
std::set<std::pair<std::string, std::string>> CalledFunctions(const onnx::ModelProto& header,
                                                              const onnx::GraphProto& graph);
/// "Conv 'conv1'" or "Conv -> 'y'".
std::string DescribeNode(const onnx::NodeProto& n);
/// InvalidArgument "there is no value 'x'; did you mean ...".
Status NoSuch(std::string_view what, const std::string& name,
              const std::vector<std::string>& names);

}  // namespace onnx_io
}  // namespace infer
