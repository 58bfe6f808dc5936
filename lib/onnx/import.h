#pragma once
/// ONNX file -> Model. Tensor data is read once, straight to its place: peak memory is the file's
/// size and a little. Nothing of the file stays mapped, so it may change or vanish afterwards.
/// Old operator forms are lifted to the canonical ones; model-local functions are inlined, or
/// become the fused operator of our own that they are the body of.
#include "lib/onnx/model.h"

namespace infer {

/// Limits are checked before anything is allocated (docs/security.md).
struct ImportLimits {
  int64_t max_rank = 32;
  int64_t max_nodes = 1'000'000;  ///< all graphs together, after inlining; calls count too
  int max_subgraph_depth = 32;
  int max_call_depth = 100;  ///< model-local functions
  int64_t max_functions = 10'000;
  int64_t max_inlined_bytes = int64_t{256} << 20;  ///< nodes that inlining makes, names and all
};

struct ImportOptions {
  ImportLimits limits;
  /// Further directory in which external data may lie; "" = the model's own folder only (and the
  /// blobs folder of a Hugging Face cache that it belongs to).
  std::string external_root;
  bool load_external_data = true;  ///< false: such tensors are zeros (inspect only)
  /// Attributes that an operator does not have, graphs among them, are left out, each with a
  /// warning, as ONNX Runtime does; else they make the model invalid.
  bool lenient = false;
};

/// Io: cannot be read. InvalidModel: broken or hostile. Unsupported: lists *all* operators, domains
/// and types that we lack, each with node, opset, reason and a way out.
Result<Model> ImportModel(const std::string& path, const OpRegistry& ops,
                          const ImportOptions& options = {});
/// The same from memory; external data is refused unless `base_dir` is given.
Result<Model> ImportModelBytes(std::string_view bytes, const OpRegistry& ops,
                               const ImportOptions& options = {}, const std::string& base_dir = "");

/// A TensorProto, SequenceProto, OptionalProto or MapProto file (".pb") as a value. `type` tells
/// which one to expect, a tensor when it is unknown; what an optional holds may lie there by
/// itself. Io: cannot be read. InvalidModel: broken, or a message of another kind.
Result<Datum> ReadDatumPb(const std::string& path, const ValueType& type = {});
Status WriteTensorPb(const Tensor& t, const std::string& path, const std::string& name = "");

}  // namespace infer
