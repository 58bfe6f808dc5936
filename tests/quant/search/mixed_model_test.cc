#include "quant/search/mixed_model.h"

#include <algorithm>
#include <cmath>

#include "lib/ir/verify.h"
#include "quant/recipe/held_out.h"
#include "tests/quant/search/search_bench.h"

namespace infer {
namespace {

using testing::HasSubstr;

TEST(MixedModel, UniformInt8IsWhatStaticQuantizationWrites) {
  const Bench bench(Net());
  const MixedModel m = bench.Model();
  EXPECT_EQ(m.layers().size(), 4u);
  const auto mixed = m.Apply(m.Uniform(Precision::kInt8));
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  Graph g = bench.golden.Clone();
  QuantizeOptions options;
  options.prepare = false;
  ASSERT_TRUE(QuantizeStatic(g, bench.samples, *bench.backend, options).ok());
  EXPECT_EQ(Print(mixed->graph), Print(g));
}

TEST(MixedModel, AppliesEveryPrecision) {
  const Bench bench(Net());
  const MixedModel m = bench.Model();
  const auto g = m.Apply({{"a", {Precision::kInt8, {}}},
                          {"b", {Precision::kInt8Weights, "why"}},
                          {"c", {Precision::kInt4Weights, {}}}});
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_TRUE(Verify(g->graph).ok());
  ASSERT_EQ(g->report.layers.size(), 6u);  // a with its Relu is one
  EXPECT_EQ(g->report.layers[0].precision, "int8");
  EXPECT_EQ(g->report.layers[1].precision, "int8-weights");
  EXPECT_EQ(g->report.layers[1].reason, "why");
  EXPECT_EQ(g->report.layers[3].precision, "int4-weights");
  EXPECT_EQ(g->report.layers[5].precision, "f32");
  EXPECT_EQ(g->report.integer_layers, 3);
  ExpectCounted(g->report);
  EXPECT_EQ(g->layer_bytes[0], 32 * 32 + 32 * 5);
  EXPECT_EQ(g->layer_bytes[1], 32 * 32 + 32 * 4);
  EXPECT_EQ(g->layer_bytes[2], 32 * 32 / 2 + 32 * 4);
  EXPECT_EQ(g->layer_bytes[3], 32 * 32 * 4);
}

TEST(MixedModel, CountsWhatIsOnlyStored) {
  const Graph g = MustParse(R"(graph g(i: i64[4]) -> (y) {
  t = const f32[32,64] ~1
  w = const f32[64,32] ~2
  e = Gather(t, i)
  y = MatMul(e, w)
})");
  const Samples samples = InMemory({{Tensor::Of<int64_t>({4}, {1, 2, 3, 4})}});
  QuantizeOptions options;
  options.prepare = false;
  const auto m = MixedModel::Make(g, samples, *MakeReferenceBackend(), options);
  ASSERT_TRUE(m.ok()) << m.status().message();
  const auto four = m->Apply(m->Uniform(Precision::kInt4Weights));
  ASSERT_TRUE(four.ok()) << four.status().message();
  EXPECT_EQ(four->report.integer_layers, 2);
  EXPECT_EQ(four->report.quantizable_layers, 2);
  ExpectCounted(four->report);
}

/// Of a table that is stored in fewer bits only the rows that are looked up become f32; two
/// Gathers share what is stored.
TEST(MixedModel, RowsOfATableAreLookedUpFirst) {
  const Graph g = MustParse(R"(graph g(i: i64[4], k: i64[]) -> (y) {
  t = const f32[32,64] ~1
  e = Gather(t, i)
  f = Gather(t, k)
  y = Add(e, f)
})");
  const Samples samples = InMemory({{Tensor::Of<int64_t>({4}, {1, 2, 3, -4}),
                                     Tensor::Of<int64_t>({}, std::vector<int64_t>{5})}});
  QuantizeOptions options;
  options.prepare = false;
  const auto m = MixedModel::Make(g, samples, *MakeReferenceBackend(), options);
  ASSERT_TRUE(m.ok()) << m.status().message();
  ASSERT_EQ(m->layers().size(), 2u);
  const auto backend = MakeReferenceBackend();
  const auto held = HeldOut::Make(g, samples, *backend, {});
  ASSERT_TRUE(held.ok()) << held.status().message();
  struct Case {
    Precision precision;
    DType stored;
    int64_t bytes;
    double decibels;
  };
  for (const Case& c : {Case{Precision::kInt8Weights, DType::kI8, 32 * 64 + 32 * 4, 40},
                        {Precision::kF16Weights, DType::kF16, 32 * 64 * 2, 60}}) {
    SCOPED_TRACE(Name(c.precision));
    const auto applied = m->Apply(m->Uniform(c.precision));
    ASSERT_TRUE(applied.ok()) << applied.status().message();
    EXPECT_TRUE(Verify(applied->graph).ok());
    EXPECT_EQ(applied->layer_bytes[0], c.bytes);
    EXPECT_EQ(applied->report.weight_bytes_after, c.bytes);
    int tables = 0;
    for (const auto& n : applied->graph.nodes()) {
      EXPECT_FALSE(n->Is("DequantizeLinear"));
      if (!n->Is("Gather")) {
        EXPECT_TRUE(!n->input(0)->is_constant()) << "all of a table is computed";
      } else {
        tables += n->input(0)->dtype() == c.stored;
      }
    }
    EXPECT_EQ(tables, 2);
    const auto error = held->Measure(applied->graph);
    ASSERT_TRUE(error.ok()) << error.status().message();
    EXPECT_GT(Decibels(error->worst), c.decibels);
    EXPECT_LT(Decibels(error->worst), 100);
  }
}

/// Arithmetic on extents, which is no layer and has no row of the report, stands before two.
TEST(MixedModel, FindsTheRowsOfLayersBehindArithmetic) {
  const Graph g = MustParse(R"(graph g(x: f32[4,32]) -> (y) {
  s = Shape(x)
  one = const i64[1] {1}
  t = Mul(s, one)
  r = Reshape(x, t)
  w = const f32[32,32] ~1
  a = MatMul(r, w)
  v = const f32[32,32] ~2
  y = MatMul(a, v)
})");
  const Samples samples = NormalSamples(g, 4, 1);
  QuantizeOptions options;
  options.prepare = false;
  const auto m = MixedModel::Make(g, samples, *MakeReferenceBackend(), options);
  ASSERT_TRUE(m.ok()) << m.status().message();
  ASSERT_EQ(m->layers().size(), 2u);
  const auto applied = m->Apply(m->Uniform(Precision::kInt8Weights));
  ASSERT_TRUE(applied.ok()) << applied.status().message();
  int weights = 0;
  for (const QuantizedLayer& l : applied->report.layers) {
    EXPECT_NE(l.op, "Shape");
    EXPECT_EQ(l.precision == "int8-weights", l.op == "MatMul") << l.name;
    weights += l.precision == "int8-weights";
  }
  EXPECT_EQ(weights, 2);
}

TEST(MixedModel, MatMulNBitsTakesThePlaceOfAProduct) {
  const Bench bench(Net());
  const MixedModel m = bench.Model();
  const auto g = m.Apply({{"b", {Precision::kInt4NBits, {}}}, {"y", {Precision::kInt8NBits, {}}}});
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_TRUE(Verify(g->graph).ok());
  for (const char* name : {"b", "y"}) {
    const Value* v = g->graph.FindValue(name);
    ASSERT_TRUE(v && v->producer()) << name;
    EXPECT_TRUE(v->producer()->Is("MatMulNBits", "com.microsoft")) << name;
  }
  EXPECT_EQ(g->layer_bytes[1], 32 * 64 / 2 + 32 * 4);  // rows are padded to a block of 64
  EXPECT_EQ(g->layer_bytes[3], 32 * 64 + 32 * 4);
  auto judge = Judge::Make(bench.golden, bench.samples, 12, *bench.backend, 1, {});
  ASSERT_TRUE(judge.ok());
  const auto four = m.Apply({{"b", {Precision::kInt4NBits, {}}}});
  const auto eight = m.Apply({{"b", {Precision::kInt8NBits, {}}}});
  const auto coarse = judge->Of(four->graph.Clone()), fine = judge->Of(eight->graph.Clone());
  ASSERT_TRUE(coarse.ok() && fine.ok());
  EXPECT_GT(coarse->sqnr_db(), 12);
  EXPECT_GT(fine->sqnr_db(), 35);
}

TEST(MixedModel, RoundsByData) {
  const Bench bench(Net(1));
  QuantizeOptions options;
  options.prepare = false;
  MixedOptions plain;
  plain.data_depth = 0;
  double noise[2];
  for (const bool by_data : {false, true}) {
    const auto m = MixedModel::Make(bench.golden, bench.samples, *bench.backend, options,
                                    by_data ? MixedOptions() : plain);
    ASSERT_TRUE(m.ok()) << m.status().message();
    auto judge = Judge::Make(bench.golden, bench.samples, 12, *bench.backend, 1, {});
    auto g = m->Apply(m->Uniform(Precision::kInt4Weights));
    ASSERT_TRUE(judge.ok() && g.ok());
    const auto score = judge->Of(std::move(g->graph));
    ASSERT_TRUE(score.ok());
    noise[by_data] = score->noise;
  }
  EXPECT_LT(noise[1], 0.8 * noise[0]);
}

TEST(MixedModel, F16WeightsAreHalfAsLarge) {
  const Bench bench(Net());
  const MixedModel m = bench.Model();
  const auto g = m.Apply({{"b", {Precision::kF16Weights, {}}}});
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_EQ(g->layer_bytes[1], 32 * 32 * 2);
  auto judge = Judge::Make(bench.golden, bench.samples, 12, *bench.backend, 1, {});
  const auto score = judge->Of(g->graph.Clone());
  ASSERT_TRUE(score.ok());
  EXPECT_GT(score->sqnr_db(), 60);
}

TEST(MixedModel, RefusesWhatCannotBe) {
  const Bench bench(Net());
  const MixedModel m = bench.Model();
  EXPECT_THAT(m.Apply({{"nobody", {Precision::kInt8, {}}}}).status().message(),
              HasSubstr("no layer 'nobody'"));
}

TEST(MixedModel, RoundsByWhatThereIsTimeFor) {
  const Bench bench(Net(1));
  QuantizeOptions options;
  options.prepare = false;
  MixedOptions late, early, as_before;
  late.data_until = late.squares_until = Instant::min();
  early.data_until = Instant::min();
  as_before.rounded = RoundedLayers{1, 3, 12};
  const auto methods = [&](const MixedOptions& mixed) {
    const auto m = MixedModel::Make(bench.golden, bench.samples, *bench.backend, options, mixed);
    EXPECT_TRUE(m.ok()) << m.status().message();
    const auto g = m->Apply(m->Uniform(Precision::kInt4Weights));
    std::vector<std::string> found;
    for (const QuantizedLayer& l : g->report.layers)
      if (!l.method.empty()) found.push_back(l.method);
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(methods(late), ElementsAre("nearest", "nearest", "nearest", "nearest"));
  EXPECT_THAT(methods(early), ElementsAre("mse", "mse", "mse", "mse"));
  const auto mixed = methods(as_before);
  ASSERT_EQ(mixed.size(), 4u);
  EXPECT_NE(mixed[0], "mse");
  EXPECT_NE(mixed[0], "nearest");
  EXPECT_EQ(std::vector(mixed.begin() + 1, mixed.end()),
            (std::vector<std::string>{"mse", "mse", "nearest"}));
}

TEST(MixedModel, RoundsByAsManySamplesAsThereIsTimeFor) {
  const Bench bench(Net());
  const Samples many = NormalSamples(bench.golden, 40, 7);
  const auto samples = [&](const MixedOptions& mixed) {
    const auto m = MixedModel::Make(bench.golden, many, *bench.backend, {}, mixed);
    EXPECT_TRUE(m.ok()) << m.status().message();
    return m->rounded_layers().samples;
  };
  MixedOptions all, late, as_before, few;
  late.data_until = Instant::min();
  as_before.rounded = RoundedLayers{1, 3, 20};
  few.data_samples = 8;
  few.data_until = Instant::min();
  EXPECT_EQ(samples(all), 40);
  EXPECT_EQ(samples(late), MixedOptions::kLeastDataSamples);
  EXPECT_EQ(samples(as_before), 20);
  EXPECT_EQ(samples(few), 8);
}

}  // namespace
}  // namespace infer
