#pragma once
/// Forms of one ONNX model in which less, or more, is known before the run.
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace infer::judge {

struct Variant {
  std::string name;
  onnx::ModelProto model;
};

/// The inputs that have no initializer, in order.
std::vector<std::string> InputNames(const onnx::GraphProto& g);

/// `data[i]` is a stored value of input i of InputNames; an empty proto where there is none.
/// "as is" is the model itself. All others lack what the file says of inner values and of the
/// shapes of outputs:
///   stripped   nothing else
///   symbols    every extent of every input is a symbol of its own
///   shared     equal extents of inputs are one symbol, 0 and 1 stay
///   batch      the first axis is the symbol N, of every input with the extent of the first one
///   unknown    no extent of an input is known
///   rankless   no rank of an input is known
///   inputs     initializers and Constants are inputs of their own types
///   inputs+shared
///   constants  small stored inputs are initializers
///   constants+shared
/// A variant that would equal an earlier one is left out.
std::vector<Variant> VariantsOf(const onnx::ModelProto& model,
                                const std::vector<onnx::TensorProto>& data);

}  // namespace infer::judge
