#pragma once
/// Random changes of an ONNX file that keep it a file: what hostile and careless writers do to
/// graphs.
#include <onnx/onnx_pb.h>

#include "lib/ops/op_def.h"
#include "lib/support/random.h"

namespace infer {

class ModelMutator {
 public:
  ModelMutator(onnx::ModelProto& model, Random& random, const OpRegistry& ops);
  /// One change; false: there was nothing to change in the way that was drawn.
  bool Change();
  /// The nodes of `other` behind this model's, under other names; one of its inputs becomes a value
  /// of this one.
  void Append(onnx::ModelProto other);

 private:
  // Declared types that lie.
  bool OutputType();
  bool InnerType();
  bool InputType();
  // Nodes.
  bool Attribute();
  bool Operand();
  bool Operator();
  bool Repeat();
  bool Remove();
  bool Insert();
  // Values and the interface.
  bool Element();
  bool TensorShape();
  bool ConstantToInput();
  bool InputToConstant();
  bool FurtherOutput();
  bool Opset();

  bool Coin(uint32_t one_in = 2) { return random_.Below(one_in) == 0; }
  int Index(int size) { return static_cast<int>(random_.Below(static_cast<uint32_t>(size))); }
  int64_t Integer();
  float Number();
  void Change(onnx::TypeProto& type);
  void Change(onnx::AttributeProto& attribute);
  onnx::GraphProto& AnyGraph();
  onnx::TensorProto* AnyTensor();
  std::vector<std::string> Names(const onnx::GraphProto& graph) const;
  std::string Fresh() { return "m" + std::to_string(random_.NextU32()); }

  onnx::ModelProto& model_;
  Random& random_;
  const OpRegistry& ops_;
};

}  // namespace infer
