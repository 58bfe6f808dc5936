#include "lib/onnx/import.h"

#include <gmock/gmock.h>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "tests/lib/onnx/models.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

TEST(Import, ReadsAnIdentity) {
  auto m = Import(IdentityModel());
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_TRUE(Verify(m->graph).ok()) << Verify(m->graph).message();
  const Datum x[] = {Tensor::Of<float>({2}, {1, 2})};
  auto y = Evaluate(m->graph, x);
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_TRUE(BitEqual((*y)[0].tensor(), x[0].tensor()));
}

TEST(Import, LiftsTheBatchedScanOfOpset8) {
  // Running sums of two samples, of which the second is one element long.
  onnx::ModelProto m = EmptyModel(8, 3);
  onnx::GraphProto& g = *m.mutable_graph();
  g.clear_input();
  g.clear_output();
  SetTensorType(*g.add_input(), "lengths", {2}, onnx::TensorProto::INT64);
  SetTensorType(*g.add_input(), "s", {2, 1});
  SetTensorType(*g.add_input(), "x", {2, 3, 1});
  for (const char* name : {"last", "all"}) g.add_output()->set_name(name);
  auto& scan = AddNode(g, "Scan", {"lengths", "s", "x"}, {"last", "all"});
  auto& count = *scan.add_attribute();
  count.set_name("num_scan_inputs");
  count.set_type(onnx::AttributeProto::INT);
  count.set_i(1);
  auto& attr = *scan.add_attribute();
  attr.set_name("body");
  attr.set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto& body = *attr.mutable_g();
  for (const char* name : {"sum", "e"}) body.add_input()->set_name(name);
  for (const char* name : {"t", "o"}) body.add_output()->set_name(name);
  AddNode(body, "Add", {"sum", "e"}, {"t"});
  AddNode(body, "Identity", {"t"}, {"o"});
  auto got = Import(m);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_TRUE(Verify(got->graph).ok()) << Verify(got->graph).message();
  const Datum in[] = {Tensor::Int64s({3, 1}), Tensor::Of<float>({2, 1}, {0, 10}),
                      Tensor::Of<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6})};
  auto out = Evaluate(got->graph, in);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ((*out)[0].tensor().ToFloats(), std::vector<float>({6, 14}));
  EXPECT_EQ((*out)[1].tensor().ToFloats(), std::vector<float>({1, 3, 6, 14, 0, 0}));
}

/// x -> `op` -> y with an attribute that no operator has.
onnx::ModelProto Misspelt(const std::string& op, int64_t opset) {
  onnx::ModelProto m = EmptyModel(opset);
  auto& n = AddNode(*m.mutable_graph(), op, {"x"}, {"y"}, "n");
  for (const char* name : {"alhpa", "axis"}) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(0);
  }
  return m;
}

TEST(Import, LeavesOutUnknownAttributesWhereAsked) {
  for (const auto& [op, opset] : {std::pair("Softmax", 17), {"Softmax", 11}, {"Softmax", 1}}) {
    const onnx::ModelProto m = Misspelt(op, opset);
    EXPECT_THAT(Refusal(m), HasSubstr("no attribute 'alhpa'")) << opset;
    ImportOptions options;
    options.lenient = true;
    const auto got = Import(m, options);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_TRUE(Verify(got->graph).ok());
    ASSERT_EQ(got->info.warnings.size(), 1u);
    EXPECT_THAT(got->info.warnings[0], HasSubstr("no attribute 'alhpa'"));
  }
}

/// A Relu with a graph, one that reads a value of the graph around.
TEST(Import, LeavesOutUnknownGraphsWhereAsked) {
  onnx::ModelProto m = EmptyModel();
  auto& n = AddNode(*m.mutable_graph(), "Relu", {"x"}, {"y"}, "n");
  auto& extra = *n.add_attribute();
  extra.set_name("extra");
  extra.set_type(onnx::AttributeProto::GRAPH);
  auto& body = *extra.mutable_g();
  body.set_name("e");
  AddNode(body, "Neg", {"x"}, {"e"});
  body.add_output()->set_name("e");
  EXPECT_THAT(Refusal(m), HasSubstr("a graph attribute that the operator does not take"));
  ImportOptions options;
  options.lenient = true;
  const auto got = Import(m, options);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_TRUE(Verify(got->graph).ok());
  EXPECT_TRUE(got->graph.nodes().front()->subgraphs().empty());
  ASSERT_EQ(got->info.warnings.size(), 1u);
  EXPECT_THAT(got->info.warnings[0], HasSubstr("no attribute 'extra'"));
}

TEST(Import, SortsNodesTopologically) {
  onnx::ModelProto m = EmptyModel();
  AddNode(*m.mutable_graph(), "Identity", {"b"}, {"y"}, "last");
  AddNode(*m.mutable_graph(), "Identity", {"a"}, {"b"}, "middle");
  AddNode(*m.mutable_graph(), "Identity", {"x"}, {"a"}, "first");
  auto got = Import(m);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->graph.nodes().front()->name(), "first");
  EXPECT_EQ(got->graph.nodes().back()->name(), "last");
}

/// A result that is left out at the end still counts where the number of results does.
TEST(Import, TrailingResultsLeftOut) {
  onnx::ModelProto m = EmptyModel();
  AddNode(*m.mutable_graph(), "Split", {"x"}, {"y", ""});
  auto got = Import(m);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->graph.nodes().front()->outputs().size(), 2u);
  m = EmptyModel();
  AddFloats(*m.mutable_graph(), "f", {1}, {1});
  AddNode(*m.mutable_graph(), "Cast", {"f"}, {"k"}).add_attribute()->set_name("to");
  auto& to = *m.mutable_graph()->mutable_node(0)->mutable_attribute(0);
  to.set_type(onnx::AttributeProto::INT);
  to.set_i(onnx::TensorProto::INT64);
  AddNode(*m.mutable_graph(), "TopK", {"x", "k"}, {"y", ""});
  got = Import(m);
  EXPECT_TRUE(got.ok()) << got.status().message();
}

/// What an opset cannot say would leave as other nodes, and come back as these.
TEST(Import, AttributesAreOfTheOpsetOrAtTheirDefault) {
  onnx::ModelProto m = EmptyModel(1);
  m.mutable_graph()->mutable_output(0)->clear_type();
  AddNode(*m.mutable_graph(), "Shape", {"x"}, {"y"});
  auto& start = *m.mutable_graph()->mutable_node(0)->add_attribute();
  start.set_name("start");
  start.set_type(onnx::AttributeProto::INT);
  start.set_i(0);
  EXPECT_TRUE(Import(m).ok());
  start.set_i(1);
  EXPECT_THAT(Refusal(m), HasSubstr("Shape of opset 1 has no attribute 'start'; it exists since"));
  m.mutable_opset_import(0)->set_version(15);
  EXPECT_TRUE(Import(m).ok());
}

TEST(Import, ReportsEverythingUnsupportedAtOnce) {
  onnx::ModelProto m = EmptyModel();
  AddNode(*m.mutable_graph(), "Frobnicate", {"x"}, {"a"}, "frob");
  AddNode(*m.mutable_graph(), "Identity", {"a"}, {"b"});
  AddNode(*m.mutable_graph(), "Bar", {"b"}, {"y"}, "bar").set_domain("com.example");
  auto got = Import(m);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().code(), Code::kUnsupported);
  EXPECT_THAT(got.status().message(), HasSubstr("Frobnicate (opset 17)"));
  EXPECT_THAT(got.status().message(), HasSubstr("'frob'"));
  EXPECT_THAT(got.status().message(), HasSubstr("com.example::Bar"));
  EXPECT_THAT(got.status().message(), HasSubstr("model-local function"));
}

TEST(Import, AnInitializerAmongTheInputsIsAConstant) {
  onnx::ModelProto m = EmptyModel(8, 3);
  SetTensorType(*m.mutable_graph()->add_input(), "w", {2});
  AddFloats(*m.mutable_graph(), "w", {2}, {3, 4});
  AddNode(*m.mutable_graph(), "Identity", {"w"}, {"y"});
  auto got = Import(m);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->graph.inputs().size(), 1u);
  ASSERT_TRUE(got->graph.FindValue("w")->is_constant());
  EXPECT_EQ(got->graph.FindValue("w")->constant()->data<float>()[1], 4);
}

/// If(c) { y = outer } else { y = w }, with `outer` from outside and `w` a captured initializer.
onnx::ModelProto IfModel() {
  onnx::ModelProto m = EmptyModel();
  onnx::GraphProto& g = *m.mutable_graph();
  SetTensorType(*g.add_input(), "c", {}, onnx::TensorProto::BOOL);
  AddFloats(g, "w", {2}, {3, 4});
  AddNode(g, "Identity", {"x"}, {"outer"}, "id");
  onnx::NodeProto& node = AddNode(g, "If", {"c"}, {"y"}, "if");
  for (const char* branch : {"else_branch", "then_branch"}) {
    auto& a = *node.add_attribute();
    a.set_name(branch);
    a.set_type(onnx::AttributeProto::GRAPH);
    a.mutable_g()->set_name(branch);
    AddNode(*a.mutable_g(), "Identity", {a.name()[0] == 't' ? "outer" : "w"}, {"z"});
    a.mutable_g()->add_output()->set_name("z");
  }
  return m;
}

TEST(Import, MakesCapturesExplicit) {
  auto m = Import(IfModel());
  ASSERT_TRUE(m.ok()) << m.status().message();
  const Node& n = *m->graph.nodes().back();
  ASSERT_TRUE(n.Is("If"));
  EXPECT_EQ(n.num_captures(), 1u);  // `outer`; the constant is one inside too
  EXPECT_EQ(n.inputs().back()->name(), "outer");
  EXPECT_EQ(n.subgraphs()[0].first, "then_branch");
  for (const auto& [name, sub] : n.subgraphs()) EXPECT_EQ(sub->inputs().size(), 1u);
  ASSERT_TRUE(Verify(m->graph).ok()) << Verify(m->graph).message();
  const Datum in[] = {Tensor::Of<float>({2}, {1, 2}), Tensor::Scalar<bool>(false)};
  auto y = Evaluate(m->graph, in);
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ((*y)[0].tensor().ToFloats(), (std::vector<float>{3, 4}));
}

onnx::FunctionProto& AddFunction(onnx::ModelProto& m, const std::string& name) {
  auto& f = *m.add_functions();
  f.set_domain("local");
  f.set_name(name);
  f.add_input("a");
  f.add_output("b");
  f.add_opset_import()->set_version(17);
  return f;
}

TEST(Import, InlinesNestedFunctions) {
  onnx::ModelProto m = EmptyModel();
  m.add_opset_import()->set_domain("local");
  auto& inner = AddFunction(m, "Inner");
  inner.add_node()->set_op_type("Identity");
  inner.mutable_node(0)->add_input("a");
  inner.mutable_node(0)->add_output("b");
  auto& outer = AddFunction(m, "Outer");
  for (auto [from, to] : {std::pair("a", "t"), std::pair("t", "b")}) {
    auto& n = *outer.add_node();
    n.set_op_type("Inner");
    n.set_domain("local");
    n.add_input(from);
    n.add_output(to);
  }
  AddNode(*m.mutable_graph(), "Outer", {"x"}, {"y"}, "call").set_domain("local");
  auto got = Import(m);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->graph.num_nodes(), 2u);
  EXPECT_TRUE(Verify(got->graph).ok());
}

TEST(Import, RefusesFunctionsInACircle) {
  onnx::ModelProto m = EmptyModel();
  auto& f = AddFunction(m, "F");
  for (int i = 0; i < 2; ++i) {
    auto& n = *f.add_node();
    n.set_op_type("F");
    n.set_domain("local");
    n.add_input("a");
    n.add_output(i ? "b" : "t");
  }
  AddNode(*m.mutable_graph(), "F", {"x"}, {"y"}).set_domain("local");
  auto got = Import(m);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().code(), Code::kInvalidModel);
  EXPECT_THAT(got.status().message(), HasSubstr("circle"));
}

}  // namespace
}  // namespace infer
