#pragma once
/// A GraphProto made ready for building: function calls expanded, names checked, nodes in
/// topological order, values from outside listed. Internal to lib/onnx.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/onnx/functions.h"

namespace infer::onnx_io {

struct SourceGraph {
  struct Item {
    SourceNode source;
    std::vector<std::pair<std::string, std::unique_ptr<SourceGraph>>> subgraphs;
  };
  const onnx::GraphProto* proto = nullptr;
  std::vector<Item> items;                ///< topological; the file's order where that is one
  std::vector<std::string> free;          ///< names that are defined outside, each once
  std::vector<std::string> free_readers;  ///< a node that reads free[i]
  std::vector<std::string> warnings;
};

/// InvalidModel: a duplicate name, a cycle (its nodes are named), nesting over the limit.
Result<std::unique_ptr<SourceGraph>> PrepareGraph(const onnx::GraphProto& proto,
                                                  const Opsets& opsets, FunctionTable& functions,
                                                  const ImportLimits& limits, int depth = 0);

/// "Conv 'conv1'" or, without a name, "Conv -> 't3'".
std::string Describe(const onnx::NodeProto& node);

}  // namespace infer::onnx_io
