#include "quant/recipe/choose_layers.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/recipe/recipe.h"
#include "runtime/cpu/backend.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

std::string Normals(int64_t n, uint64_t seed) {
  Random random(seed);
  std::string text;
  for (int64_t i = 0; i < n; ++i) text += Cat(i ? ", " : "", 0.1 * random.Normal());
  return text;
}

/// Two products with 1,024 weights each and scores of 32 classes.
Graph Classifier() {
  return MustParse(Cat(R"(
graph g(x: f32[1,32]) -> (y: f32[1,32]) {
  w = const f32[32,32] {)",
                       Normals(1024, 1), R"(}
  v = const f32[32,32] {)",
                       Normals(1024, 2), R"(}
  c = MatMul(x, w)
  r = Tanh(c)
  y = MatMul(r, v)
}
)"));
}

/// A launch costs so much on every kernel, and nothing else costs anything: with Q and DQ a model
/// has more of them.
CostTable OnlyLaunches(double us) {
  CostTable t{"launches", {}};
  for (const std::string_view family : CostFamilies()) t.prices.emplace(family, StepPrice{us});
  return t;
}

RecipeOptions Weighed(double launch_us) {
  RecipeOptions o;
  o.quantize.prepare = false;
  o.always_weigh = true;
  o.costs = OnlyLaunches(launch_us);
  return o;
}

const RecipeCandidate* Chosen(const RecipeReport& r) {
  for (const RecipeCandidate& c : r.candidates)
    if (c.chosen) return &c;
  return nullptr;
}

StepInfo Step(std::string op, std::string kernel, std::string precision) {
  StepInfo s;
  s.op = std::move(op);
  s.kernel = std::move(kernel);
  s.precision = std::move(precision);
  return s;
}

TEST(CostTable, FamiliesOfSteps) {
  const auto family = [](std::string op, std::string kernel, std::string precision) {
    const StepInfo s = Step(std::move(op), kernel, std::move(precision));
    return FamilyOf(s, s.kernel);
  };
  EXPECT_EQ(family("Conv+Relu", "own:winograd4x4:avx512", "f32"), "winograd");
  EXPECT_EQ(family("DequantizeLinear+DequantizeLinear+Conv+QuantizeLinear",
                   "onednn:brgconv_1x1:avx512_core_vnni", "u8s8s32"),
            "conv1x1 int8");
  EXPECT_EQ(family("Conv", "onednn:brdgmm_dw:avx512_core", "f32"), "depthwise f32");
  EXPECT_EQ(family("DequantizeLinear+Sigmoid+QuantizeLinear", "own:table", "u8"), "table");
  EXPECT_EQ(family("DequantizeLinear+DequantizeLinear+Add+QuantizeLinear", "own:avx512", "u8"),
            "elements int8");
  EXPECT_EQ(family("DequantizeLinear+GlobalAveragePool+QuantizeLinear", "own:avx512", "u8"),
            "pool int8");
  EXPECT_EQ(family("HardSigmoid+Mul+Conv", "own:gemm:avx512", "f32"), "conv1x1 f32");
  EXPECT_EQ(family("DequantizeLinear+DequantizeLinear+Conv+QuantizeLinear",
                   "onednn:jit:avx512_core_amx_int8", "u8s8s32"),
            "conv amx");
  EXPECT_EQ(family("Transpose", "own:strided:avx512", "f32"), "strided move");
  EXPECT_EQ(family("QuantizeLinear", "own:avx512", "f32"), "quantize");
  EXPECT_EQ(family("Add+QuantizeLinear", "own:chain:avx512", "f32"), "chain");
  EXPECT_EQ(family("MatMul+Add", "own:gemm:avx512", "f32"), "product f32");
  EXPECT_EQ(family("Reshape", "view", "f32"), "");
  EXPECT_EQ(family("Attention+Transpose", "own:attention:avx512", "f32"), "attention f32");
  EXPECT_EQ(family("DequantizeLinear+MatMul+Softmax+MatMul", "own:attention:avx2", "f32"),
            "attention int8");
  // Groups in parts: one on a reference kernel takes most of the time.
  EXPECT_EQ(family("Conv+Relu+Add", "onednn:jit:avx2 + own:avx2", "f32"), "conv f32");
  for (const std::string kernel :
       {"onednn:jit:avx2 + reference", "reference + own:avx2", "own:avx2 + reference + own:avx2"})
    EXPECT_EQ(family("Conv+Relu+Add", kernel, "f32"), "reference") << kernel;
  for (const std::string_view f : CostFamilies())
    for (const bool vnni : {false, true})
      EXPECT_TRUE(CostTable::Stored(vnni).prices.contains(f)) << f;
}

/// Additions, gates and pools between codes cost more than a look-up in a table, which they were
/// priced as: small INT8 networks looked twice as fast as they were.
TEST(CostTable, BytesThatAreComputedCostMoreThanLookUps) {
  const auto prices = CostTable::Stored(true).prices;
  const auto us = [&](std::string_view family) {
    const StepPrice& p = prices.find(family)->second;  // 50,000 elements, one operation each
    return p.launch_us + p.mflop_us * 0.05 + p.kb_us * 100;
  };
  EXPECT_GT(us("elements int8"), us("table"));
  EXPECT_GT(us("pool int8"), us("table"));
}

/// Where INT8 only adds launches, the result computes in FP32 with its weights in 8 bits.
TEST(ChooseLayers, WhatDoesNotPayComputesInFloat) {
  Graph g = Classifier();
  const Samples samples = NormalSamples(g, 40, 1);
  const auto r = QuantizeByRecipe(g, samples, *MakeReferenceBackend(), Weighed(1));
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_TRUE(Verify(g).ok());
  ASSERT_NE(Chosen(*r), nullptr);
  EXPECT_EQ(Chosen(*r)->name, "weights");
  EXPECT_EQ(r->candidates[0].name, "fp32");
  EXPECT_EQ(r->candidates[1].name, "fast");
  EXPECT_GT(r->candidates[1].cost.us, r->fused.us);
  for (const auto& n : g.nodes()) EXPECT_FALSE(n->Is("QuantizeLinear"));
  for (const QuantizedLayer& l : r->quantization.layers) {
    if (l.op == "MatMul") {
      EXPECT_EQ(l.precision, "int8-weights") << l.name;
    }
  }
  EXPECT_LT(r->cost.bytes, r->fused.bytes / 2);
}

/// A layer whose weights 8 bits destroy (the scale of each column is that of a row which meets
/// zeros only) keeps them in FP32; the others store theirs.
TEST(ChooseLayers, WeightsThatCostTooMuchStayFloat) {
  std::string mask = "0", rows;
  for (int i = 1; i < 32; ++i) mask += ", 1";
  for (int i = 0; i < 32; ++i) rows += "1000, ";
  Graph g = MustParse(Cat(R"(
graph g(x: f32[1,32]) -> (y: f32[1,32]) {
  m = const f32[32] {)",
                          mask, R"(}
  w = const f32[32,32] {)",
                          rows, Normals(992, 1), R"(}
  v = const f32[32,32] {)",
                          Normals(1024, 2), R"(}
  z = Mul(x, m)
  c = MatMul(z, w)
  r = Tanh(c)
  y = MatMul(r, v)
}
)"));
  RecipeOptions o = Weighed(1);
  o.target.db = 25;
  o.target.flips = 1;
  const auto r = QuantizeByRecipe(g, NormalSamples(g, 40, 1), *MakeReferenceBackend(), o);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_NE(Chosen(*r), nullptr);
  EXPECT_EQ(Chosen(*r)->name, "weights");
  EXPECT_TRUE(Chosen(*r)->holds);
  EXPECT_GT(Chosen(*r)->sqnr_db, 25);
  std::vector<std::string> precisions;
  for (const QuantizedLayer& l : r->quantization.layers)
    if (l.op == "MatMul") precisions.push_back(l.precision);
  EXPECT_THAT(precisions, testing::ElementsAre("f32", "int8-weights"));
}

/// Prices of ONNX Runtime's kernels: `floats` of those of f32, `codes` of those in integers, for an
/// operation and a launch, and of Q and DQ.
CostTable OfOrt(double floats, double codes) {
  CostTable t{"for the test", {}};
  t.runtime = CostsOf::kOnnxRuntime;
  for (const std::string_view family : CostFamilies(t.runtime)) {
    const double us = family.ends_with("f32") ? floats : codes;
    t.prices.emplace(family, StepPrice{us, us, 0});
  }
  return t;
}

/// A table of ONNX Runtime decides by the kernels that it launches, on every backend of ours.
TEST(ChooseLayers, TheReadersTableDecides) {
  for (const bool is_fast : {false, true}) {
    Graph g = Classifier();
    RecipeOptions o;
    o.quantize.prepare = false;
    o.target.db = 5;
    o.target.flips = 1;
    o.costs = is_fast ? OfOrt(10, 1) : OfOrt(1, 10);
    o.reader = {FindTarget("ort"), 13};
    const auto r = QuantizeByRecipe(g, NormalSamples(g, 40, 1), *MakeReferenceBackend(), o);
    ASSERT_TRUE(r.ok()) << r.status().message();
    EXPECT_TRUE(r->weighed);
    EXPECT_EQ(r->cost_table, "for the test");
    ASSERT_NE(Chosen(*r), nullptr);
    EXPECT_EQ(Chosen(*r)->name, is_fast ? "fast" : "weights");
    EXPECT_EQ(r->cost.us < r->fused.us, is_fast);
  }
}

/// A file that anyone may run gains nothing here where it loses in ONNX Runtime.
TEST(ChooseLayers, LossesElsewhereCountAgainstGains) {
  struct Case {
    double here, elsewhere;  // of INT8's kernels beside those of FP32
    std::string chosen;
  };
  for (const Case& c : {Case{0.5, 0.1, "fast"}, {0.5, 10, "weights"}, {0.01, 10, "weights"}}) {
    SCOPED_TRACE(Cat(c.here, " here, ", c.elsewhere, " elsewhere"));
    RecipeOptions o = Weighed(0);
    o.target.db = 5;
    o.target.flips = 1;
    o.costs.prices["product f32"].launch_us = 1;
    o.costs.prices["product int8"].launch_us = c.here;
    const CostTable elsewhere = OfOrt(1, c.elsewhere);
    const Samples samples = NormalSamples(Classifier(), 40, 1);
    Graph g = Classifier();
    const auto alone = QuantizeByRecipe(g, samples, *MakeCpuBackend(), o);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    EXPECT_EQ(alone->cost.elsewhere_us, 0);
    EXPECT_LT(alone->cost.us, alone->fused.us);
    o.elsewhere = &elsewhere;
    g = Classifier();
    const auto r = QuantizeByRecipe(g, samples, *MakeCpuBackend(), o);
    ASSERT_TRUE(r.ok()) << r.status().message();
    const std::string chosen = Chosen(*r) ? Chosen(*r)->name : "fast";
    EXPECT_EQ(chosen, c.chosen);
    EXPECT_TRUE(r->pays);
    if (chosen == "fast") {
      EXPECT_EQ(r->cost.elsewhere_us < r->fused.elsewhere_us, c.elsewhere < 1);
    }
  }
}

/// A product of two activations has no weights that would be smaller: it is INT8 only where that
/// takes less time, also where the whole model in INT8 is faster than in FP32.
TEST(ChooseLayers, ProductsOfActivationsAreIntegerWhereThatPays) {
  const Graph model = MustParse(Cat(R"(
graph g(x: f32[2,32]) -> (y: f32[2,2]) {
  w = const f32[32,32] {)",
                                    Normals(1024, 1), R"(}
  v = const f32[32,32] {)",
                                    Normals(1024, 2), R"(}
  q = MatMul(x, w)
  k = MatMul(x, v)
  t = Transpose(k) {perm=[1,0]}
  y = MatMul(q, t)
}
)"));
  for (const bool pays : {false, true}) {
    Graph g = model.Clone();
    RecipeOptions o;
    o.quantize.prepare = false;
    o.target.db = 5;
    o.target.flips = 1;
    o.costs = OfOrt(1, 1);
    // 2,048 products of weights, 128 of activations: what a launch costs more they do not spare.
    o.costs.prices["product f32"] = {1, 1e4, 0};
    o.costs.prices["product int8"] = {pays ? 1. : 5., 1, 0};
    o.reader = {FindTarget("ort"), 13};
    const auto r = QuantizeByRecipe(g, NormalSamples(g, 40, 1), *MakeReferenceBackend(), o);
    ASSERT_TRUE(r.ok()) << r.status().message();
    ASSERT_NE(Chosen(*r), nullptr);
    EXPECT_EQ(Chosen(*r)->name, pays ? "fast" : "weighted");
    EXPECT_EQ(Chosen(*r)->int8_layers, pays ? 3 : 2);
    EXPECT_LT(r->cost.us, r->fused.us);
  }
}

/// Twice as fast by a table that is off by more than that is not surely faster.
TEST(ChooseLayers, WhatTheTableErrsByIsLeftOut) {
  RecipeOptions o;
  o.quantize.prepare = false;
  o.target.db = 5;
  o.target.flips = 1;
  o.costs = OfOrt(10, 1);
  Graph g = Classifier();
  const Samples samples = NormalSamples(g, 40, 1);
  const auto sure = QuantizeByRecipe(g, samples, *MakeReferenceBackend(), o);
  ASSERT_TRUE(sure.ok()) << sure.status().message();
  ASSERT_EQ(Chosen(*sure)->name, "fast");
  o.costs.sure = 0.9 * sure->cost.us / sure->fused.us;
  g = Classifier();
  const auto r = QuantizeByRecipe(g, samples, *MakeReferenceBackend(), o);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(Chosen(*r)->name, "weights");
  EXPECT_TRUE(r->pays);
}

TEST(CostTable, OfOnnxRuntimeHasEveryFamily) {
  const CostTable& t = CostTable::OfOnnxRuntime();
  EXPECT_EQ(t.runtime, CostsOf::kOnnxRuntime);
  EXPECT_GT(t.sure, 0.5);
  EXPECT_LE(t.sure, 1);
  EXPECT_EQ(t.prices.size(), OrtFamilies().size());
  for (const std::string_view f : OrtFamilies()) {
    const auto p = t.prices.find(f);
    ASSERT_NE(p, t.prices.end()) << f;
    EXPECT_GT(p->second.launch_us + p->second.mflop_us + p->second.kb_us, 0) << f;
  }
}

/// Where time is no reason, every layer that the target bears is INT8.
TEST(ChooseLayers, WhatCostsNothingIsInt8) {
  Graph g = Classifier();
  RecipeOptions o = Weighed(0);
  o.target.db = 5;
  o.target.flips = 1;
  const auto r = QuantizeByRecipe(g, NormalSamples(g, 40, 1), *MakeReferenceBackend(), o);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_NE(Chosen(*r), nullptr);
  EXPECT_EQ(Chosen(*r)->name, "fast");
  EXPECT_EQ(Chosen(*r)->int8_layers, 2);
  EXPECT_EQ(r->basis, "SQNR");
}

/// The same data and table give the same bytes however long it takes, also when the work that is
/// allowed ends among the steps.
TEST(ChooseLayers, WorkIsNoClock) {
  RecipeOptions o = Weighed(1000);
  o.recipe = Recipe::kBest;
  o.max_seconds = 0.5;
  std::string first;
  double work = 0;
  for (int run = 0; run < 2; ++run) {
    Graph g = Classifier();
    o.on_step = [&](const std::string&) {
      if (run == 1) std::this_thread::sleep_for(std::chrono::milliseconds(80));
    };
    const auto r = QuantizeByRecipe(g, NormalSamples(g, 40, 1), *MakeReferenceBackend(), o);
    ASSERT_TRUE(r.ok()) << r.status().message();
    ASSERT_GT(r->work_seconds, o.max_seconds);
    if (run == 0) {
      first = Print(g);
      work = r->work_seconds;
      continue;
    }
    EXPECT_GT(r->seconds, 0.15);
    EXPECT_EQ(r->work_seconds, work);
    EXPECT_EQ(Print(g), first);
  }
}

/// With labels for enough rows, accuracy is what decides, and SQNR says nothing.
TEST(RecipeTarget, TheTaskBeforeDecibels) {
  const RecipeTarget target;
  HeldOutError e;
  e.sure_worst = 0.1;  // 10 dB
  e.flips = 0.1;
  e.rows = e.labelled = 100;
  e.lost = e.gained = 5;
  EXPECT_TRUE(target.Holds(e));
  EXPECT_EQ(target.Basis(e), "top-1 drop");
  e.drop = 0.02;
  e.drop_error = 0.004;
  EXPECT_FALSE(target.Holds(e));
  e.drop = 0;
  e.lost = 30;
  EXPECT_FALSE(target.Holds(e));  // counted, whatever was expected
  e.lost = 5;
  e.others_sure_worst = 0.1;
  EXPECT_FALSE(target.Holds(e));  // another output, of which labels tell nothing
  e.others_sure_worst = 0;
  e.labelled = 10;
  EXPECT_EQ(target.Basis(e), "SQNR");
  EXPECT_FALSE(target.Holds(e));
  e.probabilities = true;
  e.flips = 0.01;
  EXPECT_EQ(target.Basis(e), "same classes");
  EXPECT_TRUE(target.Holds(e));
}

/// Scores with a known normal error against labels that golden mostly gets right: what is expected
/// is what comes.
TEST(HeldOut, TheDropIsTheOneThatComes) {
  const Graph g = MustParse("graph g(x: f32[400,4]) -> (y: f32[400,4]) { y = Identity(x) }");
  Random random(3);
  std::string text;
  for (int i = 0; i < 1600; ++i) text += Cat(i ? ", " : "", 0.4 * random.Normal());
  const Graph h =
      MustParse(Cat("graph g(x: f32[400,4]) -> (y: f32[400,4]) { k = const f32[400,4] {", text,
                    "}\n y = Add(x, k) }"));
  Samples samples = NormalSamples(g, 8, 1);
  samples.labels = [&](int64_t i) -> Result<std::vector<int64_t>> {
    const std::vector<float> x = (*samples.get(i))[0].tensor().ToFloats();
    std::vector<int64_t> labels;
    for (size_t row = 0; row < 400; ++row) {
      const auto at = x.begin() + static_cast<std::ptrdiff_t>(4 * row);
      const auto best = std::max_element(at, at + 4) - at;
      labels.push_back(row % 8 == 0 ? (best + 1) % 4 : best);
    }
    return labels;
  };
  const auto backend = MakeReferenceBackend();
  const auto held = HeldOut::Make(g, samples, *backend, {});
  ASSERT_TRUE(held.ok());
  const auto same = held->Measure(g), other = held->Measure(h);
  ASSERT_TRUE(same.ok() && other.ok());
  EXPECT_EQ(same->labelled, 3200);
  EXPECT_EQ(same->lost + same->gained, 0);
  EXPECT_EQ(same->drop, 0);
  const double counted = static_cast<double>(other->lost - other->gained) / 3200;
  EXPECT_GT(counted, 0.05);
  EXPECT_NEAR(other->drop, counted, 0.35 * counted);
  EXPECT_GT(other->drop_error, 0);
}

TEST(ChooseLayers, ASmallGainOfTimeIsNotWorthTwiceTheBytes) {
  EXPECT_TRUE(EarnsItsBytes(0.5, 0.9)) << "smaller as well";
  EXPECT_TRUE(EarnsItsBytes(0.9, 1.1));
  EXPECT_TRUE(EarnsItsBytes(0.75, 1.6));
  EXPECT_FALSE(EarnsItsBytes(0.955, 2.2));
  EXPECT_FALSE(EarnsItsBytes(0.85, 3));
}

}  // namespace
}  // namespace infer
