/// Hostile bodies of loops and branches: values that change their types, stacks of anything.
#include <gmock/gmock.h>

#include "lib/ir/eval.h"
#include "tests/lib/onnx/models.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

onnx::AttributeProto& AddGraphAttribute(onnx::NodeProto& n, const std::string& name) {
  auto& a = *n.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::GRAPH);
  return a;
}

void AddInt(onnx::NodeProto& n, const std::string& name, int64_t value) {
  auto& a = *n.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
}

/// y = Loop(3, , x) with v -> `body`s node -> o. Nothing is declared within.
onnx::ModelProto LoopOf(const onnx::NodeProto& node, const std::string& cond = "c") {
  onnx::ModelProto m = EmptyModel();
  auto& g = *m.mutable_graph();
  g.mutable_output(0)->clear_type();
  auto& trips = *g.add_initializer();
  trips.set_name("M");
  trips.set_data_type(onnx::TensorProto::INT64);
  trips.add_int64_data(40);
  auto& body = *AddGraphAttribute(AddNode(g, "Loop", {"M", "", "x"}, {"y"}), "body").mutable_g();
  for (const char* name : {"i", "c", "v"}) body.add_input()->set_name(name);
  for (const char* name : {"k", "o"}) body.add_output()->set_name(name);
  AddNode(body, "Identity", {cond}, {"k"});
  *body.add_node() = node;
  return m;
}

onnx::NodeProto NodeOf(const std::string& op, const std::vector<std::string>& in,
                       const std::string& out) {
  onnx::GraphProto g;
  return AddNode(g, op, in, {out});
}

Status RunStatus(const onnx::ModelProto& m) {
  auto got = Import(m);
  EXPECT_TRUE(got.ok()) << got.status().message();
  if (!got.ok()) return {};
  const std::vector<Datum> x = {Tensor::Of<float>({2}, {1, 2})};
  return Evaluate(got->graph, x).status();
}

TEST(Hostile, BodiesThatChangeTypes) {
  onnx::NodeProto cast = NodeOf("Cast", {"v"}, "o");
  AddInt(cast, "to", onnx::TensorProto::INT64);
  EXPECT_THAT(Refusal(LoopOf(cast)), HasSubstr("carried value 0 changes from f32[2] to i64[2]"));
  EXPECT_THAT(Refusal(LoopOf(NodeOf("SequenceConstruct", {"v"}, "o"))),
              HasSubstr("carried value 0 changes"));
  EXPECT_THAT(Refusal(LoopOf(NodeOf("Identity", {"v"}, "o"), "i")),
              HasSubstr("condition is i64[], not a bool"));
  // A Loop may change shapes, but not for ever.
  onnx::ModelProto grows = LoopOf(NodeOf("Unsqueeze", {"v", "axes"}, "o"));
  auto& axes = *grows.mutable_graph()->add_initializer();
  axes.set_name("axes");
  axes.set_data_type(onnx::TensorProto::INT64);
  axes.add_dims(1);
  axes.add_int64_data(0);
  const Status s = RunStatus(grows);
  EXPECT_EQ(s.code(), Code::kInvalidModel);
  EXPECT_THAT(s.message(), HasSubstr("rank 33, over the limit of 32"));
}

TEST(Hostile, BranchesOfDifferentTypes) {
  onnx::ModelProto m = EmptyModel();
  SetTensorType(*m.mutable_graph()->add_input(), "c", {}, onnx::TensorProto::BOOL);
  auto& n = AddNode(*m.mutable_graph(), "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& g = *AddGraphAttribute(n, name).mutable_g();
    g.add_output()->set_name("r");
    AddInt(AddNode(g, "Cast", {"x"}, {"r"}), "to", g.node_size() + 1);
  }
  n.mutable_attribute(1)->mutable_g()->mutable_node(0)->mutable_attribute(0)->set_i(
      onnx::TensorProto::INT64);
  EXPECT_THAT(Refusal(m), HasSubstr("in one branch, i64[2] in the other"));
}

TEST(Hostile, Scans) {
  auto scan = [](const onnx::NodeProto& state, const char* list, std::vector<int64_t> values) {
    onnx::ModelProto m = EmptyModel();
    auto& n = AddNode(*m.mutable_graph(), "Scan", {"x", "x"}, {"f", "y"});
    m.mutable_graph()->mutable_output(0)->clear_type();
    AddInt(n, "num_scan_inputs", 1);
    auto& a = *n.add_attribute();
    a.set_name(list);
    a.set_type(onnx::AttributeProto::INTS);
    for (int64_t v : values) a.add_ints(v);
    auto& body = *AddGraphAttribute(n, "body").mutable_g();
    for (const char* name : {"v", "e"}) body.add_input()->set_name(name);
    for (const char* name : {"o", "r"}) body.add_output()->set_name(name);
    *body.add_node() = state;
    AddNode(body, "Identity", {"e"}, {"r"});
    return m;
  };
  const onnx::NodeProto same = NodeOf("Identity", {"v"}, "o");
  EXPECT_TRUE(RunStatus(scan(same, "scan_input_directions", {1})).ok());
  for (int64_t direction : {int64_t{2}, int64_t{-1}, INT64_MAX})
    for (const char* list : {"scan_input_directions", "scan_output_directions"})
      EXPECT_THAT(Refusal(scan(same, list, {direction})), HasSubstr("neither 0"));
  for (const char* list : {"scan_input_directions", "scan_output_axes"})
    EXPECT_THAT(Refusal(scan(same, list, {0, 0})), HasSubstr("has 2 entries, not 1"));
  onnx::NodeProto twice = NodeOf("Concat", {"v", "v"}, "o");
  AddInt(twice, "axis", 0);
  EXPECT_THAT(Refusal(scan(twice, "scan_output_axes", {0})),
              HasSubstr("state 0 changes from f32[2] to f32["));
}

}  // namespace
}  // namespace infer
