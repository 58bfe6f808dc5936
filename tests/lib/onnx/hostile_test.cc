/// Model files that are broken or hostile: one clear line each, nothing allocated for what they
/// only claim.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "lib/ir/eval.h"
#include "lib/onnx/external_data.h"
#include "lib/support/file.h"
#include "tests/lib/onnx/models.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

/// The message; fails the test when the model is accepted or is called something else.
std::string Refusal(const onnx::ModelProto& m, Code code = Code::kInvalidModel) {
  auto got = Import(m);
  EXPECT_FALSE(got.ok());
  if (got.ok()) return "";
  EXPECT_EQ(static_cast<int>(got.status().code()), static_cast<int>(code))
      << got.status().message();
  EXPECT_EQ(got.status().message().find('\n'), std::string::npos);
  return got.status().message();
}

onnx::ModelProto WithTensor(onnx::TensorProto t) {
  onnx::ModelProto m = EmptyModel();
  t.set_name("w");
  *m.mutable_graph()->add_initializer() = std::move(t);
  AddNode(*m.mutable_graph(), "Identity", {"w"}, {"y"});
  return m;
}

onnx::TensorProto Floats(const std::vector<int64_t>& dims, size_t bytes) {
  onnx::TensorProto t;
  t.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t d : dims) t.add_dims(d);
  t.set_raw_data(std::string(bytes, '\0'));
  return t;
}

TEST(Hostile, EveryTruncationOfAModel) {
  onnx::ModelProto m = IdentityModel();
  AddFloats(*m.mutable_graph(), "w", {2}, {1, 2});
  const std::string bytes = m.SerializeAsString();
  for (size_t n = 0; n < bytes.size(); ++n) {
    auto got = ImportModelBytes(std::string_view(bytes).substr(0, n), Ops());
    // The graph comes last before the opset imports: without them the operators have no meaning
    // that could differ, so only a cut inside the graph must be refused.
    const bool inside_graph = n < bytes.size() - 4;
    if (inside_graph) {
      EXPECT_FALSE(got.ok()) << "cut at " << n;
    }
    if (!got.ok()) {
      EXPECT_EQ(got.status().code(), Code::kInvalidModel) << got.status().message();
    }
  }
  EXPECT_FALSE(ImportModelBytes("", Ops()).ok());
  EXPECT_FALSE(ImportModelBytes("not a model at all", Ops()).ok());
}

TEST(Hostile, EverySingleByteChange) {
  onnx::ModelProto m = IdentityModel();
  AddFloats(*m.mutable_graph(), "w", {2}, {1, 2});
  const std::string bytes = m.SerializeAsString();
  for (size_t i = 0; i < bytes.size(); ++i)
    for (const char c : {'\x00', '\x7f', '\xff'}) {
      std::string changed = bytes;
      changed[i] = c;
      auto got = ImportModelBytes(changed, Ops());
      if (!got.ok()) {
        EXPECT_FALSE(got.status().message().empty());
      }
    }
}

TEST(Hostile, Cycle) {
  onnx::ModelProto m = EmptyModel();
  AddNode(*m.mutable_graph(), "Identity", {"b"}, {"a"}, "first");
  AddNode(*m.mutable_graph(), "Identity", {"a"}, {"b"}, "second");
  AddNode(*m.mutable_graph(), "Identity", {"a"}, {"y"}, "third");
  const std::string message = Refusal(m);
  EXPECT_THAT(message, HasSubstr("cycle"));
  EXPECT_THAT(message, HasSubstr("'first'"));
  EXPECT_THAT(message, HasSubstr("'second'"));
}

TEST(Hostile, DanglingAndDuplicateNames) {
  onnx::ModelProto m = EmptyModel();
  AddNode(*m.mutable_graph(), "Identity", {"nowhere"}, {"y"}, "id");
  EXPECT_THAT(Refusal(m), HasSubstr("'nowhere', which Identity 'id' reads, is defined nowhere"));
  m = IdentityModel();
  m.mutable_graph()->mutable_output(0)->set_name("z");
  EXPECT_THAT(Refusal(m), HasSubstr("'z'"));
  m = IdentityModel();
  AddNode(*m.mutable_graph(), "Identity", {"x"}, {"y"});
  EXPECT_THAT(Refusal(m), HasSubstr("defined twice"));
  m = IdentityModel();
  for (int i = 0; i < 2; ++i) AddFloats(*m.mutable_graph(), "w", {1}, {1});
  EXPECT_THAT(Refusal(m), HasSubstr("defined twice"));
}

TEST(Hostile, DimsThatDoNotFitTheData) {
  const int64_t big = int64_t{1} << 40;
  for (const onnx::TensorProto& t :
       {Floats({big, big}, 8), Floats({big}, 8), Floats({-1}, 8), Floats({INT64_MAX, 2}, 8),
        Floats({0, big, big, big}, 0), Floats({3}, 8), Floats({2}, 12), Floats({2}, 0),
        Floats(std::vector<int64_t>(33, 1), 4), Floats({INT64_MIN}, 8)})
    EXPECT_THAT(Refusal(WithTensor(t)), HasSubstr("tensor 'w'"));
  onnx::TensorProto no_data = Floats({2}, 0);
  no_data.clear_raw_data();
  EXPECT_THAT(Refusal(WithTensor(no_data)), HasSubstr("needs 8 bytes, but 0"));
}

TEST(Hostile, DataInTheFieldOfAnotherType) {
  onnx::TensorProto t = Floats({2000}, 0);
  t.clear_raw_data();
  for (int i = 0; i < 2000; ++i) t.add_int64_data(i);
  Refusal(WithTensor(t));
  t.clear_int64_data();
  for (int i = 0; i < 1000; ++i) t.add_double_data(i);  // the right number of bytes
  Refusal(WithTensor(t));
}

TEST(Hostile, SparseTensorsDoNotGrowWithoutBound) {
  onnx::ModelProto m = EmptyModel();
  auto& s = *m.mutable_graph()->add_sparse_initializer();
  *s.mutable_values() = Floats({1}, 4);
  s.mutable_values()->set_name("w");
  s.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  s.mutable_indices()->add_dims(1);
  s.mutable_indices()->add_int64_data(5);
  s.add_dims(int64_t{1} << 40);
  AddNode(*m.mutable_graph(), "Identity", {"w"}, {"y"});
  EXPECT_THAT(Refusal(m), HasSubstr("1 values"));
  s.set_dims(0, 4);
  EXPECT_THAT(Refusal(m), HasSubstr("out of range"));
}

TEST(Hostile, DeepNesting) {
  onnx::GraphProto g;
  g.add_output()->set_name("z");
  AddNode(g, "Identity", {"x"}, {"z"});
  for (int depth = 0; depth < 200; ++depth) {
    onnx::GraphProto outer;
    onnx::NodeProto& n = AddNode(outer, "If", {"c"}, {"z"});
    auto& a = *n.add_attribute();
    a.set_name("then_branch");
    a.set_type(onnx::AttributeProto::GRAPH);
    *a.mutable_g() = std::move(g);
    outer.add_output()->set_name("z");
    g = std::move(outer);
    if (depth != 40 && depth != 199) continue;
    onnx::ModelProto m = EmptyModel();
    onnx::GraphProto main = g;
    *main.add_input() = m.graph().input(0);
    main.mutable_output(0)->set_name("z");
    *m.mutable_graph() = main;
    EXPECT_THAT(Refusal(m), HasSubstr("deep"));
  }
}

TEST(Hostile, NestedLoopsDoNotMultiply) {
  // Each loop carries a value whose shape is not stable, so that inference takes more than one
  // round at each level: 2^30 in all, were they not cut.
  onnx::GraphProto g;
  for (int depth = 0; depth < 30; ++depth) {
    const std::string n = std::to_string(depth);
    onnx::GraphProto body;
    auto type = [](onnx::ValueInfoProto& v, const std::string& name, int elem) {
      v.set_name(name);
      v.mutable_type()->mutable_tensor_type()->set_elem_type(elem);
    };
    type(*body.add_input(), "i" + n, onnx::TensorProto::INT64);
    type(*body.add_input(), "c" + n, onnx::TensorProto::BOOL);
    type(*body.add_input(), "v" + n, onnx::TensorProto::FLOAT);
    type(*body.add_output(), "k" + n, onnx::TensorProto::BOOL);
    type(*body.add_output(), "o" + n, onnx::TensorProto::FLOAT);
    AddNode(body, "Identity", {"c" + n}, {"k" + n});
    if (depth == 0) {
      AddNode(body, "Identity", {"v" + n}, {"w" + n});
    } else {
      auto& loop = AddNode(body, "Loop", {"M", "", "x"}, {"w" + n});
      auto& a = *loop.add_attribute();
      a.set_name("body");
      a.set_type(onnx::AttributeProto::GRAPH);
      *a.mutable_g() = std::move(g);
    }
    auto& concat = AddNode(body, "Concat", {"w" + n, "w" + n}, {"o" + n});
    auto& axis = *concat.add_attribute();
    axis.set_name("axis");
    axis.set_type(onnx::AttributeProto::INT);
    axis.set_i(0);
    g = std::move(body);
  }
  onnx::ModelProto m = EmptyModel();
  SetTensorType(*m.mutable_graph()->add_input(), "M", {}, onnx::TensorProto::INT64);
  auto& a = *AddNode(*m.mutable_graph(), "Loop", {"M", "", "x"}, {"y"}).add_attribute();
  a.set_name("body");
  a.set_type(onnx::AttributeProto::GRAPH);
  *a.mutable_g() = std::move(g);
  auto got = Import(m);
  EXPECT_TRUE(got.ok()) << got.status().message();
}

TEST(Hostile, TooManyOfAnything) {
  onnx::ModelProto m = EmptyModel();
  for (int i = 0; i < 20; ++i) AddNode(*m.mutable_graph(), "Identity", {"x"}, {"a"});
  ImportOptions options;
  options.limits.max_nodes = 19;
  EXPECT_EQ(Import(m, options).status().code(), Code::kInvalidModel);
}

onnx::FunctionProto& AddFunction(onnx::ModelProto& m, const std::string& name,
                                 const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs) {
  auto& f = *m.add_functions();
  f.set_domain("local");
  f.set_name(name);
  for (const auto& x : inputs) f.add_input(x);
  for (const auto& x : outputs) f.add_output(x);
  return f;
}

/// A call of function `name` as the next node of `body`.
template <typename Body>
onnx::NodeProto& AddCall(Body& body, const std::string& name, const std::vector<std::string>& in,
                         const std::vector<std::string>& out) {
  auto& n = *body.add_node();
  n.set_op_type(name);
  n.set_domain("local");
  for (const auto& x : in) n.add_input(x);
  for (const auto& x : out) n.add_output(x);
  return n;
}

/// F0 calls F1 twice, F1 calls F2 twice, ...; F`levels` is what `leaf` adds.
onnx::ModelProto Doubling(int levels,
                          const std::function<void(onnx::ModelProto&, const std::string&)>& leaf) {
  onnx::ModelProto m = EmptyModel();
  AddCall(*m.mutable_graph(), "F0", {"x"}, {"y"});
  for (int i = 0; i < levels; ++i) {
    auto& f = AddFunction(m, "F" + std::to_string(i), {"a"}, {"b"});
    AddCall(f, "F" + std::to_string(i + 1), {"a"}, {"t"});
    AddCall(f, "F" + std::to_string(i + 1), {"t"}, {"b"});
  }
  leaf(m, "F" + std::to_string(levels));
  return m;
}

void AddIdentityFunction(onnx::ModelProto& m, const std::string& name) {
  auto& n = *AddFunction(m, name, {"a"}, {"b"}).add_node();
  n.set_op_type("Identity");
  n.add_input("a");
  n.add_output("b");
}

TEST(Hostile, FunctionsThatMultiply) {
  const char* kNodes = "more than 1000000 nodes once functions are inlined";
  EXPECT_THAT(Refusal(Doubling(60, AddIdentityFunction)), HasSubstr(kNodes));
  EXPECT_THAT(Refusal(Doubling(20, AddIdentityFunction)), HasSubstr(kNodes));
  // Functions that add up to nothing: only calls multiply.
  EXPECT_THAT(
      Refusal(Doubling(60, [](auto& m, auto& name) { AddFunction(m, name, {"a"}, {"a"}); })),
      HasSubstr(kNodes));
  auto fine = Import(Doubling(8, AddIdentityFunction));
  ASSERT_TRUE(fine.ok()) << fine.status().message();
  EXPECT_EQ(fine->graph.nodes().size(), 256u);
}

TEST(Hostile, FunctionsThatMultiplyInSubgraphs) {
  onnx::ModelProto m = EmptyModel();
  SetTensorType(*m.mutable_graph()->add_input(), "c", {}, onnx::TensorProto::BOOL);
  AddCall(*m.mutable_graph(), "F0", {"x", "c"}, {"y"});
  for (int i = 0; i < 25; ++i) {
    auto& n = *AddFunction(m, "F" + std::to_string(i), {"a", "c"}, {"b"}).add_node();
    n.set_op_type("If");
    n.add_input("c");
    n.add_output("b");
    for (const char* name : {"then_branch", "else_branch"}) {
      auto& a = *n.add_attribute();
      a.set_name(name);
      a.set_type(onnx::AttributeProto::GRAPH);
      a.mutable_g()->add_output()->set_name("r");
      AddCall(*a.mutable_g(), "F" + std::to_string(i + 1), {"a", "c"}, {"r"});
    }
  }
  AddIdentityFunction(m, "F25");
  m.mutable_functions(25)->add_input("c");
  EXPECT_THAT(Refusal(m), HasSubstr("nodes once functions are inlined"));
  m.mutable_functions(25)->mutable_node()->Clear();
  AddCall(*m.mutable_functions(25), "F0", {"a", "c"}, {"b"});
  EXPECT_THAT(Refusal(m), HasSubstr("go in a circle"));
}

TEST(Hostile, FunctionsThatMultiplyBytes) {
  // The name of a call stands in front of every name within it.
  onnx::ModelProto m = Doubling(14, AddIdentityFunction);
  m.mutable_graph()->mutable_node(0)->set_name(std::string(100'000, 'n'));
  EXPECT_THAT(Refusal(m), HasSubstr("bytes of nodes once functions are inlined"));
  // A function without nodes is looked at with all its parameters at each call.
  m = Doubling(14, [](onnx::ModelProto& m, const std::string& name) {
    auto& f = AddFunction(m, name, {}, {"i0"});
    for (int i = 0; i < 10'000; ++i) f.add_input("i" + std::to_string(i));
  });
  EXPECT_THAT(Refusal(m), HasSubstr("bytes of nodes once functions are inlined"));
  // An attribute that every call passes on.
  m = Doubling(14, AddIdentityFunction);
  for (auto& f : *m.mutable_functions()) {
    f.add_attribute("v");
    for (auto& n : *f.mutable_node()) {
      auto& a = *n.add_attribute();
      a.set_name("v");
      a.set_type(onnx::AttributeProto::STRING);
      a.set_ref_attr_name("v");
    }
  }
  auto& a = *m.mutable_graph()->mutable_node(0)->add_attribute();
  a.set_name("v");
  a.set_type(onnx::AttributeProto::STRING);
  a.set_s(std::string(100'000, 'v'));
  EXPECT_THAT(Refusal(m), HasSubstr("attributes that it passes on"));
}

TEST(Hostile, DeclarationsThatContradict) {
  onnx::ModelProto m = IdentityModel();
  auto& output = *m.mutable_graph()->mutable_output(0);
  output.Clear();
  SetTensorType(output, "y", {2}, onnx::TensorProto::INT64);
  EXPECT_THAT(Refusal(m), HasSubstr("value 'y' is declared i64[2], but is f32[2]"));
  output.Clear();
  SetTensorType(output, "x", {2}, onnx::TensorProto::INT64);
  EXPECT_THAT(Refusal(m), HasSubstr("graph output 'x' is declared i64[2], but is f32[2]"));
  m = EmptyModel();
  AddNode(*m.mutable_graph(), "Identity", {"x"}, {"t"});
  AddNode(*m.mutable_graph(), "Identity", {"t"}, {"y"});
  SetTensorType(*m.mutable_graph()->add_value_info(), "t", {2}, onnx::TensorProto::BOOL);
  EXPECT_THAT(Refusal(m), HasSubstr("value 't' is declared bool[2], but is f32[2]"));
  // Shapes are often left over from elsewhere.
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{3}, {1, 2}}) {
    m.mutable_graph()->clear_value_info();
    SetTensorType(*m.mutable_graph()->add_value_info(), "t", dims);
    auto got = Import(m);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_THAT(got->info.warnings, ::testing::Contains(HasSubstr("], but is f32[2]")));
  }
}

TEST(Hostile, AnInitializerUnlikeTheInputOfItsName) {
  onnx::ModelProto m = IdentityModel();
  AddFloats(*m.mutable_graph(), "x", {3}, {1, 2, 3});
  EXPECT_THAT(Refusal(m), HasSubstr("initializer 'x' is f32[3], but as a graph input it is "
                                    "declared f32[2]"));
}

TEST(Hostile, Versions) {
  onnx::ModelProto m = IdentityModel();
  m.add_opset_import()->set_version(17);
  EXPECT_TRUE(Import(m).ok());
  auto& other = *m.add_opset_import();
  other.set_domain("ai.onnx");
  other.set_version(13);
  EXPECT_THAT(Refusal(m), HasSubstr("contradict: 17 and 13"));
  m = IdentityModel();
  m.set_ir_version(1'000'000'000);
  EXPECT_THAT(Refusal(m, Code::kUnsupported), HasSubstr("IR version 1000000000"));
  m.set_ir_version(-1);
  EXPECT_THAT(Refusal(m), HasSubstr("IR version -1"));
  m.clear_ir_version();
  auto got = Import(m);
  ASSERT_TRUE(got.ok());
  EXPECT_THAT(got->info.warnings, ::testing::Contains("the model has no IR version"));
}

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

TEST(Hostile, AFunctionAttributeOutsideOfAFunction) {
  onnx::ModelProto m = EmptyModel();
  auto& n = AddNode(*m.mutable_graph(), "Identity", {"x"}, {"y"});
  auto& a = *n.add_attribute();
  a.set_name("alpha");
  a.set_ref_attr_name("beta");
  a.set_type(onnx::AttributeProto::FLOAT);
  EXPECT_THAT(Refusal(m), HasSubstr("refers to a function's attribute"));
}

/// A folder with a model whose only tensor lies in external data, and a secret outside of it.
class ExternalDataTest : public ::testing::Test {
 protected:
  ExternalDataTest() {
    std::filesystem::create_directories(top_ / "model/sub");
    std::ofstream(top_ / "secret") << std::string(8, 'S');
    std::ofstream(top_ / "model/weights") << std::string(16, 'w');
    std::ofstream(top_ / "model/sub/weights") << std::string(16, 'w');
  }

  onnx::ModelProto ModelWith(const std::string& location) {
    onnx::TensorProto t = Floats({2}, 0);
    t.clear_raw_data();
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    auto* e = t.add_external_data();
    e->set_key("location");
    e->set_value(location);
    return WithTensor(t);
  }

  Status Load(const onnx::ModelProto& m, const ImportOptions& options = {},
              const std::string& at = "model/m.onnx") {
    std::ofstream(top_ / at, std::ios::binary) << m.SerializeAsString();
    return ImportModel(top_ / at, Ops(), options).status();
  }

  void Set(onnx::ModelProto& m, const std::string& key, const std::string& value) {
    auto* e = m.mutable_graph()->mutable_initializer(0)->add_external_data();
    e->set_key(key);
    e->set_value(value);
  }

  TempDir top_;
};

TEST_F(ExternalDataTest, ReadsBesideAndBelowTheModel) {
  for (const char* location : {"weights", "./weights", "sub/weights", "sub//weights"}) {
    const Status s = Load(ModelWith(location));
    EXPECT_TRUE(s.ok()) << location << ": " << s.message();
  }
}

TEST_F(ExternalDataTest, RefusesEveryPathOut) {
  std::filesystem::create_symlink("../secret", top_ / "model/link");
  std::filesystem::create_symlink("..", top_ / "model/up");
  std::filesystem::create_symlink(top_.path(), top_ / "model/absolute");
  std::filesystem::create_symlink("weights", top_ / "model/inner_link");
  std::filesystem::create_hard_link(top_ / "secret", top_ / "model/hard");
  for (const std::string& location :
       {std::string("../secret"),         // CVE-2022-25882
        std::string("sub/../../secret"),  // CVE-2024-27318
        std::string("./../secret"), std::string("sub/../weights"), std::string("..\\secret"),
        std::string("/etc/passwd"), std::string("C:\\secret"), top_ / "secret",
        std::string("link"),  // CVE-2026-27489
        std::string("up/secret"), std::string("absolute/secret"), std::string("inner_link"),
        std::string("hard"), std::string(""), std::string("weights\0x", 9)}) {
    const Status s = Load(ModelWith(location));
    EXPECT_EQ(s.code(), Code::kInvalidModel) << location << ": " << s.message();
    EXPECT_THAT(s.message(), HasSubstr("external data"));
  }
  for (const char* location : {"absent", "sub", "."})
    EXPECT_EQ(Load(ModelWith(location)).code(), Code::kIo) << location;
}

TEST_F(ExternalDataTest, RefusesTheModelItself) {
  EXPECT_THAT(Load(ModelWith("m.onnx")).message(), HasSubstr("it is the model file itself"));
}

TEST_F(ExternalDataTest, RefusesBadNumbers) {
  for (const char* offset : {"-1", "9", "1e3", "99999999999999999999", "0x1", " 1"}) {
    onnx::ModelProto m = ModelWith("weights");
    Set(m, "offset", offset);
    EXPECT_EQ(Load(m).code(), Code::kInvalidModel) << offset;
  }
  for (const char* length : {"-1", "7", "9", "9223372036854775807"}) {  // CVE-2026-34445
    onnx::ModelProto m = ModelWith("weights");
    Set(m, "length", length);
    EXPECT_EQ(Load(m).code(), Code::kInvalidModel) << length;
  }
  onnx::ModelProto m = ModelWith("weights");
  Set(m, "location", "sub/weights");
  EXPECT_EQ(Load(m).code(), Code::kInvalidModel);
  m = ModelWith("weights");
  Set(m, "offset", "8");
  Set(m, "length", "8");
  Set(m, "__class__", "anything");
  EXPECT_TRUE(Load(m).ok());
}

TEST_F(ExternalDataTest, ReadsAHuggingFaceCacheButNothingElseThroughIt) {
  std::filesystem::create_directories(top_ / "hub/blobs");
  std::filesystem::create_directories(top_ / "hub/snapshots/1");
  std::ofstream(top_ / "hub/blobs/bbb") << std::string(8, 'w');
  std::filesystem::create_symlink("../../blobs/aaa", top_ / "hub/snapshots/1/m.onnx");
  std::filesystem::create_symlink("../../blobs/bbb", top_ / "hub/snapshots/1/data");
  std::filesystem::create_symlink("../../../secret", top_ / "hub/snapshots/1/evil");
  auto load = [&](const std::string& location) {
    std::ofstream(top_ / "hub/blobs/aaa", std::ios::binary)
        << ModelWith(location).SerializeAsString();
    return ImportModel(top_ / "hub/snapshots/1/m.onnx", Ops()).status();
  };
  const Status s = load("data");
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(load("evil").code(), Code::kInvalidModel);
}

TEST_F(ExternalDataTest, TheUserMayNameOneMoreFolder) {
  std::filesystem::create_directories(top_ / "shared");
  std::ofstream(top_ / "shared/far") << std::string(8, 'w');
  EXPECT_EQ(Load(ModelWith("far")).code(), Code::kIo);
  ImportOptions options;
  options.external_root = top_ / "shared";
  const Status s = Load(ModelWith("far"), options);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(Load(ModelWith("../secret"), options).code(), Code::kInvalidModel);
}

TEST_F(ExternalDataTest, AModelInMemoryHasNone) {
  EXPECT_THAT(Refusal(ModelWith("weights")), HasSubstr("in memory"));
}

TEST_F(ExternalDataTest, WithoutLoadingNothingIsReadOrTaken) {
  onnx::ModelProto m = ModelWith("absent");
  m.mutable_graph()->mutable_initializer(0)->set_dims(0, int64_t{1} << 36);  // 256 GiB
  ImportOptions options;
  options.load_external_data = false;
  const Status s = Load(m, options);
  EXPECT_TRUE(s.ok()) << s.message();
}

}  // namespace
}  // namespace infer
