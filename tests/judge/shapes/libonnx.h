#pragma once
/// Shape inference of Debian's libonnx, behind a process boundary: it dies on some valid models.
#include <onnx/onnx_pb.h>

#include <map>
#include <string>

namespace infer::judge {

struct Theirs {
  std::map<std::string, onnx::TypeProto> types;            ///< as TypesOf
  std::map<std::string, onnx::TensorShapeProto> elements;  ///< by its data propagation
  bool strict = false;   ///< every node was inferred without an error
  bool crashed = false;  ///< nothing is known then
};

/// With type checks and data propagation; where an error is met, what can be inferred around it.
Theirs InferTheirs(const onnx::ModelProto& model);

}  // namespace infer::judge
