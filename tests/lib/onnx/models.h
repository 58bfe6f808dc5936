#pragma once
/// Small ONNX models for the tests, written as protobuf by hand so that they can also be wrong.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/onnx/import.h"
#include "lib/ops/registry.h"

namespace infer {

inline const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

/// A folder that goes away with the object.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "infer_test_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline void SetTensorType(onnx::ValueInfoProto& v, const std::string& name,
                          const std::vector<int64_t>& dims, int elem_type = 1) {
  v.set_name(name);
  auto* t = v.mutable_type()->mutable_tensor_type();
  t->set_elem_type(elem_type);
  t->mutable_shape();
  for (int64_t d : dims) t->mutable_shape()->add_dim()->set_dim_value(d);
}

inline onnx::NodeProto& AddNode(onnx::GraphProto& g, const std::string& op,
                                const std::vector<std::string>& inputs,
                                const std::vector<std::string>& outputs,
                                const std::string& name = "") {
  auto& n = *g.add_node();
  n.set_op_type(op);
  if (!name.empty()) n.set_name(name);
  for (const auto& x : inputs) n.add_input(x);
  for (const auto& x : outputs) n.add_output(x);
  return n;
}

inline onnx::TensorProto& AddFloats(onnx::GraphProto& g, const std::string& name,
                                    const std::vector<int64_t>& dims,
                                    const std::vector<float>& values) {
  auto& t = *g.add_initializer();
  t.set_name(name);
  t.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t d : dims) t.add_dims(d);
  t.set_raw_data(values.data(), values.size() * sizeof(float));
  return t;
}

/// A model with the graph x: f32[2] -> y and no nodes yet.
inline onnx::ModelProto EmptyModel(int64_t opset = 17, int64_t ir_version = 8) {
  onnx::ModelProto m;
  m.set_ir_version(ir_version);
  m.add_opset_import()->set_version(opset);
  m.mutable_graph()->set_name("g");
  SetTensorType(*m.mutable_graph()->add_input(), "x", {2});
  SetTensorType(*m.mutable_graph()->add_output(), "y", {2});
  return m;
}

/// x -> Identity -> y.
inline onnx::ModelProto IdentityModel() {
  onnx::ModelProto m = EmptyModel();
  AddNode(*m.mutable_graph(), "Identity", {"x"}, {"y"}, "id");
  return m;
}

inline Result<Model> Import(const onnx::ModelProto& m, const ImportOptions& options = {}) {
  return ImportModelBytes(m.SerializeAsString(), Ops(), options);
}

/// $INFER_TEST_DATA, or "" with a message that the test is skipped.
inline std::string TestData() {
  const char* path = std::getenv("INFER_TEST_DATA");
  return path ? path : "";
}
#define INFER_NEEDS_TEST_DATA() \
  if (infer::TestData().empty()) GTEST_SKIP() << "INFER_TEST_DATA is not set"

/// The message; fails the test when the model is accepted or is called something else.
inline std::string Refusal(const onnx::ModelProto& m, Code code = Code::kInvalidModel) {
  auto got = Import(m);
  EXPECT_FALSE(got.ok());
  if (got.ok()) return "";
  EXPECT_EQ(static_cast<int>(got.status().code()), static_cast<int>(code))
      << got.status().message();
  EXPECT_EQ(got.status().message().find('\n'), std::string::npos);
  return got.status().message();
}

inline onnx::ModelProto WithTensor(onnx::TensorProto t) {
  onnx::ModelProto m = EmptyModel();
  t.set_name("w");
  *m.mutable_graph()->add_initializer() = std::move(t);
  AddNode(*m.mutable_graph(), "Identity", {"w"}, {"y"});
  return m;
}

inline onnx::TensorProto Floats(const std::vector<int64_t>& dims, size_t bytes) {
  onnx::TensorProto t;
  t.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t d : dims) t.add_dims(d);
  t.set_raw_data(std::string(bytes, '\0'));
  return t;
}

}  // namespace infer
