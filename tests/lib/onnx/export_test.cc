#include "lib/onnx/export.h"

#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <set>

#include "lib/ir/editor.h"
#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "tests/lib/onnx/exported.h"

namespace infer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> OperatorsOf(const onnx::ModelProto& p) {
  std::vector<std::string> names;
  for (const auto& n : p.graph().node()) names.push_back(n.op_type());
  return names;
}

TEST(Export, AnOldSoftmaxOfSeveralAxesIsOneNodeAgain) {
  const auto written = [](std::string_view text, int64_t opset) {
    Model m = FromText(text);
    m.info.opsets[""] = opset;
    return ProtoOf(m);
  };
  constexpr std::string_view kOpen = R"(graph g(x: f32[2,N,4]) -> (y) { s = Shape(x)
    f = Flatten(x) {axis=1}  r = LogSoftmax(f)  y = Reshape(r, s) })";
  constexpr std::string_view kStatic = R"(graph g(x: f32[2,3,4]) -> (y) { s = const i64[3] {2,3,4}
    t = const i64[2] {2,12}  f = Reshape(x, t)  r = Softmax(f) {axis=1}  y = Reshape(r, s) })";
  for (const auto& [text, op] : {std::pair(kOpen, "LogSoftmax"), std::pair(kStatic, "Softmax")}) {
    const onnx::ModelProto old = written(text, 11);
    ASSERT_THAT(OperatorsOf(old), ElementsAre(op));
    EXPECT_EQ(old.graph().node(0).input(0), "x");
    EXPECT_EQ(old.graph().node(0).attribute(0).i(), 1);
    EXPECT_GT(OperatorsOf(written(text, 13)).size(), 1U);
    // It means the same when it is read.
    const auto again = ImportModelBytes(old.SerializeAsString(), Ops());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_THAT(OperatorsOf(ProtoOf(*again)), ElementsAre(op));
  }
  // Where rows are read, columns are normalized, or the result has other extents, nothing changes.
  for (const std::string_view text :
       {R"(graph g(x: f32[2,3,4]) -> (y, r) { s = Shape(x)  f = Flatten(x) {axis=1}
           r = Softmax(f)  y = Reshape(r, s) })",
        R"(graph g(x: f32[2,3,4]) -> (y) { s = Shape(x)  f = Flatten(x) {axis=1}
           r = Softmax(f) {axis=0}  y = Reshape(r, s) })",
        R"(graph g(x: f32[2,3,4]) -> (y) { s = const i64[3] {2,4,3}  f = Flatten(x) {axis=1}
           r = Softmax(f)  y = Reshape(r, s) })"})
    EXPECT_GT(OperatorsOf(written(text, 11)).size(), 2U) << text;
}

constexpr std::string_view kUnsqueeze = R"(graph g(x: f32[2]) -> (y) {
  axes = const i64[1] {0}
  y = Unsqueeze(x, axes)
})";

TEST(Export, KeepsTheInputsOpsetWhereTheOldFormCanSayIt) {
  Model m = FromText(kUnsqueeze);
  m.info.opsets[""] = 11;
  const onnx::ModelProto p = ProtoOf(m);
  EXPECT_EQ(p.opset_import(0).version(), 11);
  EXPECT_EQ(p.graph().node(0).input_size(), 1);
  EXPECT_EQ(p.graph().node(0).attribute(0).name(), "axes");
  EXPECT_EQ(p.graph().initializer_size(), 0) << "the axes stayed behind";
  auto again = ImportModelBytes(p.SerializeAsString(), Ops());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(Fingerprint(again->graph), Fingerprint(m.graph));
}

/// Also where the axis is the default, so that no attribute tells.
TEST(Export, AScalePerChannelNeedsOpset13) {
  const auto opset_of = [](std::string_view scale) {
    Model m = FromText(
        Cat("graph g(x: i8[1, 2, 3]) -> (y) { s = const ", scale, " y = DequantizeLinear(x, s) }"));
    m.info.opsets[""] = 11;
    return ProtoOf(m).opset_import(0).version();
  };
  EXPECT_EQ(opset_of("f32[2] {1, 2}"), 13);
  EXPECT_EQ(opset_of("f32[] {1}"), 11);
}

TEST(Export, WhatTheReaderTakesAtMost) {
  Model m = FromText(kUnsqueeze);
  m.info.opsets[""] = 24;
  m.info.ir_version = 11;
  ExportOptions options;
  options.max_opset = 12;
  options.max_ir_version = 8;
  const onnx::ModelProto p = ProtoOf(m, options);
  EXPECT_EQ(p.opset_import(0).version(), 12);
  EXPECT_EQ(p.ir_version(), 8);
  EXPECT_EQ(p.graph().node(0).input_size(), 1);
  m = FromText("graph g(x: f32[2]) -> (y) { y = Relu(x) }");
  m.info.opsets[""] = 11;
  EXPECT_EQ(ProtoOf(m, options).opset_import(0).version(), 11) << "never raised";
}

TEST(Export, TypesThatAnOperatorWasGivenLaterNeedTheirOpset) {
  const auto opset_of = [](std::string_view scale, std::string_view zero) {
    Model m = FromText(Cat("graph g(x: ", scale, "[2]) -> (y) { s = const ", scale,
                           "[] {0.5} z = const ", zero, "[] {3} y = QuantizeLinear(x, s, z) }"));
    m.info.opsets[""] = 17;
    return ProtoOf(m).opset_import(0).version();
  };
  EXPECT_EQ(opset_of("f32", "u8"), 17);
  EXPECT_EQ(opset_of("f16", "u8"), 19);
  EXPECT_EQ(opset_of("f32", "u16"), 21);
}

TEST(Export, NamesModesAsTheOpsetDoes) {
  for (const char* mode : {"linear", "cubic"}) {
    Model m = FromText(
        Cat("graph g(x: f32[1,1,4,4], p: f32[1,2,2,2]) -> (y) { y = GridSample(x, p) {mode=\"",
            mode, "\"} }"));
    m.info.opsets[""] = 16;
    const onnx::ModelProto p = ProtoOf(m);
    EXPECT_EQ(p.opset_import(0).version(), 16);
    ASSERT_EQ(p.graph().node(0).attribute_size(), 1);
    EXPECT_EQ(p.graph().node(0).attribute(0).s(), Cat("bi", mode));
  }
}

TEST(Export, RaisesTheOpsetToOneThatTakesTheTypes) {
  const std::pair<std::string_view, int> cases[] = {
      {"graph g(x: u8[2]) -> (y) { y = Add(x, x) }", 14},
      {"graph g(x: i32[2]) -> (y) { y = Add(x, x) }", 7},
      {"graph g(x: i64[2]) -> (y) { y = Relu(x) }", 14},
      {"graph g(x: f32[2]) -> (y) { y = Cast(x) {to=8} }", 9},
      {"graph g(x: seq(f32[2])) -> (y) { y = Identity(x) }", 14},
      {"graph g(x: optional(f32[2])) -> (y) { y = Identity(x) }", 16},
      {"graph g(x: f32[3], k: i64[1]) -> (v, i) { v, i = TopK(x, k) }", 10},
      {"graph g(x: i32[3], k: i64[1]) -> (v, i) { v, i = TopK(x, k) }", 11},
      {"graph g(x: bf16[2]) -> (y) { y = Sin(x) }", 22},
      {"graph g(x: f32[2,3]) -> (y, m) { y, m = Dropout(x) }", 12},
      {"graph g(x: f32[2,3]) -> (y) { y = Dropout(x) }", 7},
      {"graph g(x: f32[2,3]) -> (y) { y = Softmax(x) }", 7},
      {"graph g(x: f32[n,3]) -> (y) { y = LogSoftmax(x) {axis=1} }", 7},
      {"graph g(x: f32[]) -> (y) { y = Softmax(x) }", 13},
      {"graph g(x: f32[2,3], c: f32[2]) -> (y) { y = Gemm(x, x, c) {transB=1} }", 7},
      {"graph g(x: f32[2,3]) -> (y) { y = Gemm(x, x) {transB=1} }", 11},
      {"graph g(x: i32[2,3], c: i32[1]) -> (y) { y = Gemm(x, x, c) {transB=1} }", 9},
      {"graph g(x: f32[1,2,3]) -> (y) { s = const f32[3] {1, 1, 2} y = Resize(x, _, s) }", 11},
      {"graph g(x: f32[2,3]) -> (y) { s = const i64[1] {6} y = Resize(x, _, _, s) {axes=[1]} }",
       18},
      {"graph g(x: f32[0,3]) -> (y) { s = const i64[2] {3, 0} y = Reshape(x, s) {allowzero=1} }",
       14},
  };
  for (const auto& [text, opset] : cases) {
    SCOPED_TRACE(text);
    Model m = FromText(text);
    m.info.opsets[""] = 7;
    EXPECT_EQ(ProtoOf(m).opset_import(0).version(), opset);
    if (opset > 7) {
      const auto refused = ExportModelBytes(m, {.opset = opset - 1});
      EXPECT_EQ(refused.status().code(), Code::kUnsupported);
    }
  }
}

TEST(Export, CountsAxesFromTheFrontInOldFlatten) {
  Model m = FromText("graph g(x: f32[2,3,4]) -> (y) { y = Flatten(x) {axis=-1} }");
  EXPECT_EQ(ProtoOf(m, {.opset = 9}).graph().node(0).attribute(0).i(), 2);
  EXPECT_EQ(ProtoOf(m, {.opset = 11}).graph().node(0).attribute(0).i(), -1);
}

/// Softmax of old flattens what follows its axis: where that is all of extent 1 it is today's.
TEST(Export, OldSoftmaxOfTheLastAxisThatVariesIsOneNode) {
  Model m = FromText("graph g(x: f32[2,3,1,1]) -> (y) { y = Softmax(x) {axis=1} }");
  const onnx::ModelProto p = ProtoOf(m, {.opset = 11});
  ASSERT_EQ(p.graph().node_size(), 1);
  EXPECT_EQ(p.graph().node(0).attribute(0).i(), 1);
  const auto again = ImportModelBytes(p.SerializeAsString(), Ops());
  ASSERT_TRUE(again.ok()) << again.status().message();
  ASSERT_EQ(again->graph.num_nodes(), 1u);
  EXPECT_EQ(again->graph.nodes().front()->Attr<int64_t>("axis"), 1);
  m = FromText("graph g(x: f32[2,3,4,1]) -> (y) { y = Softmax(x) {axis=1} }");
  EXPECT_GT(ProtoOf(m, {.opset = 11}).graph().node_size(), 1);
}

TEST(Export, NodeNamesAreUnique) {
  Model m = FromText("graph g(x: f32[2]) -> (y) { a = Relu(x)  b = Relu(a)  y = Relu(b) }");
  GraphEditor e(m.graph);
  for (const auto& n : m.graph.nodes()) e.SetName(*n, "act");
  const onnx::ModelProto p = ProtoOf(m);
  std::vector<std::string> names;
  for (const auto& n : p.graph().node()) names.push_back(n.name());
  EXPECT_THAT(names, ElementsAre("act", "act_1", "act_2"));
}

TEST(Export, RaisesTheOpsetAsFarAsNeeded) {
  Model m = FromText("graph g(x: bf16[2]) -> (y) { y = Identity(x) }");
  m.info.opsets[""] = 11;
  TempDir dir;
  auto report = ExportModel(m, dir / "m.onnx");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->opset, 13);
  EXPECT_THAT(report->opset_reason, HasSubstr("'x'"));
}

TEST(Export, KeepsTheVersionsOfTheInput) {
  Model m = FromText("graph g(x: f32[2,8], s: f32[8]) -> (y) { y = LayerNormalization(x, s) }");
  m.info.opsets[""] = 13;
  m.info.ir_version = 5;
  const ExportOptions keep = {.target = ExportTarget::kPlain, .keep_versions = true};
  const auto plan = PlanExport(m, keep);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->opset, 13);
  EXPECT_EQ(plan->ir_version, 5);
  EXPECT_EQ(plan->decomposed.at("LayerNormalization"), 1);
  EXPECT_EQ(plan->whole_opset, 17);
  const auto raised = PlanExport(m, {.target = ExportTarget::kPlain});
  ASSERT_TRUE(raised.ok());
  EXPECT_EQ(raised->opset, 17);
  EXPECT_EQ(raised->ir_version, 8);
  EXPECT_TRUE(raised->decomposed.empty());
}

/// Parts that operators written as nodes have in common are written once: the angles here.
TEST(Export, NodesThatDefineTwoOperatorsAreShared) {
  Model m = FromText(R"(graph g(q: f32[1,2,8], k: f32[1,2,8], c: f32[1,2,2], s: f32[1,2,2],
    t: f32[1,2,2]) -> (y, z, u) {
    y = RotaryEmbedding(q, c, s) {num_heads=2}  z = RotaryEmbedding(k, c, s) {num_heads=2}
    u = RotaryEmbedding(k, c, t) {num_heads=2} })");
  m.info.opsets[""] = 18;
  const auto bytes = ExportModelBytes(m, {.target = ExportTarget::kPlain, .keep_versions = true});
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  onnx::ModelProto p;
  ASSERT_TRUE(p.ParseFromString(*bytes));
  std::map<std::string, int> count;
  for (const std::string& op : OperatorsOf(p)) ++count[op];
  EXPECT_EQ(count["Unsqueeze"], 3);  // of c, s and t
  EXPECT_EQ(count["Split"], 2);      // of q and k
  EXPECT_EQ(count["Concat"], 3);
  EXPECT_EQ(count["Transpose"], 0);
  std::set<std::string> made, read;
  for (const auto& i : p.graph().input()) made.insert(i.name());
  for (const auto& t : p.graph().initializer()) made.insert(t.name());
  for (const auto& n : p.graph().node()) {
    for (const std::string& name : n.input()) EXPECT_TRUE(made.contains(name)) << name;
    read.insert(n.input().begin(), n.input().end());
    made.insert(n.output().begin(), n.output().end());
  }
  for (const auto& t : p.graph().initializer()) EXPECT_TRUE(read.contains(t.name())) << t.name();
}

TEST(Export, RefusesWhatTheInputsOpsetCannotSay) {
  Model m = FromText("graph g(x: bf16[2]) -> (y) { y = Identity(x) }");
  m.info.opsets[""] = 11;
  EXPECT_EQ(PlanExport(m, {.keep_versions = true}).status().code(), Code::kUnsupported);
}

TEST(Export, ResizeBeforeOpset11) {
  const std::string text =
      "graph g(x: f32[1,1,2,2]) -> (y) { s = const f32[4] {1, 1, 2, 2} y = Resize(x, _, s) "
      "{coordinate_transformation_mode=\"asymmetric\", mode=\"nearest\", nearest_mode=\"floor\"} }";
  const auto operator_at = [&](const std::string& body, int opset) -> std::string {
    Model m = FromText(body);
    m.info.opsets[""] = opset;
    auto bytes = ExportModelBytes(m, {.opset = opset});
    if (!bytes.ok()) return bytes.status().message();
    onnx::ModelProto p;
    return p.ParseFromString(*bytes) ? p.graph().node(0).op_type() : "broken";
  };
  EXPECT_EQ(operator_at(text, 10), "Resize");
  EXPECT_EQ(operator_at(text, 9), "Upsample");
  EXPECT_EQ(operator_at(text, 8), "Upsample");
  const std::string shrinks =
      "graph g(x: f32[1,1,2,2]) -> (y) { s = const f32[4] {1, 1, 0.5, 0.5} "
      "y = Resize(x, _, s) {coordinate_transformation_mode=\"asymmetric\", "
      "nearest_mode=\"ceil\"} }";
  EXPECT_EQ(operator_at(shrinks, 10), "Resize");
  EXPECT_THAT(operator_at(shrinks, 9), HasSubstr("opset 10 can"));
  const std::string half =
      "graph g(x: f32[1,1,2,2]) -> (y) { s = const f32[4] {1, 1, 2, 2} "
      "y = Resize(x, _, s) {mode=\"linear\"} }";
  EXPECT_THAT(operator_at(half, 10), HasSubstr("opset 11 can"));
}

TEST(Export, ListsWhatAnOpsetCannotExpress) {
  const Model m = FromText(
      "graph g(x: bf16[2], z: f8e4m3fn[2]) -> (y, w) { y = Identity(x)\n"
      "w = Identity(z) }");
  ExportOptions options;
  options.opset = 11;
  const auto bytes = ExportModelBytes(m, options);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.status().code(), Code::kUnsupported);
  EXPECT_THAT(bytes.status().message(), HasSubstr("'x'"));
  EXPECT_THAT(bytes.status().message(), HasSubstr("opset 19 can"));
}

TEST(Export, GivesSubgraphsNamesOfTheirOwn) {
  const onnx::ModelProto p = ProtoOf(FromText(R"(graph g(c: bool[], x: f32[2]) -> (y) {
    z = Identity(x)
    y = If(c) [z] {then_branch=graph(a) -> (z) { z = Identity(a) },
                   else_branch=graph(a) -> (z) { z = Identity(a) }}
  })"));
  const auto& branches = p.graph().node(1).attribute();
  EXPECT_EQ(branches[0].g().input_size(), 0);
  EXPECT_EQ(branches[0].g().node(0).input(0), "z");
  EXPECT_NE(branches[0].g().output(0).name(), "z");
  EXPECT_NE(branches[0].g().output(0).name(), branches[1].g().output(0).name());
}

/// Operators with one fused operator of our own more.
const OpRegistry& FusedOps() {
  static const OpDef fused[] = {{
      .name = "Wrap",
      .domain = "infer",
      .doc = "For this test: two identities and a constant.",
      .inputs = {{"x", "T"}},
      .outputs = {{"y", "T"}, {"c", "T", Arity::kOptional}},
      .attrs = {{"alpha", AttrKind::kFloat, 1.0f}},
      .constraints = {{"T", kFloats}},
      .body = R"(graph b(x) -> (y, c) {
        t = Identity(x)
        y = Identity(t)
        k = const f32[2] {1, 2}
        c = Identity(k)
      })",
  }};
  static const std::span<const OpDef> families[] = {std::span(Ops().Find("Identity"), 1), fused};
  static const OpRegistry ops(families);
  return ops;
}

TEST(Export, WritesFusedOperatorsAsFunctions) {
  const Model m = FromText(R"(graph g(x: f32[2]) -> (y) {
    a = infer::Wrap(x)
    b = infer::Wrap(a) {alpha=0.5}
    y = infer::Wrap(b)
  })",
                           FusedOps());
  const onnx::ModelProto p = ProtoOf(m);
  ASSERT_EQ(p.functions_size(), 2);
  EXPECT_EQ(p.functions(0).name(), "Wrap");
  EXPECT_THAT(p.functions(1).name(), HasSubstr("Wrap__"));
  EXPECT_GE(p.ir_version(), 8);
  const std::string bytes = p.SerializeAsString();
  // We know the operator: it comes back as one.
  auto fused = ImportModelBytes(bytes, FusedOps());
  ASSERT_TRUE(fused.ok()) << fused.status().message();
  EXPECT_EQ(Fingerprint(fused->graph), Fingerprint(m.graph));
  // Who does not know it inlines the body.
  auto inlined = ImportModelBytes(bytes, Ops());
  ASSERT_TRUE(inlined.ok()) << inlined.status().message();
  EXPECT_TRUE(Verify(inlined->graph).ok());
  EXPECT_EQ(inlined->graph.num_nodes(), 6u);
  // A function of our name with another body means what it says.
  onnx::ModelProto other = p;
  other.mutable_functions(0)->mutable_node(0)->set_name("changed");
  auto changed = ImportModelBytes(other.SerializeAsString(), FusedOps());
  ASSERT_TRUE(changed.ok()) << changed.status().message();
  EXPECT_EQ(changed->graph.num_nodes(), 5u);
}

TEST(Export, KeepsFusedOperatorsForOurselves) {
  const Model m = FromText("graph g(x: f32[2]) -> (y) { y = infer::Wrap(x) }", FusedOps());
  ExportOptions options;
  options.target = ExportTarget::kInfer;
  const onnx::ModelProto p = ProtoOf(m, options);
  EXPECT_EQ(p.functions_size(), 0);
  auto again = ImportModelBytes(p.SerializeAsString(), FusedOps());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(Fingerprint(again->graph), Fingerprint(m.graph));
}

TEST(Export, FusedOperatorsAsTheirNodesForReadersWithoutFunctions) {
  const Model m = FromText("graph g(x: f32[2]) -> (y) { y = infer::Wrap(x) }", FusedOps());
  ExportOptions options;
  options.target = ExportTarget::kPlain;
  const onnx::ModelProto p = ProtoOf(m, options);
  EXPECT_EQ(p.functions_size(), 0);
  for (const onnx::NodeProto& n : p.graph().node()) EXPECT_EQ(n.domain(), "");
}

}  // namespace
}  // namespace infer
