/// Model files that are broken or hostile: one clear line each, nothing allocated for what they
/// only claim.
#include <gmock/gmock.h>

#include <functional>

#include "lib/support/file.h"
#include "tests/lib/onnx/models.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

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

/// A sparse vector of `elements` f32 with one value.
void AddSparse(onnx::ModelProto& m, const std::string& name, int64_t elements) {
  auto& s = *m.mutable_graph()->add_sparse_initializer();
  *s.mutable_values() = Floats({1}, 4);
  s.mutable_values()->set_name(name);
  s.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  s.mutable_indices()->add_dims(1);
  s.mutable_indices()->add_int64_data(0);
  s.add_dims(elements);
}

TEST(Hostile, SparseTensorsShareOneLimit) {
  for (const int n : {1, 4, 5, 40}) {
    onnx::ModelProto m = EmptyModel();
    for (int i = 0; i < n; ++i) AddSparse(m, "w" + std::to_string(i), int64_t{4} << 20);  // 16 MiB
    AddNode(*m.mutable_graph(), "Identity", {"x"}, {"y"});
    if (n <= 4)
      EXPECT_TRUE(Import(m).ok()) << n;
    else
      EXPECT_THAT(Refusal(m), HasSubstr("limit of the model's sparse tensors")) << n;
  }
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

TEST(Hostile, AFunctionAttributeOutsideOfAFunction) {
  onnx::ModelProto m = EmptyModel();
  auto& n = AddNode(*m.mutable_graph(), "Identity", {"x"}, {"y"});
  auto& a = *n.add_attribute();
  a.set_name("alpha");
  a.set_ref_attr_name("beta");
  a.set_type(onnx::AttributeProto::FLOAT);
  EXPECT_THAT(Refusal(m), HasSubstr("refers to a function's attribute"));
}

}  // namespace
}  // namespace infer
