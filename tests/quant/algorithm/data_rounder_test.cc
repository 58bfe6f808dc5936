#include "quant/algorithm/data_rounder.h"

#include <gmock/gmock.h>

#include <numeric>

#include "quant/algorithm/gptq.h"
#include "quant/weight_only/round.h"
#include "quant/weight_only/weight_only.h"
#include "runtime/reference/backend.h"
#include "tests/quant/algorithm/correlated.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

constexpr int64_t kRounderDepth = 64, kRounderRows = 20;

class DataRounderTest : public testing::Test {
 protected:
  std::vector<float> values_ = NormalWeights(kRounderRows * kRounderDepth, 5);
  BlockWeights w_{values_, kRounderRows, kRounderDepth};
  HessianPair h_{MomentsOf(CorrelatedRows(300, kRounderDepth, 6, 1), kRounderDepth),
                 MomentsOf(CorrelatedRows(100, kRounderDepth, 6, 2), kRounderDepth)};
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
};

TEST_F(DataRounderTest, ErrsLessOnRowsThatItHasNotSeen) {
  for (const std::string& name : DataMethodNames()) {
    const RoundedWeights r = RoundByData(w_, {4, 32, true}, h_, *DataMethodNamed(name));
    EXPECT_EQ(r.note, "");
    EXPECT_EQ(r.method, name == "awq" ? "clip" : name == "auto" ? "gptq" : name);
    EXPECT_LT(r.error, (name == "awq" ? 1 : name == "adaround" ? 0.8 : 0.6) * r.nearest_error);
    const double error =
        std::sqrt(OutputError(w_, r.q, h_.held_out.sum) / OutputEnergy(w_, h_.held_out.sum));
    EXPECT_NEAR(r.error, error, 1e-6);
  }
}

TEST_F(DataRounderTest, FallsBackToNearest) {
  HessianPair few = h_;
  few.fit.rows = 10;
  const RoundedWeights r = RoundByData(w_, {4, 32, true}, few, *DataMethodNamed("gptq"));
  EXPECT_EQ(r.method, "nearest");
  EXPECT_EQ(r.q.codes, QuantizeNearest(w_, {4, 32, true}).codes);
  EXPECT_EQ(r.error, r.nearest_error);
  EXPECT_THAT(r.note, testing::HasSubstr("too few rows"));
  HessianPair bad = h_;
  bad.fit.sum[7] = std::numeric_limits<float>::quiet_NaN();
  const RoundedWeights n = RoundByData(w_, {4, 32, true}, bad, *DataMethodNamed("auto"));
  EXPECT_EQ(n.method, "nearest");
  EXPECT_THAT(n.note, testing::HasSubstr("NaN"));
}

TEST_F(DataRounderTest, DataOfAnotherKindThanTheHeldOutNeverHurt) {
  // Moments that say nothing of what will come: whatever they suggest is kept only if it is better.
  for (uint64_t seed = 0; seed < 5; ++seed) {
    HessianPair other = h_;
    other.fit = MomentsOf(NormalWeights(200 * kRounderDepth, seed), kRounderDepth);
    const RoundedWeights r = RoundByData(w_, {4, 32, true}, other, *DataMethodNamed("auto"));
    EXPECT_LE(r.error, r.nearest_error);
  }
}

TEST_F(DataRounderTest, GroupsAreRoundedByTheirOwnMoments) {
  HessianPair two = h_;
  for (Hessian* h : {&two.fit, &two.held_out}) {
    h->groups = 2;
    h->sum.resize(2 * h->sum.size());
    for (int64_t k = 0; k < kRounderDepth; ++k)
      h->sum[static_cast<size_t>(kRounderDepth * kRounderDepth + k * kRounderDepth + k)] = 1;
  }
  const RoundedWeights r = RoundByData(w_, {4, 32, false}, two, *DataMethodNamed("gptq"));
  const BlockWeights first{w_.values.first(kRounderRows / 2 * kRounderDepth), kRounderRows / 2,
                           kRounderDepth};
  const RoundedWeights one = RoundByData(first, {4, 32, false}, h_, *DataMethodNamed("gptq"));
  ASSERT_EQ(r.q.codes.size(), values_.size());
  EXPECT_TRUE(std::equal(one.q.codes.begin(), one.q.codes.end(), r.q.codes.begin()));
  EXPECT_EQ(r.q.rows, kRounderRows);
}

TEST_F(DataRounderTest, SumsForARequestWithinTheBudget) {
  const Graph g = MustParse(R"(graph g(x: f32[40,16]) -> (y, z) {
  a = const f32[16,16] ~1
  b = const f32[16,8] ~2
  table = const f32[9,16] ~3
  h = MatMul(x, a)
  t = Relu(h)
  y = MatMul(t, b)
  turned = Transpose(table) {perm = [1, 0]}
  z = MatMul(t, turned)
})");
  const Samples samples = NormalSamples(g, 12, 1);
  int64_t passes = 0;
  HessianOptions options;
  options.progress = [&](int64_t done, int64_t total) { passes += done == total; };
  const auto round = [&](const BlockRounder& rounder, const char* weights, const char* operand,
                         int64_t rows) {
    const std::vector<float> values = NormalWeights(rows * 16, 1);
    const std::string name = operand;
    return *rounder({weights, {&name, 1}, {values, rows, 16}, {4, 16, true}});
  };
  for (const bool small : {false, true}) {
    passes = 0;
    options.max_bytes = small ? 1 : 1 << 20;
    const BlockRounder rounder =
        MakeDataRounder(g, samples, *backend_, *DataMethodNamed("gptq"), options);
    EXPECT_EQ(round(rounder, "a", "x", 16).method, "gptq");
    EXPECT_EQ(round(rounder, "b", "t", 8).method, "gptq");
    EXPECT_EQ(round(rounder, "table", "t", 9).method, "gptq");
    EXPECT_EQ(passes, small ? 2 : 1);
    EXPECT_NE(round(rounder, "b", "y", 8).method, "gptq");
    EXPECT_THAT(round(rounder, "b", "y", 8).note, testing::HasSubstr("'y'"));
  }
}

/// Mean squared error of output 0 of `g` against `golden` on runs [from, to).
double ErrorOf(const Graph& g, const Graph& golden, const Backend& backend, const Samples& samples,
               int64_t from, int64_t to) {
  const auto a = backend.Compile(g, {}), b = backend.Compile(golden, {});
  EXPECT_TRUE(a.ok() && b.ok());
  double sum = 0;
  for (int64_t run = from; run < to; ++run) {
    const auto x = RunOnce(**a, *samples.get(run)), y = RunOnce(**b, *samples.get(run));
    const std::vector<float> p = (*x)[0].tensor().ToFloats(), q = (*y)[0].tensor().ToFloats();
    for (size_t i = 0; i < p.size(); ++i) sum += (p[i] - q[i]) * (p[i] - q[i]);
  }
  return sum;
}

TEST_F(DataRounderTest, AModelErrsLessWhateverTheFormat) {
  // Few causes behind many inputs, and a head that is tied to a table.
  const std::string text = R"(graph g(x: f32[30,8], ids: i64[5]) -> (z, rows) {
  spread = const f32[8,64] ~1
  s = const f32[64] ~2
  b = const f32[64] ~3
  w = const f32[64,48] ~4
  table = const f32[40,48] ~5
  wide = MatMul(x, spread)
  n = LayerNormalization(wide, s, b)
  h = MatMul(n, w)
  r = Relu(h)
  t = Transpose(table) {perm = [1, 0]}
  z = MatMul(r, t)
  rows = Gather(table, ids)
})";
  const Graph golden = MustParse(text);
  std::vector<std::vector<Datum>> runs;
  Random random(3);
  for (int i = 0; i < 24; ++i) {
    Tensor x(DType::kF32, {30, 8});
    for (float& v : x.mutable_data<float>()) v = static_cast<float>(random.Normal());
    runs.push_back({x, Tensor::Int64s({1, 2, 3, 4, 39})});
  }
  const Samples all = InMemory(std::move(runs));
  std::vector<int64_t> first(16);
  std::iota(first.begin(), first.end(), int64_t{0});
  const Samples calibration = Subset(all, first);
  for (const WeightFormat format : {WeightFormat::kNBits, WeightFormat::kQdq}) {
    double nearest = 0;
    for (const char* name : {"nearest", "gptq", "awq", "auto"}) {
      Graph g = golden.Clone();
      WeightOnlyOptions options;
      options.scheme.grid = {4, 16, true};
      options.scheme.format = format;
      options.rounder = [&](Graph& prepared, const WeightPlan& plan) -> Result<BlockRounder> {
        const auto method = DataMethodNamed(name);
        if (!method) return RounderNamed(name);
        return RounderFromData(prepared, plan, calibration, *backend_, *method);
      };
      const auto report = QuantizeWeightOnly(g, options);
      ASSERT_TRUE(report.ok()) << report.status().message();
      const double error = ErrorOf(g, golden, *backend_, all, 16, 24);
      if (!DataMethodNamed(name)) {
        nearest = error;
        continue;
      }
      EXPECT_LT(error, 0.8 * nearest) << name;
      for (const QuantizedLayer& l : report->layers)
        if (l.output_error >= 0) {
          EXPECT_LE(l.output_error, l.nearest_output_error) << l.name;
        }
    }
  }
}

TEST_F(DataRounderTest, CodesAloneErrLessToo) {
  const std::vector<float> scales(kRounderRows, 0.02f);
  const RoundedWeights r = RoundCodesByData(w_, scales, h_);
  EXPECT_EQ(r.method, "gptq");
  EXPECT_LT(r.error, 0.6 * r.nearest_error);
  EXPECT_EQ(r.q.scales, scales);
  HessianPair few = h_;
  few.fit.rows = 10;
  const RoundedWeights n = RoundCodesByData(w_, scales, few);
  EXPECT_EQ(n.method, "nearest");
  EXPECT_THAT(n.note, testing::HasSubstr("too few rows"));
}

/// Smooth images: neighbouring pixels and channels say much of each other.
Samples SmoothImages(const Graph& g, int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<Datum>> runs;
  for (int64_t i = 0; i < count; ++i) {
    Tensor t(DType::kF32, g.inputs()[0]->shape().static_dims());
    const int64_t plane = t.dim(2) * t.dim(3);
    double value = 0;
    for (int64_t k = 0; k < t.num_elements(); ++k) {
      if (k % plane == 0) value *= 0.9;
      value = 0.9 * value + 0.4 * random.Normal();
      t.mutable_data<float>()[static_cast<size_t>(k)] = static_cast<float>(value);
    }
    runs.push_back({std::move(t)});
  }
  return InMemory(std::move(runs));
}

TEST_F(DataRounderTest, LayersOf8BitsAreRoundedByData) {
  // Convolution, grouped one and transposed one, then the sequence of columns through an LSTM.
  const Graph golden = MustParse(R"(graph g(x: f32[1,8,10,10]) -> (h) {
  w = const f32[16,8,3,3] ~1  v = const f32[32,8,3,3] ~2  u = const f32[32,16,3,3] ~3
  a = const f32[1,128,16] ~4  b = const f32[1,128,32] ~5  axis = const i64[1] {2}
  c = Conv(x, w) {pads = [1,1,1,1]}
  d = Conv(c, v) {pads = [1,1,1,1], group = 2}
  e = ConvTranspose(d, u) {strides = [2,2]}
  f = ReduceMean(e, axis) {keepdims = 0}
  q = Transpose(f) {perm = [2, 0, 1]}
  h, _ = LSTM(q, a, b) {hidden_size = 32} })");
  const Samples calibration = SmoothImages(golden, 32, 1), others = SmoothImages(golden, 16, 2);
  double error[2];
  for (const bool by_data : {false, true}) {
    Graph g = golden.Clone();
    WeightOnlyOptions options;
    options.prepare = false;
    options.round_layers = by_data;
    options.rounder = [&](Graph& prepared, const WeightPlan& plan) -> Result<BlockRounder> {
      if (!by_data) return NearestRounder();
      return RounderFromData(prepared, plan, calibration, *backend_, *DataMethodNamed("gptq"));
    };
    const auto report = QuantizeWeightOnly(g, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->integer_layers, 5);
    for (const QuantizedLayer& l : report->layers) {
      if (!by_data) {
        EXPECT_EQ(l.method, "nearest");
      } else if (l.op != "LSTM") {
        EXPECT_EQ(l.method, "gptq") << l.name << ": " << l.note;
        EXPECT_LT(l.output_error, 0.9 * l.nearest_output_error) << l.name;
      } else {
        EXPECT_LE(l.output_error, l.nearest_output_error) << l.name;
      }
    }
    error[by_data] = ErrorOf(g, golden, *backend_, others, 0, 16);
  }
  EXPECT_LT(error[1], 0.8 * error[0]);
}

TEST_F(DataRounderTest, TiedTablesKeepTheirRowsToo) {
  // Only one direction matters to the product; the looked-up rows have all of them.
  HessianPair one = h_;
  for (Hessian* h : {&one.fit, &one.held_out})
    for (int64_t i = 0; i < kRounderDepth; ++i)
      for (int64_t j = 0; j < kRounderDepth; ++j)
        h->sum[static_cast<size_t>(i * kRounderDepth + j)] = i == j ? 1.001f : 1.0f;
  const BlockGrid grid{4, 32, true};
  const auto product = RoundByData(w_, grid, one, *DataMethodNamed("gptq"));
  const auto both = RoundByData(w_, grid, one, *DataMethodNamed("gptq"), true);
  EXPECT_LT(RelativeError(w_, both.q), RelativeError(w_, product.q));
  EXPECT_LT(OutputError(w_, both.q, one.fit.sum),
            0.8 * OutputError(w_, QuantizeNearest(w_, grid), one.fit.sum));
}

}  // namespace
}  // namespace infer
