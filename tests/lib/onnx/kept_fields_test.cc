/// Doc strings, metadata and quantization annotations survive import and export as long as what
/// they speak of does.
#include <google/protobuf/unknown_field_set.h>

#include <map>

#include "lib/ir/editor.h"
#include "lib/onnx/export.h"
#include "lib/support/strings.h"
#include "tests/lib/onnx/models.h"

namespace infer {
namespace {

/// Fields newer than our proto classes: metadata_props of ValueInfoProto, NodeProto, GraphProto and
/// TensorProto.
constexpr int kValueMetadata = 4, kNodeMetadata = 9, kGraphMetadata = 16, kTensorMetadata = 16;

template <typename Message>
void Say(Message& m, const std::string& text, int metadata) {
  m.set_doc_string(text);
  onnx::StringStringEntryProto e;
  e.set_key("k");
  e.set_value(text);
  m.GetReflection()->MutableUnknownFields(&m)->AddLengthDelimited(metadata, e.SerializeAsString());
}

/// "doc", or "doc+metadata" where both stand and agree.
template <typename Message>
std::string Said(const Message& m, int metadata) {
  const auto& fields = m.GetReflection()->GetUnknownFields(m);
  std::string found = m.doc_string();
  for (int i = 0; i < fields.field_count(); ++i) {
    onnx::StringStringEntryProto e;
    if (fields.field(i).number() == metadata &&
        e.ParseFromString(fields.field(i).length_delimited()) && e.value() == m.doc_string())
      found += "+metadata";
  }
  return found;
}

void Annotate(onnx::GraphProto& g, const std::string& tensor, const std::string& scale) {
  auto& a = *g.add_quantization_annotation();
  a.set_tensor_name(tensor);
  auto& p = *a.add_quant_parameter_tensor_names();
  p.set_key("SCALE_TENSOR");
  p.set_value(scale);
}

/// x + w -> h (described, annotated) -> Relu -> r -> If(c) {r + v -> i} -> y
onnx::ModelProto DescribedModel() {
  onnx::ModelProto m = EmptyModel();
  onnx::GraphProto& g = *m.mutable_graph();
  Say(g, "graph", kGraphMetadata);
  Say(*g.mutable_input(0), "input", kValueMetadata);
  Say(*g.mutable_output(0), "output", kValueMetadata);
  Say(AddFloats(g, "w", {2}, {1, 2}), "weight", kTensorMetadata);
  AddFloats(g, "h_scale", {}, {0.5F});
  auto& constant = AddNode(g, "Constant", {}, {"k"});
  Say(constant, "constant", kNodeMetadata);
  auto& value = *constant.add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  value.mutable_t()->add_float_data(3);
  Say(AddNode(g, "Add", {"x", "w"}, {"h"}), "node", kNodeMetadata);
  AddNode(g, "Mul", {"h", "k"}, {"r"});
  Say(*g.add_value_info(), "inner value", kValueMetadata);
  SetTensorType(*g.mutable_value_info(0), "h", {2});
  Annotate(g, "h", "h_scale");

  SetTensorType(*g.add_input(), "c", {}, onnx::TensorProto::BOOL);
  auto& branch = AddNode(g, "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& a = *branch.add_attribute();
    a.set_name(name);
    a.set_type(onnx::AttributeProto::GRAPH);
    onnx::GraphProto& sub = *a.mutable_g();
    sub.set_name(name);
    Say(sub, Cat(name, " graph"), kGraphMetadata);
    Say(AddFloats(sub, Cat(name, "_v"), {2}, {1, 2}), Cat(name, " weight"), kTensorMetadata);
    AddFloats(sub, Cat(name, "_scale"), {}, {0.25F});
    AddNode(sub, "Add", {"r", Cat(name, "_v")}, {Cat(name, "_i")});
    AddNode(sub, "Relu", {Cat(name, "_i")}, {Cat(name, "_o")});
    Say(*sub.add_value_info(), Cat(name, " value"), kValueMetadata);
    SetTensorType(*sub.mutable_value_info(0), Cat(name, "_i"), {2});
    SetTensorType(*sub.add_output(), Cat(name, "_o"), {2});
    Say(*sub.mutable_output(0), Cat(name, " output"), kValueMetadata);
    Annotate(sub, Cat(name, "_i"), Cat(name, "_scale"));
  }
  return m;
}

/// Everything that a graph says: "tensor w" -> "weight+metadata", ...
void Collect(const onnx::GraphProto& g, std::map<std::string, std::string>& out) {
  const auto put = [&](const std::string& what, const std::string& said) {
    if (!said.empty()) out[what] = said;
  };
  put("graph " + g.name(), Said(g, kGraphMetadata));
  for (const auto& x : g.input()) put("input " + x.name(), Said(x, kValueMetadata));
  for (const auto& x : g.output()) put("output " + x.name(), Said(x, kValueMetadata));
  for (const auto& x : g.value_info()) put("value " + x.name(), Said(x, kValueMetadata));
  for (const auto& x : g.initializer()) put("tensor " + x.name(), Said(x, kTensorMetadata));
  for (const auto& n : g.node()) {
    put("node " + n.output(0), Said(n, kNodeMetadata));
    for (const auto& a : n.attribute())
      if (a.has_g()) Collect(a.g(), out);
  }
  for (const auto& a : g.quantization_annotation())
    for (const auto& p : a.quant_parameter_tensor_names())
      for (const auto& x : g.initializer())
        if (x.name() == p.value()) put("annotation " + a.tensor_name(), p.key() + " " + p.value());
}

std::map<std::string, std::string> Exported(const Model& m) {
  std::map<std::string, std::string> out;
  auto bytes = ExportModelBytes(m);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  onnx::ModelProto proto;
  if (bytes.ok() && proto.ParseFromString(*bytes)) Collect(proto.graph(), out);
  return out;
}

TEST(KeptFields, ComeBackWhereNothingIsRewritten) {
  const onnx::ModelProto m = DescribedModel();
  auto model = Import(m);
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::map<std::string, std::string> wanted;
  Collect(m.graph(), wanted);
  // A Constant node is an initializer from import on.
  wanted["tensor k"] = wanted.at("node k");
  wanted.erase("node k");
  ASSERT_EQ(wanted.at("tensor w"), "weight+metadata");
  ASSERT_EQ(wanted.at("value then_branch_i"), "then_branch value+metadata");
  ASSERT_EQ(wanted.at("annotation else_branch_i"), "SCALE_TENSOR else_branch_scale");
  EXPECT_EQ(Exported(*model), wanted);
  // The scales, which no node reads, are there for the next reader too.
  auto bytes = ExportModelBytes(*model);
  ASSERT_TRUE(bytes.ok());
  auto again = ImportModelBytes(*bytes, Ops());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(Exported(*again), wanted);
}

TEST(KeptFields, FollowAValueThatBecomesAConstant) {
  auto model = Import(DescribedModel());
  ASSERT_TRUE(model.ok()) << model.status().message();
  Graph& g = model->graph;
  GraphEditor e(g);
  Value* h = g.FindValue("h");
  Node* add = h->producer();
  e.SetConstant(h, Tensor::Of<float>({2}, {5, 6}));
  e.Erase(*add);
  const auto kept = Exported(*model);
  EXPECT_EQ(kept.at("tensor h"), "inner value+metadata");
  EXPECT_EQ(kept.at("annotation h"), "SCALE_TENSOR h_scale");
  EXPECT_FALSE(kept.contains("value h"));
  EXPECT_FALSE(kept.contains("tensor w"));  // nobody reads it now
}

TEST(KeptFields, GoWithWhatTheySpeakOf) {
  auto model = Import(DescribedModel());
  ASSERT_TRUE(model.ok()) << model.status().message();
  Graph& g = model->graph;
  GraphEditor e(g);
  ASSERT_TRUE(e.ReplaceAllUses(g.FindValue("h"), g.FindValue("x")).ok());
  e.Sweep();
  const auto kept = Exported(*model);
  for (const char* gone : {"value h", "annotation h", "tensor w", "node h"})
    EXPECT_FALSE(kept.contains(gone)) << gone;
  EXPECT_EQ(kept.at("input x"), "input+metadata");
  EXPECT_EQ(kept.at("tensor k"), "constant+metadata");
  EXPECT_EQ(kept.at("output y"), "output+metadata");
}

TEST(KeptFields, AParameterNeverTakesTheNameOfAnotherValue) {
  auto model = Import(DescribedModel());
  ASSERT_TRUE(model.ok()) << model.status().message();
  GraphEditor e(model->graph);
  e.Rename(model->graph.FindValue("r"), "h_scale");  // free: no node read the scale
  auto bytes = ExportModelBytes(*model);
  ASSERT_TRUE(bytes.ok());
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(*bytes));
  for (const auto& x : proto.graph().initializer()) EXPECT_NE(x.name(), "h_scale");
  EXPECT_TRUE(ImportModelBytes(*bytes, Ops()).ok());
}

}  // namespace
}  // namespace infer
