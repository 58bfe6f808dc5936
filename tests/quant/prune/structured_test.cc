#include "quant/prune/structured.h"

#include <gmock/gmock.h>

#include <cmath>

#include "lib/ir/editor.h"
#include "quant/prune/channel_space.h"
#include "quant/prune/group_costs.h"
#include "quant/scheme/quantize.h"
#include "runtime/cpu/backend.h"
#include "tests/quant/prune/judged_test.h"

namespace infer {
namespace {

using testing::HasSubstr;

constexpr std::string_view kConvNet = R"(graph g(x: f32[1,3,4,4]) -> (z) {
  w1 = const f32[16,3,3,3] ~1
  y1 = Conv(x, w1) {pads = [1, 1, 1, 1]}
  r1 = Relu(y1)
  w2 = const f32[16,16,3,3] ~2
  y2 = Conv(r1, w2) {pads = [1, 1, 1, 1]}
  s = Add(y2, r1)
  r2 = Relu(s)
  w3 = const f32[24,16,1,1] ~3
  y3 = Conv(r2, w3)
  r3 = Relu(y3)
  p = GlobalAveragePool(r3)
  f = Flatten(p)
  w4 = const f32[24,12] ~4
  z = MatMul(f, w4)
})";

/// Two groups of about as many FLOPs: between convolutions, and between products.
constexpr std::string_view kTwoKinds = R"(graph g(x: f32[1,4,16,16]) -> (z) {
  w1 = const f32[16,4,1,1] ~1
  y1 = Conv(x, w1)
  r1 = Relu(y1)
  w2 = const f32[4,16,1,1] ~2
  y2 = Conv(r1, w2)
  f = Flatten(y2)
  w3 = const f32[1024,16] ~3
  h = MatMul(f, w3)
  r3 = Relu(h)
  w4 = const f32[16,16] ~4
  z = MatMul(r3, w4)
})";

class StructuredTest : public JudgedTest {
 protected:
  Result<ChannelReport> Prune(Graph& g, const ChannelOptions& o, int64_t samples = 24) {
    return PruneChannels(g, samples > 0 ? NormalSamples(g, samples, 1) : Samples(), *backend_, o);
  }
  static ChannelOptions Small() {
    ChannelOptions o;
    o.multiple = 4;  // widths of 16 and 24 have some to choose from
    return o;
  }
  static ChannelOptions Flops(double share) {
    ChannelOptions o = Small();
    o.goal = {ChannelGoal::Kind::kFlops, share};
    return o;
  }
};

TEST_F(StructuredTest, TheFlopGoalIsReachedAndCountedInTheFile) {
  for (const double share : {0.8, 0.5}) {
    Graph g = MustParse(kConvNet);
    const int64_t before = FlopsOf(g);
    const auto r = Prune(g, Flops(share));
    ASSERT_TRUE(r.ok()) << r.status().message();
    EXPECT_EQ(r->flops, before);
    EXPECT_EQ(r->flops_after, FlopsOf(g));
    EXPECT_LE(static_cast<double>(r->flops_after), share * static_cast<double>(before));
    EXPECT_GT(static_cast<double>(r->flops_after), (share - 0.3) * static_cast<double>(before));
    EXPECT_EQ(r->parameters_after, ConstantsOf(g).elements);
    for (const PrunedGroup& p : r->groups) {
      if (p.removed > 0) {
        EXPECT_EQ(p.width_after % 4, 0) << p.group.name;
      }
      if (p.group.name != "y3") continue;
      EXPECT_EQ(g.FindValue("y3")->shape()[1], Dim(p.width_after));
    }
  }
}

// Fewer channels may run no faster, where they lose a better kernel or a launch is all that a layer
// takes.
TEST_F(StructuredTest, AGoalOfTimeKnowsWidthsThatSaveNone) {
  const auto cpu = MakeCpuBackend();  // the reference has one kind of kernel
  const Graph g = MustParse(kTwoKinds);
  const auto saves = [&](std::string_view dear) {
    CostTable costs{"test", {}};
    for (const std::string_view family : CostFamilies())
      costs.prices[std::string(family)] = {1, family.find(dear) != family.npos ? 1e6 : 0, 0};
    ChannelOptions o = Small();
    o.goal.kind = ChannelGoal::Kind::kSpeedup;
    o.costs = &costs;
    const auto space = ChannelSpace::Make(g, NormalSamples(g, 4, 1), *cpu, o);
    EXPECT_TRUE(space.ok()) << space.status().message();
    std::map<std::string, std::vector<bool>> by_group;
    for (size_t k = 0; k < space->usable.size(); ++k)
      by_group[space->groups[space->usable[k]].group.name] = space->saves_time[k];
    return by_group;
  };
  using testing::Each;
  auto by_conv = saves("conv"), by_product = saves("product");
  EXPECT_THAT(by_conv["y1"], Each(true));
  EXPECT_THAT(by_conv["h"], Each(false));
  EXPECT_THAT(by_product["y1"], Each(false));
  EXPECT_THAT(by_product["h"], Each(true));
}

TEST_F(StructuredTest, FittedLayersAreNearerThanMagnitude) {
  const Graph golden = MustParse(kConvNet);
  Graph by_data = golden.Clone(), by_magnitude = golden.Clone();
  ASSERT_TRUE(Prune(by_data, Flops(0.7), 64).ok());
  const auto r = Prune(by_magnitude, Flops(0.7), 0);
  ASSERT_TRUE(r.ok());
  EXPECT_FALSE(r->by_data);
  EXPECT_GT(Decibels(golden, by_data), Decibels(golden, by_magnitude) + 3);
}

TEST_F(StructuredTest, ChannelsThatNobodyReadsGoForNothing) {
  Graph g = MustParse(kConvNet);
  // Half of the channels of y3 have no weights in what reads them.
  Tensor w4 = g.FindValue("w4")->constant()->Clone();
  for (int64_t i = 0; i < w4.num_elements(); ++i)
    if (i / 12 % 2 == 1) w4.Set(i, 0);
  GraphEditor(g).SetConstant(g.FindValue("w4"), std::move(w4));
  const Graph golden = g.Clone();
  for (const int64_t samples : {0, 24}) {
    Graph pruned = golden.Clone();
    ChannelOptions o = Flops(0.95);
    const auto r = Prune(pruned, o, samples);
    ASSERT_TRUE(r.ok()) << r.status().message();
    const auto& y3 = *std::find_if(r->groups.begin(), r->groups.end(),
                                   [](const PrunedGroup& p) { return p.group.name == "y3"; });
    EXPECT_GT(y3.removed, 0);
    EXPECT_EQ(r->groups.size(), 3u);
    EXPECT_GT(Decibels(golden, pruned), 90);
  }
}

/// An LSTM shrinks with its inputs, but not to nothing: what groups are said to save is a model of
/// it, and what the smallest widths leave is told of the graph.
TEST_F(StructuredTest, TheShareThatIsToldIsReached) {
  const Graph golden = MustParse(R"(graph g(x: f32[5,2,6]) -> (y) {
    w1 = const f32[6,32] ~1  h = MatMul(x, w1)  r = Relu(h)
    w = const f32[1,32,32] ~2  k = const f32[1,32,8] ~3
    y = LSTM(r, w, k) {hidden_size=8} })");
  Graph g = golden.Clone();
  const std::string told(Prune(g, Flops(0.001), 0).status().message());
  EXPECT_THAT(told, HasSubstr("the goal is 0.1 %"));
  const std::string before = "smallest widths leave ";
  ASSERT_THAT(told, HasSubstr(before));
  const double least = std::stod(told.substr(told.find(before) + before.size())) / 100 + 0.001;
  const auto r = Prune(g, Flops(least), 0);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_LE(static_cast<double>(r->flops_after), least * static_cast<double>(r->flops));
  g = golden.Clone();
  EXPECT_THAT(Prune(g, Flops(least - 0.002), 0).status().message(),
              HasSubstr("smallest widths leave"));
}

TEST_F(StructuredTest, SizeAndSpeedAreGoals) {
  const Graph golden = MustParse(kConvNet);
  const auto bytes = static_cast<double>(ConstantsOf(golden).bytes);
  Graph g = golden.Clone();
  ChannelOptions o = Small();
  o.goal = {ChannelGoal::Kind::kBytes, 0.6 * bytes};
  ASSERT_TRUE(Prune(g, o, 0).ok());
  EXPECT_LE(static_cast<double>(ConstantsOf(g).bytes), 0.6 * bytes);

  g = golden.Clone();
  o.goal = {ChannelGoal::Kind::kSpeedup, 1.5};
  o.speedup = [](const Graph& dense, const Graph& pruned) -> Result<double> {
    return static_cast<double>(FlopsOf(dense)) / static_cast<double>(FlopsOf(pruned));
  };
  const auto r = Prune(g, o, 0);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_GE(r->speedup, 1.5);
  EXPECT_LT(r->speedup, 2.5);

  // Widths that are slow: the search does not go past the largest share that is fast enough.
  o.speedup = [](const Graph& dense, const Graph& pruned) -> Result<double> {
    const auto times = static_cast<double>(FlopsOf(dense)) / static_cast<double>(FlopsOf(pruned));
    return times > 2.2 && times < 3.3 ? 1.2 : std::pow(times, 0.8);
  };
  g = golden.Clone();
  const auto past = Prune(g, o, 0);
  ASSERT_TRUE(past.ok()) << past.status().message();
  EXPECT_GE(past->speedup, 1.5);
  EXPECT_LT(past->speedup, 2);

  o.speedup = [](const Graph&, const Graph&) -> Result<double> { return 1.0; };
  g = golden.Clone();
  EXPECT_THAT(Prune(g, o, 0).status().message(), HasSubstr("out of reach"));
  EXPECT_EQ(Fingerprint(g), Fingerprint(golden));
}

TEST_F(StructuredTest, TheDropIsAGoal) {
  Graph g = MustParse(kConvNet);
  ChannelOptions o = Small();
  o.goal = {ChannelGoal::Kind::kDrop, 0.1};
  const auto r = Prune(g, o, 16);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_GE(r->drop, 0);
  EXPECT_LE(r->drop, 0.1);
  EXPECT_LT(r->flops_after, r->flops);
  EXPECT_EQ(r->flops_after, FlopsOf(g));
}

TEST_F(StructuredTest, ThenItCanBeQuantized) {
  Graph g = MustParse(kConvNet);
  ASSERT_TRUE(Prune(g, Flops(0.6)).ok());
  const Graph pruned = g.Clone();
  const auto q = QuantizeStatic(g, NormalSamples(g, 16, 3), *backend_);
  ASSERT_TRUE(q.ok()) << q.status().message();
  EXPECT_GE(q->integer_layers, 4);
  EXPECT_GT(Decibels(pruned, g), 20);
  EXPECT_THAT(Prune(g, Flops(0.6)).status().message(), HasSubstr("quantized already"));
}

TEST_F(StructuredTest, SharedWeightsCountOnce) {
  Graph g = MustParse(R"(graph g(x: f32[4,6]) -> (y) {
    w = const f32[6,16] ~1
    a = MatMul(x, w)
    n = Neg(x)
    b = MatMul(n, w)
    r = Relu(a)
    t = Relu(b)
    s = Add(r, t)
    v = const f32[16,3] ~2
    y = MatMul(s, v)
  })");
  const auto r = Prune(g, Flops(0.6));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->parameters, 6 * 16 + 16 * 3);
  const PrunedGroup& p = r->groups.front();
  EXPECT_EQ(p.parameters, r->parameters);
  EXPECT_EQ(p.parameters_after, r->parameters_after);
  EXPECT_EQ(g.FindValue("w")->shape()[1], Dim(p.width_after));
}

/// As exporters write layers with the same initial values: that is no reason to keep both whole.
TEST_F(StructuredTest, EqualVectorsTieNoLayers) {
  Graph g = MustParse(R"(graph g(x: f32[1,3,4,4]) -> (y) {
    s = const f32[16] ~5
    b = const f32[16] ~6
    w1 = const f32[16,3,1,1] ~1
    y1 = Conv(x, w1, b)
    n1 = InstanceNormalization(y1, s, b)
    r1 = Relu(n1)
    w2 = const f32[16,16,1,1] ~2
    y2 = Conv(r1, w2, b)
    y = InstanceNormalization(y2, s, b)
  })");
  const auto r = Prune(g, Flops(0.7));
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_EQ(r->groups.size(), 2u);
  EXPECT_GE(r->groups[0].removed, 4);
  EXPECT_EQ(r->groups[1].removed, 0);
  EXPECT_THAT(r->groups[1].group.reason, HasSubstr("output of the graph"));
}

TEST_F(StructuredTest, RefusesWithOneLine) {
  const Graph golden = MustParse(kConvNet);
  struct Case {
    ChannelGoal goal;
    const char* said;
  };
  for (const Case& c : {Case{{ChannelGoal::Kind::kFlops, 1.0}, "above 0 and below 100 %"},
                        Case{{ChannelGoal::Kind::kFlops, 0.0}, "above 0 and below 100 %"},
                        Case{{ChannelGoal::Kind::kFlops, 0.001}, "smallest widths leave"},
                        Case{{ChannelGoal::Kind::kBytes, 0}, "above 0"},
                        Case{{ChannelGoal::Kind::kBytes, 1e9}, "no more than the goal"},
                        Case{{ChannelGoal::Kind::kSpeedup, 0.9}, "above 1"},
                        Case{{ChannelGoal::Kind::kSpeedup, 2}, "nothing measures"},
                        Case{{ChannelGoal::Kind::kDrop, 0.01}, "at least 8 samples"}}) {
    Graph g = golden.Clone();
    ChannelOptions o = Small();
    o.goal = c.goal;
    const auto r = Prune(g, o, c.goal.kind == ChannelGoal::Kind::kDrop ? 4 : 0);
    ASSERT_FALSE(r.ok());
    EXPECT_THAT(r.status().message(), HasSubstr(c.said));
    EXPECT_EQ(Fingerprint(g), Fingerprint(golden));
  }
  Graph moves = MustParse("graph g(x: i64[2,3]) -> (y) { y = Transpose(x) {perm=[1,0]} }");
  EXPECT_EQ(Prune(moves, Flops(0.7), 0).status().code(), Code::kUnsupported);
  Graph open = MustParse(R"(graph g(x: f32[N,S,6]) -> (y) {
    w = const f32[6,16] ~1 a = MatMul(x, w) v = const f32[16,3] ~2 y = MatMul(a, v) })");
  EXPECT_THAT(Prune(open, Flops(0.5), 0).status().message(), HasSubstr("input 'x' is [N,S,6]"));
  ChannelOptions o = Flops(0.5);
  o.extents["x"] = {2, 4, 6};
  EXPECT_TRUE(Prune(open, o, 0).ok());
  EXPECT_EQ(open.FindValue("x")->shape().ToString(), "[N,S,6]");
  Graph none = MustParse("graph g(x: f32[2,6]) -> (y) { w = const f32[6,16] ~1 y = MatMul(x, w) }");
  EXPECT_THAT(Prune(none, Flops(0.5), 0).status().message(), HasSubstr("an output of the graph"));
}

/// The first state of a network of states (Mamba): zeros, as many as there are samples and
/// channels.
TEST_F(StructuredTest, StatesAsLongAsTheChannelsAreCut) {
  Graph g = MustParse(R"(graph g(x: f32[N,6]) -> (y) { w = const f32[6,32] ~1 a = MatMul(x, w)
    sh = Shape(x) z = const i64[1] {0} n = Gather(sh, z) c = const i64[1] {32}
    to = Concat(n, c) {axis=0} s = ConstantOfShape(to) {value=const f32[1] {2}} b = Mul(a, s)
    r = Relu(b) v = const f32[32,3] ~2 y = MatMul(r, v) })");
  ChannelOptions o = Flops(0.6);
  o.extents["x"] = {4, 6};
  const auto r = Prune(g, o, 0);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_GT(r->groups[0].removed, 0);
  ASSERT_TRUE(g.FindValue("s"));
  EXPECT_TRUE(g.FindValue("s")->shape()[1].KnownEqual(r->groups[0].width_after));
}

TEST_F(StructuredTest, TellsWhyOfEveryGroupWhereNoneCanBeNarrowed) {
  Graph two = MustParse(R"(graph g(x: f32[2,6]) -> (y, z) { w = const f32[6,16] ~1 y = MatMul(x, w)
    v = const f32[6,16] ~2 m = MatMul(x, v) z = Softmax(m) })");
  EXPECT_THAT(Prune(two, Flops(0.5), 0).status().message(),
              testing::AllOf(HasSubstr("'y' is an output of the graph"), HasSubstr("Softmax")));
}

/// The share that stays is the same for every batch.
TEST_F(StructuredTest, AnOpenBatchNeedsNoExtent) {
  Graph g = MustParse(R"(graph g(x: f32[N,6], z: f32[M,16]) -> (y, u) {
    w = const f32[6,16] ~1 a = MatMul(x, w) v = const f32[16,3] ~2 y = MatMul(a, v)
    u = Relu(z) })");
  const auto r = Prune(g, Flops(0.5), 0);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_LE(2 * r->flops_after, r->flops);
  EXPECT_EQ(g.FindValue("x")->shape().ToString(), "[N,6]");
}

TEST_F(StructuredTest, ExcludedWeightsKeepTheirChannels) {
  Graph g = MustParse(kConvNet);
  ChannelOptions o = Flops(0.8);
  o.scope.exclude.push_back(ParseNodePattern("z"));
  const auto r = Prune(g, o);
  ASSERT_TRUE(r.ok()) << r.status().message();
  const auto& y3 = *std::find_if(r->groups.begin(), r->groups.end(),
                                 [](const PrunedGroup& p) { return p.group.name == "y3"; });
  EXPECT_EQ(y3.removed, 0);
  EXPECT_THAT(y3.group.reason, HasSubstr("excluded by"));
}

/// The sweep's error is that of the best weights for the columns that are left.
TEST(UnitSweepTest, ErrorsAreThoseOfTheBestFit) {
  const int64_t d = 6, rows = 4, n = 200;
  Random random(3);
  MomentsPair moments;
  moments.fit.resize(1);
  moments.held_out.resize(1);
  for (auto* m : {&moments.fit[0], &moments.held_out[0]}) {
    m->h.resize(d * d);
    m->c.resize(d * rows);
    m->squares.resize(d);
    m->sum_x.resize(d);
    m->sum_y.resize(rows);
  }
  LayerMoments& m = moments.fit[0];
  m.rows = n;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> x(d);
    for (double& v : x) v = random.Normal();
    x[5] = x[0] + x[1];  // a unit that others can stand for
    for (int64_t a = 0; a < d; ++a)
      for (int64_t b = 0; b < d; ++b)
        m.h[static_cast<size_t>(a * d + b)] +=
            static_cast<float>(x[static_cast<size_t>(a)] * x[static_cast<size_t>(b)]);
  }
  std::vector<float> w(rows * d);
  for (float& v : w) v = static_cast<float>(random.Normal());
  GroupReader reader;
  reader.plane = {1, rows, d, 1};
  reader.dense = w;
  reader.unit_of_column = {0, 1, 2, 3, 4, 5};
  reader.moments = &moments;
  const std::vector<GroupReader> readers = {reader};
  ChannelGroup group;
  for (int64_t u = 0; u < d; ++u) group.units.push_back({{{"w", 1}, {u}}});
  UnitSweep sweep(readers, d, UnitLimits(group));
  sweep.RemoveUntil(d);
  ASSERT_EQ(sweep.order().size(), 5u);  // one stays
  // x0, x1 and x5 stand for each other: one of them goes first, nearly for nothing.
  EXPECT_THAT((std::vector<int64_t>{0, 1, 5}), testing::Contains(sweep.order()[0]));
  EXPECT_LT(sweep.errors()[0], 0.02);
  for (size_t i = 1; i < sweep.errors().size(); ++i)
    EXPECT_GE(sweep.errors()[i], sweep.errors()[i - 1]);
  EXPECT_LE(sweep.errors().back(), 1.05);
  const PrunedMatrix left = sweep.Left(0);
  EXPECT_EQ(ZerosIn(left.keep), 5 * rows);
}

}  // namespace
}  // namespace infer
