#include "quant/accuracy/layer_map.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/accuracy/isolate.h"
#include "quant/accuracy/minimal_set.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kMappedGolden = R"(graph g(x: f32[2,3]) -> (y: f32[2,3], s: f32[2,3]) {
  two = const f32[1] {2}
  a = Mul(x, two)
  b = Relu(a)
  c = Neg(b)
  d = Exp(x)
  y = Add(c, d)
  s = Sub(c, b)
})";
/// a is within the step that makes b, which doubles by adding; c is the same; d is wrong.
constexpr std::string_view kMappedCandidate =
    R"(graph g(x: f32[2,3]) -> (y: f32[2,3], s: f32[2,3]) {
  d0 = Exp(x)
  half = const f32[1] {0.5}
  d = Mul(d0, half)
  twice = Add(x, x)
  b = Relu(twice)
  c = Neg(b)
  y = Add(c, d)
  s = Sub(c, b)
})";

std::vector<std::string> Names(const LayerMap& map) {
  std::vector<std::string> names;
  for (const MappedLayer& l : map.layers()) names.push_back(l.name());
  return names;
}

size_t IndexOf(const LayerMap& map, std::string_view name) {
  size_t i = 0;
  while (map.layers()[i].name() != name) ++i;
  return i;
}

std::vector<Datum> RunGraphOn(const Graph& g, const Samples& samples) {
  const auto backend = MakeReferenceBackend();
  const auto run = RunsOf(g, *backend, 0, 1, {});
  EXPECT_TRUE(run.ok()) << run.status().message();
  const auto out = (*run)(0, *samples.get(0));
  EXPECT_TRUE(out.ok()) << out.status().message();
  return *out;
}

TEST(LayerMap, LayersBetweenSharedValues) {
  const Graph golden = MustParse(kMappedGolden), candidate = MustParse(kMappedCandidate);
  const auto map = LayerMap::Of(golden, candidate);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_THAT(Names(*map), testing::UnorderedElementsAre("b", "c", "d", "y", "s"));
  EXPECT_THAT(map->Changed(),
              testing::UnorderedElementsAre(IndexOf(*map, "b"), IndexOf(*map, "d")));
  const size_t b = IndexOf(*map, "b");
  EXPECT_EQ(map->OpsOf(b, Side::kGolden), "Mul+Relu");
  EXPECT_EQ(map->OpsOf(b, Side::kCandidate), "Add+Relu");
  EXPECT_THAT(map->layers()[b].golden.reads, IsEmpty());
  EXPECT_THAT(map->layers()[IndexOf(*map, "c")].golden.reads, ElementsAre(b));
}

TEST(LayerMap, MixTakesEachLayerFromTheSideAsked) {
  const Graph golden = MustParse(kMappedGolden), candidate = MustParse(kMappedCandidate);
  const auto map = LayerMap::Of(golden, candidate);
  ASSERT_TRUE(map.ok());
  const Samples x = NormalSamples(golden, 1, 3);
  const auto g = RunGraphOn(golden, x), c = RunGraphOn(candidate, x);
  for (const bool with_b : {false, true})
    for (const bool with_d : {false, true}) {
      std::vector<size_t> from;
      if (with_b) from.push_back(IndexOf(*map, "b"));
      if (with_d) from.push_back(IndexOf(*map, "d"));
      const auto mix = map->Mix(from);
      ASSERT_TRUE(mix.ok()) << mix.status().message();
      ASSERT_TRUE(Verify(*mix).ok()) << Verify(*mix).message();
      const auto out = RunGraphOn(*mix, x);
      EXPECT_TRUE(BitEqual(out[1].tensor(), g[1].tensor()));  // d does not reach s
      EXPECT_TRUE(BitEqual(out[0].tensor(), (with_d ? c : g)[0].tensor()));
    }
}

TEST(LayerMap, CutHasTheInputsThatItReads) {
  const Graph golden = MustParse(kMappedGolden), candidate = MustParse(kMappedCandidate);
  const auto map = LayerMap::Of(golden, candidate);
  ASSERT_TRUE(map.ok());
  const auto names = [](const std::vector<Value*>& values) {
    std::vector<std::string> n;
    for (const Value* v : values) n.push_back(v->name());
    return n;
  };
  const auto cut = map->Cut({IndexOf(*map, "c"), IndexOf(*map, "y")}, Side::kCandidate);
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  EXPECT_THAT(names(cut->inputs()), testing::UnorderedElementsAre("b", "d"));
  EXPECT_THAT(names(cut->outputs()), testing::UnorderedElementsAre("c", "y"));
  EXPECT_EQ(cut->num_nodes(), 2u);
  const auto d = map->Cut({IndexOf(*map, "d")}, Side::kCandidate);
  ASSERT_TRUE(d.ok());
  EXPECT_THAT(names(d->inputs()), ElementsAre("x"));
  EXPECT_THAT(names(d->outputs()), ElementsAre("d"));
  EXPECT_EQ(d->num_nodes(), 2u);  // Exp and Mul
}

TEST(LayerMap, ValuesInOppositeOrdersAreLeftOut) {
  // The candidate gives p the name q and the other way round: neither can come first.
  const Graph golden = MustParse(R"(graph g(x: f32[2]) -> (y: f32[2]) {
  p = Neg(x)
  q = Exp(p)
  y = Relu(q)
})");
  const Graph candidate = MustParse(R"(graph g(x: f32[2]) -> (y: f32[2]) {
  q = Neg(x)
  p = Exp(q)
  y = Relu(p)
})");
  const auto map = LayerMap::Of(golden, candidate);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_THAT(Names(*map), SizeIs(2));
  const auto mix = map->Mix(map->Changed());
  ASSERT_TRUE(mix.ok()) << mix.status().message();
  const Samples x = NormalSamples(golden, 1, 3);
  EXPECT_TRUE(BitEqual(RunGraphOn(*mix, x)[0].tensor(), RunGraphOn(candidate, x)[0].tensor()));
}

TEST(LayerMap, NodesOfSeveralOutputs) {
  const Graph golden = MustParse(R"(graph g(x: f32[2,4]) -> (y: f32[2,2]) {
  a, b = Split(x) {axis=1, num_outputs=2}
  y = Add(a, b)
})");
  const Graph candidate = MustParse(R"(graph g(x: f32[2,4]) -> (y: f32[2,2]) {
  n = Neg(x)
  a, b0 = Split(n) {axis=1, num_outputs=2}
  b = Neg(b0)
  y = Add(a, b)
})");
  const auto map = LayerMap::Of(golden, candidate);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const Samples x = NormalSamples(golden, 1, 3);
  const auto mix = map->Mix({IndexOf(*map, "b")});
  ASSERT_TRUE(mix.ok()) << mix.status().message();
  EXPECT_TRUE(BitEqual(RunGraphOn(*mix, x)[0].tensor(), RunGraphOn(golden, x)[0].tensor()));
  const auto wrong = map->Mix({IndexOf(*map, "a")});
  ASSERT_TRUE(wrong.ok()) << wrong.status().message();
  EXPECT_FALSE(BitEqual(RunGraphOn(*wrong, x)[0].tensor(), RunGraphOn(golden, x)[0].tensor()));
}

/// A chain of layers; the candidate rounds each a little and one much.
std::string Chain(int layers, int bad, double little, double much) {
  std::string text = "graph g(x: f32[4,8]) -> (y: f32[4,8]) {\n";
  std::string in = "x";
  for (int i = 0; i < layers; ++i) {
    const std::string out = i + 1 == layers ? "y" : Cat("v", i);
    const double factor = 1.1 * (1 + (i == bad ? much : little));
    text += Cat("  w", i, " = const f32[1] {", factor, "}\n  t", i, " = Mul(", in, ", w", i,
                ")\n  ", out, " = Tanh(t", i, ")\n");
    in = out;
  }
  return text + "}";
}

/// Wrong-direction test: whichever layer is made bad must come out as the guiltiest.
TEST(IsolateLayers, TheBadLayerIsTheGuiltiest) {
  const Graph golden = MustParse(Chain(8, -1, 0, 0));
  const auto backend = MakeReferenceBackend();
  const Samples samples = NormalSamples(golden, 3, 5);
  for (const int bad : {0, 3, 7}) {
    const Graph candidate = MustParse(Chain(8, bad, 1e-4, 0.2));
    const auto map = LayerMap::Of(golden, candidate);
    ASSERT_TRUE(map.ok());
    const auto found = IsolateLayers(*map, *backend, samples);
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_THAT(*found, SizeIs(8));  // every Mul; the Tanh are the same
    EXPECT_EQ(found->front().name, Cat("t", bad));
    EXPECT_EQ(found->front().golden_op, "Mul");
    ASSERT_TRUE(found->front().output_sqnr_db);
    EXPECT_LT(*found->front().output_sqnr_db, *(*found)[1].output_sqnr_db - 20);
  }
}

TEST(IsolateLayers, IsolatedIsNotAccumulated) {
  // Layer 0 is wrong; all after it are the same and must not be blamed.
  const Graph golden = MustParse(Chain(4, -1, 0, 0)), candidate = MustParse(Chain(4, 0, 0, 0.1));
  const auto backend = MakeReferenceBackend();
  const auto map = LayerMap::Of(golden, candidate);
  ASSERT_TRUE(map.ok());
  const auto found = IsolateLayers(*map, *backend, NormalSamples(golden, 2, 5));
  ASSERT_TRUE(found.ok());
  ASSERT_THAT(*found, SizeIs(1));
  EXPECT_EQ(found->front().name, "t0");
  EXPECT_NEAR(found->front().local.sqnr_db, 20, 1e-3);  // 10 % off
}

TEST(FindMinimalSet, SinglesPairsAndBudgets) {
  std::vector<size_t> ranked(40);
  for (size_t i = 0; i < ranked.size(); ++i) ranked[i] = i;
  const auto needs = [](std::vector<size_t> all) {
    return [all](const std::vector<size_t>& s) -> Result<bool> {
      return std::all_of(all.begin(), all.end(),
                         [&](size_t x) { return std::find(s.begin(), s.end(), x) != s.end(); });
    };
  };
  for (const auto& wanted : std::vector<std::vector<size_t>>{{0}, {39}, {3, 30}, {0, 1, 2, 39}}) {
    const auto r = FindMinimalSet(ranked, needs(wanted));
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->members, wanted);
    EXPECT_TRUE(r->minimal);
    EXPECT_LT(r->tried, 120);
  }
  // Where many small ones add up, what is left breaks, and nothing of it can go.
  const JudgeSet adds_up = [](const std::vector<size_t>& s) -> Result<bool> {
    return s.size() >= 7;
  };
  EXPECT_THAT(FindMinimalSet(ranked, adds_up)->members, SizeIs(7));
  const auto cut_short = FindMinimalSet(ranked, needs({3, 30}), 4);
  EXPECT_FALSE(cut_short->minimal);
  EXPECT_TRUE(*needs({3, 30})(cut_short->members));
  const JudgeSet fails = [](const std::vector<size_t>&) -> Result<bool> { return Internal("no"); };
  EXPECT_FALSE(FindMinimalSet(ranked, fails).ok());
}

}  // namespace
}  // namespace infer
