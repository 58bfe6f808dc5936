#pragma once
/// Graph -> GraphProto at one opset: captures become names again, fused operators calls of
/// model-local functions. Internal to lib/onnx.
#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/ir/graph.h"
#include "lib/onnx/export.h"
#include "lib/onnx/functions.h"

namespace infer::onnx_io {

/// A tensor that the writer leaves to whoever writes the file.
struct PendingTensor {
  std::string name;
  Tensor tensor;
  std::string extra = {};  ///< TensorProto fields beside name, type and data, serialised
};

/// What `opset` cannot express.
struct Inexpressible {
  std::string node, why;
  int64_t opset = 0;  ///< the one that can
};

struct WrittenModel {
  onnx::GraphProto graph;  ///< without the tensors below
  std::vector<PendingTensor> initializers;
  std::vector<onnx::FunctionProto> functions;
  Opsets opsets;  ///< of the domains used
  std::vector<Inexpressible> inexpressible;
  std::vector<std::string> decomposed;  ///< operators written as the nodes that define them
  int64_t whole_opset = 0;              ///< the lowest that has all of those; 0: none
  std::vector<std::string> expanded;    ///< operators of our own, written as nodes
};

struct WriteOptions {
  int64_t opset = 0;
  ExportTarget target = ExportTarget::kOnnx;
  /// What the opset lacks may be written as the nodes that define it.
  bool decompose = false;
  int ort_minor = 0;  ///< as in ExportOptions
};

/// Internal when a lowering rule fails in a way that it should not.
Result<WrittenModel> WriteGraph(const Graph& g, const Opsets& imported,
                                const WriteOptions& options);

/// The function that stands for a fused operator with these attributes; its name is unique to both.
/// Functions of operators inside the body are not in it.
Result<onnx::FunctionProto> FunctionOf(const OpDef& def, const AttrMap& attrs,
                                       const OpRegistry& ops, int64_t opset);

}  // namespace infer::onnx_io
