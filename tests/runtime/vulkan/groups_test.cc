/// Groups of operators that one dispatch computes: attention, and chains of element-wise operators.
/// Each form is compared with the reference, and the shader that ran is named.
#include <algorithm>
#include <cstring>

#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// ---- Attention -------------------------------------------------------------------------------

/// Products around a Softmax over scores s, which `between` makes z of.
std::string Spelled(int64_t queries, int64_t keys, int64_t values, std::string_view between,
                    std::string_view operands = "") {
  return Cat("graph g(q: f32[2,3,", queries, ",20], k: f32[2,3,20,", keys, "], v: f32[2,3,", keys,
             ",", values, "]", operands,
             ") -> (y) { c = const f32[] {0.3} h = const f32[] {-3e38} ", "s = MatMul(q, k) ",
             between, " p = Softmax(z) y = MatMul(p, v) }");
}

/// The operator with `heads` of queries and two of keys, and a past where it is not 0.
std::string Operator(int64_t heads, int64_t queries, int64_t past, std::string_view attributes,
                     std::string_view mask = "", std::string_view results = "y") {
  std::string text = Cat("graph g(q: f32[2,", heads, ",", queries, ",16], k: f32[2,2,", queries,
                         ",16], v: f32[2,2,", queries, ",24]");
  if (!mask.empty()) text += Cat(", m: ", mask);
  if (past > 0) text += Cat(", pk: f32[2,2,", past, ",16], pv: f32[2,2,", past, ",24]");
  return Cat(text, ") -> (", results, ") { ", results, " = Attention(q, k, v, ",
             mask.empty() ? "_" : "m", past > 0 ? ", pk, pv" : "", ") {", attributes, "} }");
}

/// A driver for a CPU has invocations enough for every tile, and few groups keep it busy.
TEST(VulkanGroups, AttentionIsOneDispatch) {
  const auto backend = VulkanOver();
  const std::pair<std::string, std::string> forms[] = {
      // Without a mask, of few queries, some and many; over several tiles of keys and of columns.
      {Spelled(3, 130, 300, "z = Mul(s, c)"), "vulkan:attention_row"},
      {Spelled(20, 70, 20, "z = Div(s, c)"), "vulkan:attention32"},
      {Spelled(70, 150, 70, "z = Mul(s, c)"), "vulkan:attention64"},
      {Spelled(1, 1, 1, "z = Mul(s, c)"), "vulkan:attention_row"},
      // Causal, with windows, a cap, positions behind a past; heads of keys for several of queries.
      {Operator(2, 40, 0, "is_causal=1"), "vulkan:attention64"},
      {Operator(6, 20, 0, "is_causal=1"), "vulkan:attention32"},
      {Operator(4, 7, 80, "is_causal=1"), "vulkan:attention32"},
      {Operator(4, 1, 80, "is_causal=1"), "vulkan:attention_row"},
      {Operator(4, 40, 0, "left_window_size=3, right_window_size=2"), "vulkan:attention64"},
      {Operator(4, 70, 0, "left_window_size=5, is_causal=1, softcap=1.5"), "vulkan:attention64"},
      // The caches are results: they are filled first, and read where they lie.
      {Operator(4, 9, 30, "is_causal=1", "", "y, nk, nv"), "vulkan:attention32"},
      {Operator(4, 1, 30, "is_causal=1", "", "y, nk, nv"), "vulkan:attention_row"},
      {Operator(4, 9, 30, "", "bool[2,1,9,39]"), "vulkan:attention32"},
      {Operator(4, 9, 30, "is_causal=1", "f32[9,39]"), "vulkan:attention32"},
      // Keys that the mask does not reach are not seen.
      {Operator(4, 9, 30, "", "f32[2,4,9,13]"), "vulkan:attention32"}};
  size_t form = 0;
  for (const auto& [text, kernel] : forms) {
    if (IsLeftToRelease(form++, 3)) continue;
    SCOPED_TRACE(text);
    EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(text)), ElementsAre(kernel));
  }
  EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
}

/// By day in the shader for few queries, by night in each.
TEST(VulkanGroups, MasksOfAttentionBroadcast) {
  const auto backend = VulkanOver();
  std::vector<std::pair<int, std::string>> shaders = {{2, "vulkan:attention_row"}};
  if (std::getenv("INFER_BY_NIGHT"))
    shaders.insert(shaders.end(), {{9, "vulkan:attention32"}, {40, "vulkan:attention64"}});
  size_t form = 0;
  for (const auto& [queries, kernel] : shaders)
    for (std::string_view lead : {"", "1,1,1,", "2,1,1,", "2,3,1,", "1,3,Q,", "2,3,Q,", "Q,"}) {
      std::string extents = Cat(lead, "77");
      if (const size_t at = extents.find('Q'); at != std::string::npos)
        extents.replace(at, 1, Cat(queries));
      for (std::string_view between :
           {"w = Mul(s, c) z = Add(w, m)", "w = Mul(s, c) z = Where(m, w, h)",
            "w = Mul(s, c) z = Where(m, h, w)"}) {
        if (IsLeftToRelease(form++, 3)) continue;
        const bool added = between.find("Add") != std::string_view::npos;
        const std::string text =
            Spelled(queries, 77, 20, between, Cat(", m: ", added ? "f32[" : "bool[", extents, "]"));
        SCOPED_TRACE(text);
        EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(text)), ElementsAre(kernel));
      }
      if (IsLeftToRelease(form++, 3)) continue;
      const std::string both = Spelled(queries, 77, 20, "w = Add(m, s) z = Where(b, w, c)",
                                       Cat(", m: f32[", extents, "], b: bool[2,1,1,77]"));
      SCOPED_TRACE(both);
      EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(both)), ElementsAre(kernel));
    }
}

/// Attention with its surroundings as exporters write them: heads split and joined, one product for
/// queries, keys and values.
TEST(VulkanGroups, AttentionReadsAndWritesByStrides) {
  const auto backend = VulkanOver();
  const std::string packed =
      "graph g(x: f32[2,11,72], m: f32[2,1,1,11]) -> (y) { n = const i64[3] {24,24,24} "
      "q, k, v = Split(x, n) {axis=2} s = const i64[4] {2,11,3,8} qr = Reshape(q, s) "
      "kr = Reshape(k, s) vr = Reshape(v, s) qt = Transpose(qr) {perm=[0,2,1,3]} "
      "kt = Transpose(kr) {perm=[0,2,3,1]} vt = Transpose(vr) {perm=[0,2,1,3]} "
      "a = MatMul(qt, kt) b = Add(a, m) p = Softmax(b) {axis=-1} o = MatMul(p, vt) "
      "ot = Transpose(o) {perm=[0,2,1,3]} r = const i64[3] {2,11,24} y = Reshape(ot, r) }";
  EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(packed)), ElementsAre("vulkan:attention32"));
  const std::string columns =
      "graph g(q: f32[2,3,7,8], k: f32[3,20,8], v: f32[1,3,5,20]) -> (y) { "
      "kt = Transpose(k) {perm=[0,2,1]} vt = Transpose(v) {perm=[0,1,3,2]} a = MatMul(q, kt) "
      "p = Softmax(a) o = MatMul(p, vt) y = Transpose(o) {perm=[3,2,1,0]} }";
  EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(columns)), ElementsAre("vulkan:attention32"));
}

/// As on a GPU: 256 invocations for a tile, small tiles where large ones are too few.
TEST(VulkanGroups, AttentionInWideWorkgroups) {
  const std::string many = Spelled(70, 150, 70, "z = Add(s, m)", ", m: f32[70,150]");
  EXPECT_THAT(RunAndCompare(*VulkanOver({.busy_groups = 2}), ParsedGraph(many)),
              ElementsAre("vulkan:attention64w"));
  EXPECT_THAT(RunAndCompare(*VulkanOver({.busy_groups = 300}), ParsedGraph(many)),
              ElementsAre("vulkan:attention32w"));
  const auto causal = Operator(4, 70, 9, "is_causal=1");
  EXPECT_THAT(RunAndCompare(*VulkanOver({.busy_groups = 2}), ParsedGraph(causal)),
              ElementsAre("vulkan:attention64w"));
}

/// Extents that a run brings: one program, the shader that fits them.
TEST(VulkanGroups, AttentionOfOpenExtents) {
  const auto backend = VulkanOver();
  const Graph g = ParsedGraph(R"(graph g(q: f32[B,3,S,8], k: f32[B,3,8,T], v: f32[B,3,T,8],
      m: f32[B,1,1,T]) -> (y) { s = MatMul(q, k) z = Add(s, m) p = Softmax(z) y = MatMul(p, v) })");
  const auto program = *backend->Compile(g, {});
  Random random(9);
  size_t form = 0;
  for (const auto& [b, s, t, kernel] : {std::tuple(1, 1, 4, "vulkan:attention_row"),
                                        {2, 17, 70, "vulkan:attention32"},
                                        {3, 50, 5, "vulkan:attention64"}}) {
    if (IsLeftToRelease(form++, 2)) continue;
    std::vector<Datum> inputs;
    for (const Dims& dims :
         {Dims{b, 3, s, 8}, Dims{b, 3, 8, t}, Dims{b, 3, t, 8}, Dims{b, 1, 1, t}}) {
      Tensor x(DType::kF32, dims);
      for (int64_t i = 0; i < x.num_elements(); ++i) x.Set(i, random.Normal());
      inputs.emplace_back(std::move(x));
    }
    const auto want = Evaluate(g, inputs);
    ASSERT_TRUE(want.ok()) << want.status().message();
    const auto context = *program->NewContext();
    for (size_t i = 0; i < inputs.size(); ++i) ASSERT_TRUE(context->BindInput(i, inputs[i]).ok());
    ASSERT_TRUE(context->Run().ok());
    ExpectCloseTo(context->output(0).tensor(), (*want)[0].tensor(), kernel);
    ASSERT_EQ(context->step_kernels().size(), 1u);
    EXPECT_EQ(context->step_kernels()[0], kernel);
  }
}

/// The forms are those of tests/suites/group_attention_suite.cc; here, which shader runs, and that
/// lengths stay on the host: nothing but data crosses.
TEST(VulkanGroups, CachesOfGroupedHeadsStayOnTheDevice) {
  const auto backend = VulkanOver();
  size_t form = 0;
  for (const auto& [queries, kernel] : {std::pair(1, "vulkan:attention_row"),
                                        {6, "vulkan:attention32"},
                                        {40, "vulkan:attention64"}})
    for (std::string_view attrs : {"", ", do_rotary=1", ", local_window_size=3"}) {
      if (IsLeftToRelease(form++, 4)) continue;
      const std::string cache = "f32[2,2,60,16]";
      const Graph g = ParsedGraph(
          Cat("graph g(h: f32[2,", queries, ",24], pk: ", cache, ", pv: ", cache,
              ", l: i32[2], t: i32[]) -> (o, k2: ", cache, ", v2: ", cache,
              ") { w = const f32[24,128] ~3 c = const f32[80,8] ~1 s = const f32[80,8] ~2 "
              "v = const f32[64,24] ~4 x = MatMul(h, w) y, k2, v2 = com.microsoft::",
              "GroupQueryAttention(x, _, _, pk, pv, l, t",
              attrs.find("rotary") != std::string_view::npos ? ", c, s" : "",
              ") {num_heads=4, kv_num_heads=2", attrs, "} o = MatMul(y, v) }"));
      std::vector<Datum> inputs = InputsOf(g);
      inputs[3] = Tensor::Of<int32_t>({2}, {50, 44});
      inputs[4] = Tensor::Scalar<int32_t>(55);
      const auto want = Evaluate(g, inputs);
      ASSERT_TRUE(want.ok()) << want.status().message();
      int transfers = 0;
      const auto program = *backend->Compile(
          g, {.observe = [&](const PlanView& view) {
            if (view.name == "launches")
              transfers = static_cast<int>(
                  std::count_if(view.launches.begin(), view.launches.end(),
                                [](const PlanView::Launch& l) { return l.kind == "transfer"; }));
          }});
      // The hidden state comes and the result goes; caches lie on the device.
      EXPECT_EQ(transfers, 2);
      const auto context = *program->NewContext();
      const auto run = [&] {
        for (size_t i = 0; i < inputs.size(); ++i)
          if (const Status s = context->BindInput(i, inputs[i]); !s.ok()) return s;
        return context->Run();
      };
      ASSERT_TRUE(run().ok());
      for (size_t o = 0; o < want->size(); ++o)
        ExpectCloseTo(context->output(o).tensor(), (*want)[o].tensor(), kernel);
      ASSERT_EQ(context->step_kernels().size(), 3u);
      EXPECT_EQ(context->step_kernels()[1], kernel);
      // Lengths that do not fit are refused, and the next run works.
      inputs[3] = Tensor::Of<int32_t>({2}, {50, 99});
      EXPECT_EQ(run().code(), Code::kInvalidModel);
      inputs[3] = Tensor::Of<int32_t>({2}, {50, 44});
      EXPECT_TRUE(run().ok());
    }
  EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
}

/// Exporters write casts that change nothing.
TEST(VulkanGroups, CastsToTheTypeThatIsThereCrossNothing) {
  const auto backend = VulkanOver();
  const Graph g = ParsedGraph(
      "graph g(x: f32[9,40]) -> (y) { s = Softmax(x) c = Cast(s) {to=1} y = LogSoftmax(c) }");
  RunAndCompare(*backend, g);
  int64_t transfers = -1;
  const auto program = backend->Compile(
      g, {.observe = [&](const PlanView& view) {
        if (view.name == "launches")
          transfers = std::count_if(view.launches.begin(), view.launches.end(),
                                    [](const PlanView::Launch& l) { return l.kind == "transfer"; });
      }});
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(transfers, 2);
}

/// Long rows of keys up to what the loops of a driver on the CPU may take, and beyond.
TEST(VulkanGroups, AttentionOfManyKeys) {
  const auto backend = VulkanOver();
  const auto devices = *ListVulkanDevices();
  const bool limited = std::any_of(devices.begin(), devices.end(), [](const VulkanDeviceInfo& d) {
    return d.chosen && d.max_iterations > 0;
  });
  size_t form = 0;
  for (const auto& [queries, keys, fits] : {std::tuple(33, 3390, true),
                                            {33, 5000, true},
                                            {2, 9000, true},
                                            {33, 7000, false},
                                            {2, 20000, false}}) {
    if (IsLeftToRelease(form++, 2)) continue;
    const std::string text =
        Cat("graph g(q: f32[", queries, ",64], k: f32[64,", keys, "], v: f32[", keys,
            ",64]) -> (y) { s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) }");
    SCOPED_TRACE(text);
    const auto kernels = RunAndCompare(*backend, ParsedGraph(text));
    const bool one = kernels.size() == 1 && kernels[0].starts_with("vulkan:attention");
    EXPECT_EQ(one, fits || !limited) << Join(kernels, ", ");
  }
}

TEST(VulkanGroups, WhatIsNoAttentionRunsOperatorByOperator) {
  const auto backend = VulkanOver();
  const char* others[] = {
      // Probabilities are read elsewhere.
      R"(graph g(q: f32[3,7,8], k: f32[3,8,20], v: f32[3,20,5]) -> (y, p) { s = MatMul(q, k)
        p = Softmax(s) y = MatMul(p, v) })",
      // Over queries.
      R"(graph g(q: f32[3,7,8], k: f32[3,8,20], v: f32[3,20,5]) -> (y) { s = MatMul(q, k)
        p = Softmax(s) {axis=1} y = MatMul(p, v) })",
      // In codes.
      R"(graph g(q: f32[3,7,8], k: f32[3,8,20], v: f32[3,20,5]) -> (y) { e = const f32[] {0.004}
        s = MatMul(q, k) p = Softmax(s) i = QuantizeLinear(p, e) r = DequantizeLinear(i, e)
        y = MatMul(r, v) })"};
  for (const char* text : others) {
    SCOPED_TRACE(text);
    const auto kernels = RunAndCompare(*backend, ParsedGraph(text));
    EXPECT_THAT(kernels, Each(StartsWith("vulkan:")));
    EXPECT_THAT(kernels, Each(Not(HasSubstr("attention"))));
  }
  // At level 1 nothing rounds otherwise than operator by operator.
  const auto program =
      *backend->Compile(ParsedGraph(Spelled(9, 20, 20, "z = Mul(s, c)")), {.level = 1});
  EXPECT_EQ(program->steps().size(), 4u);
}

// ---- Chains ----------------------------------------------------------------------------------

std::string ChainOf(std::string_view operands, std::string_view body) {
  return Cat("graph g(x: f32[3,40,40]", operands, ") -> (y) { ", body, " }");
}

TEST(VulkanGroups, ChainsAreOneDispatch) {
  const auto backend = VulkanOver();
  const std::string chains[] = {
      ChainOf("", "a = Abs(x) y = Sqrt(a)"),
      ChainOf(", z: f32[3,40,40]", "a = Mul(x, z) y = Sub(a, x)"),
      // Operands that broadcast: over the last axis, over the others, one number.
      ChainOf(", z: f32[40]", "a = Tanh(x) y = Mul(a, z)"),
      ChainOf(", z: f32[40,1]", "a = Sub(x, z) y = Mul(a, a)"),
      ChainOf(", z: f32[3,1,40], w: f32[40,40], u: f32[]",
              "a = Add(x, z) b = Div(a, w) y = Max(b, u)"),
      ChainOf("", "c = const f32[] {2} a = Mul(c, x) b = Pow(a, c) y = Min(b, c)"),
      // Eight operators; values that several of them read.
      ChainOf(", z: f32[40]",
              "a = Sigmoid(x) b = Mul(a, x) c = Exp(a) d = Add(b, c) e = Sub(d, z) f = Mul(e, e) "
              "h = Add(f, a) y = Neg(h)"),
      // Parameters, also such that are zero and such that two share.
      ChainOf("",
              "a = HardSigmoid(x) {alpha=0.3, beta=0.2} b = Neg(a) y = ThresholdedRelu(b) "
              "{alpha=0.0}"),
      ChainOf("", "a = LeakyRelu(x) {alpha=0.3} b = Neg(a) y = LeakyRelu(b) {alpha=0.0}"),
      ChainOf("",
              "l = const f32[] {-0.5} u = const f32[] {0.7} a = LeakyRelu(x) {alpha=0.3} "
              "b = Clip(a, l, u) c = Elu(b) {alpha=0.3} y = Relu(c)"),
      // As exporters write it.
      ChainOf("",
              "s = const f32[] {1.41421} o = const f32[1] {1} h = const f32[] {0.5} "
              "a = Div(x, s) b = Erf(a) c = Add(b, o) d = Mul(x, c) y = Mul(d, h)"),
      // More elements than a workgroup has; five axes where nothing broadcasts.
      "graph g(x: f32[70001]) -> (y) { a = Abs(x) b = Neg(a) y = Exp(b) }",
      "graph g(x: f32[2,2,2,2,33], z: f32[2,2,2,2,33]) -> (y) { a = Add(x, z) y = Relu(a) }"};
  for (const std::string& text : chains) {
    SCOPED_TRACE(text);
    EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(text)), ElementsAre("vulkan:chain"));
  }
  EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
}

TEST(VulkanGroups, LongChainsAreCut) {
  const auto backend = VulkanOver();
  // Nine operators; five operands; eleven parameters.
  EXPECT_THAT(
      RunAndCompare(
          *backend,
          ParsedGraph(ChainOf(
              "",
              "a = Neg(x) b = Abs(a) c = Neg(b) d = Exp(c) e = Neg(d) f = Tanh(e) h = Abs(f) "
              "i = Sqrt(h) y = Neg(i)"))),
      ElementsAre("vulkan:chain", "vulkan:unary"));
  EXPECT_THAT(RunAndCompare(
                  *backend,
                  ParsedGraph(ChainOf(", b: f32[3,40,40], c: f32[40], d: f32[40], e: f32[40]",
                                      "p = Add(x, b) q = Add(p, c) r = Add(q, d) y = Mul(r, e)"))),
              ElementsAre("vulkan:chain", "vulkan:binary"));
  EXPECT_THAT(RunAndCompare(
                  *backend,
                  ParsedGraph(ChainOf(
                      "",
                      "k = const f32[] {3} a = LeakyRelu(x) {alpha=0.1} b = Neg(a) "
                      "c = LeakyRelu(b) {alpha=0.2} d = Elu(c) {alpha=0.3} e = Elu(d) {alpha=0.4} "
                      "f = Mul(e, k) y = Elu(f) {alpha=0.5}"))),
              ElementsAre("vulkan:chain", "vulkan:unary"));
}

TEST(VulkanGroups, WhatIsNoChainRunsOperatorByOperator) {
  const auto backend = VulkanOver();
  const std::string others[] = {
      // Other types than f32.
      "graph g(x: i32[3,40], z: i32[40]) -> (y) { a = Add(x, z) y = Mul(a, x) }",
      "graph g(x: f64[3,40], z: f64[40]) -> (y) { a = Add(x, z) y = Mul(a, x) }",
      "graph g(x: bool[3,40], z: bool[3,40]) -> (y) { a = And(x, z) y = Or(a, x) }",
      // A value inside is a result; it grows on the way; it broadcasts over more than four axes.
      "graph g(x: f32[3,40]) -> (y, a) { a = Abs(x) y = Sqrt(a) }",
      "graph g(x: f32[40], z: f32[3,40]) -> (y) { a = Abs(x) y = Add(a, z) }",
      "graph g(x: f32[2,2,2,2,33], z: f32[2,1,2,1,33]) -> (y) { a = Add(x, z) y = Relu(a) }"};
  for (const std::string& text : others) {
    SCOPED_TRACE(text);
    const auto kernels = RunAndCompare(*backend, ParsedGraph(text));
    EXPECT_EQ(kernels.size(), 2u);
    EXPECT_THAT(kernels, Each(Not(StartsWith("vulkan:chain"))));
  }
}

/// A chain with a tensor too large for a buffer goes to the CPU's kernel for chains.
TEST(VulkanGroups, AChainTooLargeForTheDeviceRunsOnTheHost) {
  const auto backend = VulkanOver({.max_buffer_bytes = 4000});
  const Graph g = ParsedGraph("graph g(x: f32[2000]) -> (y) { a = Abs(x) y = Sqrt(a) }");
  EXPECT_THAT(RunAndCompare(*backend, g), ElementsAre(StartsWith("own:chain")));
  const auto program = *backend->Compile(g, {});
  EXPECT_THAT(program->steps()[0].refusals, Contains(HasSubstr("a buffer of this device holds")));
}

/// Level 1 promises the bits of the operators one by one: no driver may join a product and a sum.
TEST(VulkanGroups, ChainsHaveTheBitsOfTheirOperators) {
  const auto backend = VulkanOver();
  const Graph g = ParsedGraph(R"(graph g(x: f32[70,40], z: f32[40], w: f32[70,40]) -> (y) {
      a = Mul(x, z) b = Add(a, w) c = Mul(b, b) d = Sub(c, x) e = Sigmoid(d) f = Mul(d, e)
      y = Add(f, w) })");
  const auto inputs = InputsOf(g);
  const auto chained = *backend->Compile(g, {.level = 1}),
             single = *backend->Compile(g, {.level = 0});
  EXPECT_EQ(chained->steps().size(), 1u);
  EXPECT_EQ(single->steps().size(), 7u);
  const auto got = RunOnce(*chained, inputs), want = RunOnce(*single, inputs);
  ASSERT_TRUE(got.ok() && want.ok());
  const Tensor &a = (*got)[0].tensor(), &b = (*want)[0].tensor();
  ASSERT_EQ(a.byte_size(), b.byte_size());
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.byte_size())), 0);
}

}  // namespace
}  // namespace infer
