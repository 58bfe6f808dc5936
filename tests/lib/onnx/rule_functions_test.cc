#include "lib/onnx/rule_functions.h"

#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/ops/registry.h"

namespace infer {
namespace {

using testing::HasSubstr;

onnx::FunctionProto* AddFunction(onnx::ModelProto& m, const std::string& name, int opset) {
  onnx::FunctionProto* f = m.add_functions();
  f->set_name(name);
  f->set_domain("rules");
  f->add_input("x");
  f->add_output("y");
  f->add_opset_import()->set_version(opset);
  return f;
}
onnx::NodeProto* AddNode(onnx::FunctionProto* f, const std::string& op, const std::string& from,
                         const std::string& to) {
  onnx::NodeProto* n = f->add_node();
  n->set_op_type(op);
  n->add_input(from);
  n->add_output(to);
  return n;
}
void AddReference(onnx::NodeProto* n, const std::string& name) {
  onnx::AttributeProto* a = n->add_attribute();
  a->set_name(name);
  a->set_ref_attr_name(name);
  a->set_type(onnx::AttributeProto::INT);
}

Result<std::string> Read(const onnx::ModelProto& m) {
  static const OpRegistry ops = AllOps();
  const auto path = std::filesystem::temp_directory_path() /
                    ("infer_rule_functions_" + std::to_string(::getpid()) + ".onnx");
  std::ofstream(path) << m.SerializeAsString();
  auto text = RulesFromFunctions(path, ops);
  std::filesystem::remove(path);
  return text;
}

TEST(RuleFunctions, BecomeText) {
  onnx::ModelProto m;
  m.set_ir_version(8);
  onnx::FunctionProto* match = AddFunction(m, "late-softmax__match", 20);
  match->set_doc_string("Softmax(Identity(x)) => Softmax(x)");
  AddNode(match, "Identity", "x", "t");
  AddReference(AddNode(match, "Softmax", "t", "y"), "axis");
  AddReference(AddNode(AddFunction(m, "late-softmax__replace", 20), "Softmax", "x", "y"), "axis");
  AddFunction(m, "helper", 20);  // of no rule
  const auto text = Read(m);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, R"T(rule late-softmax "Softmax(Identity(x)) => Softmax(x)" {
  match graph g(x) -> (y) {
    t = Identity(x)
    y = Softmax(t) {axis=$axis}
  }
  replace graph g(x) -> (y) {
    y = Softmax(x) {axis=$axis}
  }
}
)T");
}

TEST(RuleFunctions, RefusalsSayWhy) {
  onnx::ModelProto m;
  m.set_ir_version(8);
  EXPECT_THAT(Read(m).status().message(), HasSubstr("no functions NAME__match"));
  AddNode(AddFunction(m, "r__match", 20), "Relu", "x", "y");
  EXPECT_THAT(Read(m).status().message(), HasSubstr("'r' has no function r__replace"));
  onnx::FunctionProto* replacement = AddFunction(m, "r__replace", 11);
  onnx::NodeProto* n = AddNode(replacement, "ReduceMean", "x", "y");
  EXPECT_THAT(Read(m).status().message(),
              HasSubstr("ReduceMean has had another form before opset"));
  n->set_op_type("Nothing");
  EXPECT_THAT(Read(m).status().message(), HasSubstr("no operator Nothing"));
}

}  // namespace
}  // namespace infer
