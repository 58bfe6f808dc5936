#include "quant/search/search.h"

#include <algorithm>
#include <cmath>

#include "quant/search/time_class.h"
#include "tests/quant/search/search_bench.h"

namespace infer {
namespace {

using testing::HasSubstr;

std::string Worst(const SearchResult& r, Precision p) {
  const LayerRecord* worst = nullptr;
  for (const LayerRecord& l : r.layers)
    if (!worst || l.Find(p)->cost.error > worst->Find(p)->cost.error) worst = &l;
  return worst->layer.key;
}

TEST(Search, TheBadLayerRanksWorst) {
  for (const auto& [bad, layer] : {std::pair(1, "b"), {2, "c"}, {3, "y"}}) {
    const Bench bench(Net(bad));
    MemoryStore store;
    const SearchResult r = bench.Search({}, store);
    EXPECT_EQ(Worst(r, Precision::kInt4Weights), layer);
  }
}

TEST(Search, TheChosenPolicyKeepsTheLimits) {
  const Bench bench(Net(1));
  for (const double limit : {20.0, 30.0, 35.0}) {
    SearchOptions options;
    options.goal = SearchGoal::kSize;
    options.limits.min_sqnr_db = limit;
    MemoryStore store;
    const SearchResult r = bench.Search(options, store);
    EXPECT_TRUE(r.chosen.within_limits);
    EXPECT_GE(r.chosen.score.sqnr_db(), limit);
    for (const FrontPoint& p : r.uniform)
      EXPECT_TRUE(!p.within_limits || p.bytes >= r.chosen.bytes) << p.name;
  }
}

/// Two outputs: of `a` the noise is small, of `b`, whose last layer is as in Net(3), it is not. The
/// mean of both is up to 3 dB better than the worse.
Graph TwoHeads() {
  Graph g = Net(3);
  GraphEditor editor(g);
  Random random(9);
  Tensor w(DType::kF32, {32, 32});
  for (float& v : w.mutable_data<float>()) v = static_cast<float>(0.3 * random.Normal());
  auto z = editor.Add("Gemm", {g.FindValue("ra"), editor.AddConstant(std::move(w), "w4")},
                      {{"transB", int64_t{1}}}, "", {.output_names = {"z"}});
  EXPECT_TRUE(z.ok());
  editor.MarkOutput(*z);
  return g;
}

/// What the search chose keeps the gates, which are of every output.
void ExpectGatesPass(const Bench& bench, const SearchResult& r, GateLimits limits) {
  limits.without_intervals = true;
  ASSERT_TRUE(r.chosen.within_limits);
  const MixedModel m = bench.Model();
  const auto g = m.Apply(r.chosen.policy);
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto report =
      Compare(bench.golden, *bench.backend, g->graph, *bench.backend, bench.samples);
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (const GateResult& gate : CheckGates(*report, limits))
    EXPECT_TRUE(gate.passed) << gate.message;
}

TEST(Search, AimsAtTheGatesOfEveryOutput) {
  const Bench bench(TwoHeads());
  SearchOptions options;
  options.goal = SearchGoal::kSize;
  MemoryStore store;
  const auto check = [&](std::optional<double> GateLimits::*limit, double value) {
    SCOPED_TRACE(value);
    options.limits = {};
    options.limits.*limit = value;
    ExpectGatesPass(bench, bench.Search(options, store), options.limits);
  };
  for (double db = 16; db <= 40; db += 1) check(&GateLimits::min_sqnr_db, db);
  for (const double ratio : {0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002})
    check(&GateLimits::max_error_ratio, ratio);
  for (const double cosine : {0.9, 0.99, 0.999, 0.9999, 0.99999})
    check(&GateLimits::min_cosine, cosine);
  for (const double share : {0.8, 0.9, 0.95, 1.0}) check(&GateLimits::min_agreement, share);
}

/// Once aged, gives back only what scores had before they knew the worst output.
class AgedStore : public MemoryStore {
 public:
  const Numbers* Find(const std::string& key) const override {
    const Numbers* n = MemoryStore::Find(key);
    if (!aged || !n || !n->contains("noise")) return n;
    older_.clear();
    for (const char* name : {"noise", "kl", "agreement", "loss", "drop"})
      older_[name] = n->at(name);
    return &older_;
  }
  bool aged = false;

 private:
  mutable Numbers older_;
};

TEST(Search, ScoresOfAnOlderLogAreRefused) {
  const Bench bench(Net());
  AgedStore store;
  bench.Search({}, store);
  store.aged = true;
  const MixedModel m = bench.Model();
  auto judge = Judge::Make(bench.golden, bench.samples, 12, *bench.backend, 1, {});
  ASSERT_TRUE(judge.ok());
  SearchOptions options;
  options.timing_ms = 1;
  const auto r = SearchPolicy(m, *judge, *bench.backend, options, store);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().code(), Code::kInvalidModel);
  EXPECT_THAT(r.status().message(), HasSubstr("a stored score has no worst noise"));
}

/// Of class probabilities -ln p, of class scores -ln softmax.
TEST(Judge, LossOfModelsThatEndInSoftmax) {
  const auto model = [](double factor, bool probabilities) {
    return MustParse(Cat("graph g(x: f32[1,5]) -> (y) { k = const f32[] {", factor, "} ",
                         probabilities ? "s = Mul(x, k) y = Softmax(s)" : "y = Mul(x, k)", " }"));
  };
  const auto backend = MakeReferenceBackend();
  double loss[2], expected = 0;
  for (const bool probabilities : {false, true}) {
    const Graph golden = model(1, probabilities);
    Samples samples = NormalSamples(golden, 6, 3);
    samples.labels = [](int64_t i) -> Result<std::vector<int64_t>> {
      return std::vector<int64_t>{i % 5};
    };
    auto judge = Judge::Make(golden, samples, 6, *backend, 1, {});
    ASSERT_TRUE(judge.ok()) << judge.status().message();
    const auto score = judge->Of(model(3, probabilities));
    ASSERT_TRUE(score.ok()) << score.status().message();
    loss[probabilities] = score->loss;
    if (probabilities) continue;
    for (int64_t i = 0; i < 6; ++i) {
      const auto x = judge->inputs(i)[0].tensor().data<float>();
      for (const double factor : {1.0, 3.0}) {
        double sum = 0;
        for (const float v : x) sum += std::exp(factor * static_cast<double>(v));
        const double label = static_cast<double>(x[static_cast<size_t>(i % 5)]);
        expected += (factor > 1 ? 1 : -1) * (std::log(sum) - factor * label) / 6;
      }
    }
  }
  EXPECT_NEAR(loss[false], expected, 1e-5);
  EXPECT_NEAR(loss[true], expected, 1e-5);
}

TEST(Search, TellsWhatBeatsUniformPolicies) {
  const Bench bench(Net(1));
  MemoryStore store;
  const SearchResult r = bench.Search({}, store);
  const auto error = [&](const FrontPoint& p) { return ErrorOf(p.score, r.measure); };
  int beaten = 0;
  for (const FrontPoint& p : r.front)
    for (const std::string& name : p.beats) {
      const auto u = std::find_if(r.uniform.begin(), r.uniform.end(),
                                  [&](const FrontPoint& other) { return other.name == name; });
      ASSERT_NE(u, r.uniform.end());
      ++beaten;
      EXPECT_LE(p.bytes, u->bytes);
      EXPECT_LE(error(p), error(*u));
      EXPECT_LE(*p.ms, 1.01 * *u->ms);
      EXPECT_TRUE(p.bytes < u->bytes || error(p) < error(*u) || *p.ms < *u->ms);
    }
  EXPECT_GT(beaten, 0);
}

TEST(Search, KeepsTheSizeLimit) {
  const Bench bench(Net());
  SearchOptions options;
  options.max_bytes = 2800;
  options.timing_ms = 1;
  MemoryStore store;
  const SearchResult r = bench.Search(options, store);
  EXPECT_LE(r.chosen.bytes, 2800);
  options.max_bytes = 100;
  const MixedModel m = bench.Model();
  auto judge = Judge::Make(bench.golden, bench.samples, 12, *bench.backend, 1, {});
  const auto none = SearchPolicy(m, *judge, *bench.backend, options, store);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(), HasSubstr("the smallest has"));
}

/// Fails after so many additions, as a process that is killed.
class DyingStore : public MeasurementStore {
 public:
  DyingStore(MemoryStore& kept, size_t left) : kept_(kept), left_(left) {}
  const Numbers* Find(const std::string& key) const override { return kept_.Find(key); }
  Status Add(const std::string& key, Numbers n) override {
    if (left_-- == 0) return Cancelled("killed");
    return kept_.Add(key, std::move(n));
  }

 private:
  MemoryStore& kept_;
  size_t left_;
};

TEST(Search, GoesOnWhereItWasKilled) {
  const Bench bench(Net(2));
  MemoryStore whole;
  const SearchResult once = bench.Search({}, whole);
  EXPECT_EQ(once.measured, static_cast<int64_t>(whole.size()));
  const MixedModel m = bench.Model();
  auto judge = Judge::Make(bench.golden, bench.samples, 12, *bench.backend, 1, {});
  ASSERT_TRUE(judge.ok());
  MemoryStore kept;
  for (const size_t at : {0, 1, 3, 8, 2}) {
    const size_t before = kept.size();
    DyingStore dying(kept, at);
    SearchOptions options;
    options.timing_ms = 1;
    EXPECT_EQ(SearchPolicy(m, *judge, *bench.backend, options, dying).status().message(), "killed");
    EXPECT_EQ(kept.size(), before + at);  // the one at which it died is all that is lost
  }
  const size_t before = kept.size();
  const SearchResult rest = bench.Search({}, kept);
  EXPECT_EQ(rest.measured, static_cast<int64_t>(kept.size() - before));
  for (size_t l = 0; l < once.layers.size(); ++l)
    for (size_t o = 0; o < once.layers[l].options.size(); ++o)
      EXPECT_EQ(rest.layers[l].options[o].score.noise, once.layers[l].options[o].score.noise);
}

/// Knows the order of what was measured.
class OrderedStore : public MemoryStore {
 public:
  Status Add(const std::string& key, Numbers n) override {
    keys.push_back(key);
    return MemoryStore::Add(key, std::move(n));
  }
  /// Places of the keys that begin so: the first and the last.
  std::pair<size_t, size_t> PlacesOf(std::string_view beginning) const {
    std::pair<size_t, size_t> places(keys.size(), 0);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!keys[i].starts_with(beginning)) continue;
      places.first = std::min(places.first, i);
      places.second = i;
    }
    return places;
  }
  std::vector<std::string> keys;
};

TEST(Search, AllLayersAreScoredInOnePrecisionBeforeTheNext) {
  const Bench bench(Net());
  OrderedStore store;
  bench.Search({}, store);
  const auto int8 = store.PlacesOf("layer int8 "), stored = store.PlacesOf("layer int8-weights "),
             int4 = store.PlacesOf("layer int4-weights ");
  EXPECT_EQ(int8.second - int8.first, 3u);
  EXPECT_LT(int8.second, stored.first);
  EXPECT_LT(stored.second, int4.first);
}

TEST(Search, LayersOfOneClassAreTimedOnce) {
  const Bench bench(Net());
  EXPECT_THAT(TimeClasses(bench.Model()), testing::ElementsAre(0, 1, 1, 3));
  OrderedStore store;
  const SearchResult r = bench.Search({}, store);
  const auto timed = [&](const char* key) { return store.Find(key) != nullptr; };
  EXPECT_TRUE(timed("near a") && timed("near y"));
  EXPECT_NE(timed("near b"), timed("near c"));  // the more important one
  EXPECT_NE(timed("near8 b"), timed("near8 c"));
  // What leaving the integers costs more is one number for both.
  const auto more = [&](size_t l) {
    const LayerRecord& layer = r.layers[l];
    return layer.Find(Precision::kF32)->cost.ms - layer.Find(Precision::kInt8)->cost.ms;
  };
  if (more(1) > 0 && more(2) > 0) {
    EXPECT_NEAR(more(1), more(2), 1e-9 + 1e-6 * more(1));
  }
}

TEST(TimeClasses, DifferByShapesNeighboursAndWhatIsAllowed) {
  const auto classes = [](std::string_view middle, std::vector<NodePattern> exclude = {}) {
    const Graph g = MustParse(Cat(R"(graph g(x: f32[4,8]) -> (y: f32[4,8]) {
  u = const f32[8,8] ~1
  v = const f32[8,8] ~2
  w = const f32[8,16] ~3
  n = Neg(x)
  a = Gemm(n, u) {transB=1}
  k = Neg(a)
  m = Neg(k)
)",
                                  middle, "\n  y = Neg(o)\n}"));
    QuantizeOptions options;
    options.prepare = false;
    options.scheme.exclude = std::move(exclude);
    const auto m = MixedModel::Make(g, NormalSamples(g, 2, 1), *MakeReferenceBackend(), options);
    EXPECT_TRUE(m.ok()) << m.status().message();
    return TimeClasses(*m);
  };
  using testing::ElementsAre;
  constexpr std::string_view kSame = "b = Gemm(m, v) {transB=1}\n  o = Neg(b)";
  EXPECT_THAT(classes(kSame), ElementsAre(0, 0));
  EXPECT_THAT(classes(kSame, {{NodePattern::Kind::kValue, "b"}}), ElementsAre(0, 1));
  EXPECT_THAT(classes("b = Gemm(m, v) {transB=1}\n  o = Relu(b)"), ElementsAre(0, 1));
  EXPECT_THAT(classes("b = Gemm(m, v) {transB=0}\n  o = Neg(b)"), ElementsAre(0, 1));
  EXPECT_THAT(classes("r = Concat(m, m) {axis=1}\n  b = Gemm(r, w) {transB=1}\n  o = Neg(b)"),
              ElementsAre(0, 1));
}

TEST(Search, WithoutTimeWhatIsMeasuredDecides) {
  const Bench bench(Net());
  SearchOptions options;
  options.deadline = std::chrono::steady_clock::now();
  MemoryStore store;
  const SearchResult r = bench.Search(options, store);
  EXPECT_GT(r.skipped, 0);
  EXPECT_TRUE(r.chosen.verified);
}

/// Each measurement takes a second of a clock that nothing else moves.
class SlowStore : public MemoryStore {
 public:
  Status Add(const std::string& key, Numbers n) override {
    now += std::chrono::seconds(1);
    keys.push_back(key);
    return MemoryStore::Add(key, std::move(n));
  }
  int CountOf(std::string_view beginning) const {
    return static_cast<int>(std::count_if(keys.begin(), keys.end(), [&](const std::string& key) {
      return key.starts_with(beginning);
    }));
  }
  Instant now{};
  std::vector<std::string> keys;
};

TEST(Search, EndsWithinTheBudget) {
  const Bench bench(Net(1));
  for (const int budget : {20, 30, 40, 60}) {
    SlowStore store;
    SearchOptions options;
    options.now = [&store] { return store.now; };
    options.deadline = store.now + std::chrono::seconds(budget);
    const SearchResult r = bench.Search(options, store);
    // A candidate is a score and a time.
    EXPECT_LE(static_cast<int>(store.keys.size()), budget + 2) << budget;
    EXPECT_GT(r.skipped, 0) << budget;
    EXPECT_TRUE(r.chosen.verified) << budget;
  }
}

TEST(Search, WhatThereIsNoTimeToScoreIsEstimated) {
  const Bench bench(Net(1));
  SlowStore store;
  SearchOptions options;
  options.goal = SearchGoal::kSize;
  options.limits.min_sqnr_db = 20;
  options.now = [&store] { return store.now; };
  options.deadline = store.now + std::chrono::seconds(40);
  const SearchResult r = bench.Search(options, store);
  int estimated = 0;
  for (const FrontPoint& u : r.uniform) {
    if (!u.verified || u.name == "uniform f32") continue;
    double sum = 0;
    int here = 0;
    for (const LayerRecord& layer : r.layers) {
      const LayerOption* o = layer.Find(u.policy.at(layer.layer.key).precision);
      EXPECT_TRUE(o->usable()) << u.name;
      here += o->estimated ? 1 : 0;
      sum += o->cost.error;
    }
    estimated += here;
    if (here > 0) {
      EXPECT_GE(sum, ErrorOf(u.score, r.measure) * (1 - 1e-9)) << u.name;
    }
  }
  EXPECT_GT(estimated, 0);
  EXPECT_GT(store.CountOf("layer "), 0);
  EXPECT_TRUE(r.chosen.within_limits);
  EXPECT_LT(r.chosen.bytes, r.uniform[0].bytes);
}

TEST(Search, EveryActivationByItself) {
  const Bench bench(Net());
  SearchOptions options;
  options.per_value = true;
  MemoryStore store;
  const SearchResult r = bench.Search(options, store);
  ASSERT_EQ(r.values.size(), bench.Model().values().size());
  for (const ValueScore& v : r.values) {
    EXPECT_GT(v.score.noise, 0) << v.name;
    EXPECT_LT(v.score.noise, 0.01) << v.name;
  }
}

}  // namespace
}  // namespace infer
