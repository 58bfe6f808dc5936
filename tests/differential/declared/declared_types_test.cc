/// Files that declare extents which do not hold, of values whose extents a run infers from what it
/// was given: whatever is derived from m, a fused model gives the numbers of the model as it came.
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/ir/text.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "tests/differential/model_case.h"

namespace infer {
namespace {

const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

Datum Counted(const Dims& dims) {
  Tensor t(DType::kF32, dims);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, static_cast<double>(i) - 3);
  return t;
}

/// How m is made of x, and what is declared of it.
struct Producer {
  const char *input, *nodes;
  Dims x, lie;
  int elements = onnx::TensorProto::FLOAT;
};

const Producer kProducers[] = {
    {"f32[?,?]", "m = ThresholdedRelu(x)", {3, 4}, {1, 3}},
    {"f32[?,?]", "m = Add(x, x)", {3, 4}, {4, 3}},
    {"f32[N,?]", "m = Relu(x)", {3, 4}, {3, 3}},
    {"f32[*]", "m = Relu(x)", {3, 4}, {1, 3}},
    {"f32[*]", "m = Relu(x)", {3, 2, 2}, {1, 3}},
    {"f32[*]", "m = Transpose(x)", {3, 4}, {1, 3}},
    {"f32[?,?]", "m = Transpose(x) {perm=[1,0]}", {3, 4}, {2, 2}},
    {"f32[?,?]", "w = const f32[4,2] ~1 m = MatMul(x, w)", {3, 4}, {1, 2}},
    {"f32[?,?]", "b = const i64[1] {1} e = const i64[1] {9} m = Slice(x, b, e)", {3, 4}, {1, 4}},
    {"f32[?,?]", "m = Concat(x, x) {axis=1}", {3, 4}, {3, 4}},
    {"f32[1,2,?,?]",
     "w = const f32[2,2,2,2] ~1 c = Conv(x, w) {strides=[2,2]} k = const i64[2] {2,-1} "
     "m = Reshape(c, k)",
     {1, 2, 7, 5},
     {2, 4}},
    {"f32[1,2,H,W]",
     "p = MaxPool(x) {kernel_shape=[3,3], strides=[2,2]} m = Flatten(p)",
     {1, 2, 7, 5},
     {1, 4}},
    {"f32[?,?]", "s = Shape(x) m = Reshape(x, s)", {3, 4}, {1, 3}},
    {"f32[*]",
     "s = Shape(x) z = const i64[1] {0} m = Gather(s, z) {axis=0}",
     {3, 4},
     {2},
     onnx::TensorProto::INT64},
    {"f32[*]",
     "s = Shape(x) o = const i64[1] {-1} t = Concat(s, o) {axis=0} m = Reshape(x, t)",
     {3, 4},
     {1, 3, 1}},
    {"f32[?,?]", "n = NonZero(x) m = Cast(n) {to=1}", {3, 4}, {2, 5}},
    {"f32[?,?]", "k = const i64[] {1} v, m = TopK(x, k)", {3, 4}, {2, 1}, onnx::TensorProto::INT64},
    {"f32[?,?]",
     "b = Size(x) c = Cast(b) {to=9} m = If(c) [x] {then_branch=graph(x) -> (a) { a = Relu(x) }, "
     "else_branch=graph(x) -> (a) { a = Neg(x) }}",
     {3, 4},
     {1, 3}},
    {"f32[1,2,?,?]",
     "b = Size(x) c = Cast(b) {to=9} m = If(c) [x] {then_branch=graph(x) -> (a) { w = const "
     "f32[2,2,3,3] ~1 a = Conv(x, w) }, else_branch=graph(x) -> (a) { w = const f32[2,2,3,3] ~2 "
     "a = Conv(x, w) }}",
     {1, 2, 7, 5},
     {1, 2, 3, 3}},
};

/// Numbers that a pass may derive from the extents of m.
const char* const kReaders[] = {
    "y = Size(m)",
    "y = Shape(m)",
    "rs = Shape(m) y = Size(rs)",
    "rf = Flatten(m) y = Shape(rf)",
    "rs = Shape(m) ro = const f32[1] {2} y = Expand(ro, rs)",
    "rs = Shape(m) y = ConstantOfShape(rs)",
    "rs = Shape(m) y = Reshape(m, rs)",
    "ri = const i64[1] {0} re = const i64[1] {3} y = Slice(m, ri, re, ri)",
    "ra = const i64[1] {-1} rr = ReduceSum(m, ra) {keepdims=0} y = Shape(rr)",
    "y = ReduceMax(m)",
    "ra = const i64[1] {-1} rt = Cast(m) {to=1} rs = ReduceSum(rt, ra) rh = Shape(m) {start=-1} "
    "rc = Cast(rh) {to=1} y = Div(rs, rc)",
    "rk = const i64[1] {-1} y = Reshape(m, rk)",
    "ru = Shape(m) {start=0, end=1} rk = const i64[1] {-1} rt = Concat(ru, rk) {axis=0} "
    "y = Reshape(m, rt)",
    "y = Squeeze(m)",
    "rt = Cast(m) {to=1} ra, rb = Split(rt) {axis=-1, num_outputs=2} "
    "y = Concat(ra, rb) {axis=-1}",
};

/// The file of the graph, with m declared of these extents.
onnx::ModelProto Declared(const Graph& g, std::span<const Datum> inputs, const Dims& dims,
                          int elements) {
  auto model = CaseOf(g, inputs);
  EXPECT_TRUE(model.ok()) << model.status().message();
  onnx::ValueInfoProto& info = *model->mutable_graph()->add_value_info();
  info.set_name("m");
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(elements);
  for (const int64_t d : dims) type.mutable_shape()->add_dim()->set_dim_value(d);
  return *std::move(model);
}

TEST(DeclaredTypes, NothingIsDerivedFromALie) {
  // Under sanitizers each producer meets every other reader, each reader every other producer.
  const bool sanitized = std::getenv("INFER_SANITIZED") != nullptr;
  int agreed = 0, met = 0;
  for (const Producer& p : kProducers)
    for (const char* reader : kReaders) {
      if (sanitized && met++ % 2 == 1) continue;
      const std::string text =
          Cat("graph g(x: ", p.input, ") -> (y) { ", p.nodes, " ", reader, " }");
      const auto g = ParseGraph(text, Ops());
      if (!g.ok()) {
        ADD_FAILURE() << g.status().message() << "\n" << text;
        continue;
      }
      const std::vector<Datum> inputs = {Counted(p.x)};
      const Verdict v = JudgeCase(Declared(*g, inputs, p.lie, p.elements), Ops());
      EXPECT_LE(v.kind, Verdict::kRefused) << v.what << "\n" << text;
      agreed += v.kind == Verdict::kAgree;
    }
  EXPECT_GT(agreed, sanitized ? 75 : 150);  // most are no bad models
}

/// Extents that hang on what the run computes are known from the file alone; a run compares them.
TEST(DeclaredTypes, ThoseThatTheRunComparesCount) {
  for (const char* nodes : {"m = NonZero(x)", "s = Cast(x) {to=7} m = Reshape(x, s)",
                            "k = Cast(x) {to=7} m = Expand(x, k)",
                            "k = Cast(x) {to=7} b = const i64[1] {0} m = Slice(x, k, k, b)"}) {
    const std::string text = Cat("graph g(x: f32[?]) -> (y) { ", nodes, " y = Identity(m) }");
    const auto g = ParseGraph(text, Ops());
    ASSERT_TRUE(g.ok()) << g.status().message() << text;
    const bool is_nonzero = std::string_view(nodes).find("NonZero") != std::string_view::npos;
    const Dims lie =
        std::string_view(nodes).find("Slice") != std::string_view::npos ? Dims{5} : Dims{1, 5};
    const auto model =
        Declared(*g, {}, lie, is_nonzero ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT);
    const auto read = ImportModelBytes(model.SerializeAsString(), Ops());
    ASSERT_TRUE(read.ok()) << read.status().message() << text;
    EXPECT_EQ(read->graph.FindValue("m")->shape(), Shape(lie)) << text;
  }
}

}  // namespace
}  // namespace infer
