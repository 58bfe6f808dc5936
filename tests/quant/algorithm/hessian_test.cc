#include "quant/algorithm/hessian.h"

#include <gmock/gmock.h>

#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

class HessianTest : public testing::Test {
 protected:
  /// The sources of all weighted nodes of `g`, in order.
  static std::vector<RowSource> Sources(const Graph& g) {
    std::vector<RowSource> s;
    for (const auto& n : g.nodes())
      if (auto source = SourceOf(*n); source.ok()) s.push_back(*std::move(source));
    return s;
  }
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
};

/// Sum of both parts.
Hessian Total(const HessianPair& p) {
  Hessian h = p.fit;
  h.Add(p.held_out);
  return h;
}

TEST_F(HessianTest, SumsRowsOfInputsAndInnerValues) {
  const Graph g = MustParse(R"(graph g(x: f32[2,3]) -> (z) {
  w = const f32[3,2] {1, 0, 0, 1, 1, 1}
  v = const f32[2,1] {1, 1}
  y = MatMul(x, w)
  z = MatMul(y, v)
})");
  const Samples samples = InMemory({{Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6})}});
  const auto table = SumHessians(g, Sources(g), samples, *backend_);
  ASSERT_TRUE(table.ok()) << table.status().message();
  const Hessian x = Total(table->at("x")), y = Total(table->at("y"));
  EXPECT_EQ(x.rows, 2);
  EXPECT_THAT(x.sum, testing::ElementsAre(17, 22, 27, 22, 29, 36, 27, 36, 45));
  // y = [[4, 5], [10, 11]]
  EXPECT_THAT(y.sum, testing::ElementsAre(116, 130, 130, 146));
}

TEST_F(HessianTest, HoldsOutEveryFourthSampleOfMany) {
  const Graph g = MustParse(R"(graph g(x: f32[N,1]) -> (y) {
  w = const f32[1,1] {2}
  y = MatMul(x, w)
})");
  std::vector<std::vector<Datum>> runs;
  for (int i = 0; i < 9; ++i) runs.push_back({Tensor::Of<float>({1, 1}, {float(1 << i)})});
  const auto table = SumHessians(g, Sources(g), InMemory(std::move(runs)), *backend_);
  ASSERT_TRUE(table.ok());
  const HessianPair& p = table->at("x");
  EXPECT_EQ(p.fit.rows, 7);
  EXPECT_EQ(p.held_out.rows, 2);
  EXPECT_EQ(p.held_out.sum[0], 64.0f + 16384.0f);
}

TEST_F(HessianTest, HoldsOutRowsOfFewSamples) {
  const Graph g = MustParse(R"(graph g(x: f32[16,1]) -> (y) {
  w = const f32[1,1] {2}
  y = MatMul(x, w)
})");
  Tensor x = Tensor::Zeros(DType::kF32, {16, 1});
  for (const int64_t held : {6, 7, 14, 15}) x.Set(held, 1);
  const auto table = SumHessians(g, Sources(g), InMemory({{x}}), *backend_);
  ASSERT_TRUE(table.ok());
  const HessianPair& p = table->at("x");
  EXPECT_EQ(p.fit.rows, 12);
  EXPECT_EQ(p.fit.sum[0], 0);
  EXPECT_EQ(p.held_out.sum[0], 4);
}

TEST_F(HessianTest, WindowsOfAConvolutionTimesWeightsAreItsOutputs) {
  // sum over positions of (w . window)^2 = w H w^T for every output channel.
  const Graph g = MustParse(R"(graph g(x: f32[2,4,5,6]) -> (y) {
  w = const f32[6,2,3,2] ~1
  y = Conv(x, w) {group = 2, pads = [1, 0, 1, 1], strides = [2, 1], dilations = [1, 2]}
})");
  const std::vector<RowSource> sources = Sources(g);
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0].depth, 12);
  const Samples samples = NormalSamples(g, 2, 3);
  HessianOptions all;
  all.conv_windows = 1000;
  const auto table = SumHessians(g, sources, samples, *backend_, all);
  ASSERT_TRUE(table.ok()) << table.status().message();
  const Hessian h = Total(table->begin()->second);
  const auto program = backend_->Compile(g, {});
  std::vector<double> energy(6);
  int64_t positions = 0;
  for (int64_t run = 0; run < 2; ++run) {
    const auto y = RunOnce(**program, *samples.get(run));
    ASSERT_TRUE(y.ok());
    const Tensor& t = (*y)[0].tensor();
    positions = t.dim(2) * t.dim(3);
    for (int64_t i = 0; i < t.num_elements(); ++i)
      energy[static_cast<size_t>(i / positions % 6)] += t.At(i) * t.At(i);
  }
  EXPECT_EQ(h.rows, 2 * 2 * positions);
  const Tensor& w = *g.FindValue("w")->constant();
  for (int64_t m = 0; m < 6; ++m) {
    double form = 0;
    for (int64_t i = 0; i < 12; ++i)
      for (int64_t j = 0; j < 12; ++j)
        form +=
            w.At(m * 12 + i) * w.At(m * 12 + j) * h.group(m / 3)[static_cast<size_t>(i * 12 + j)];
    EXPECT_NEAR(form / energy[static_cast<size_t>(m)], 1, 1e-4) << m;
  }
}

TEST_F(HessianTest, TakesSomeWindowsOfLargeImages) {
  const Graph g = MustParse(R"(graph g(x: f32[1,1,20,20]) -> (y) {
  w = const f32[1,1,3,3] ~1
  y = Conv(x, w)
})");
  HessianOptions few;
  few.conv_windows = 10;
  const auto table = SumHessians(g, Sources(g), NormalSamples(g, 12, 3), *backend_, few);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(Total(table->begin()->second).rows, 120);
}

/// w^T H w over the positions is the energy of one tap's outputs: with a kernel of 1 all there is.
TEST_F(HessianTest, PositionsOfTransposedConvolutions) {
  const Graph g = MustParse(R"(graph g(x: f32[2,3,4,5]) -> (y) {
  w = const f32[3,1,1,1] {1, -2, 0.5}
  y = ConvTranspose(x, w)
})");
  const auto source = LayerSourceOf(*g.nodes().front(), 1);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(source->depth, 3);
  EXPECT_EQ(source->weights, "w");
  const Samples samples = NormalSamples(g, 2, 3);
  const auto table = SumHessians(g, {&*source, 1}, samples, *backend_);
  ASSERT_TRUE(table.ok()) << table.status().message();
  const Hessian h = Total(table->begin()->second);
  EXPECT_EQ(h.rows, 2 * 2 * 20);
  const auto program = backend_->Compile(g, {});
  double energy = 0, form = 0;
  for (int64_t run = 0; run < 2; ++run) {
    const auto y = RunOnce(**program, *samples.get(run));
    for (const float v : (*y)[0].tensor().ToFloats()) energy += double{v} * v;
  }
  const double w[] = {1, -2, 0.5};
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) form += w[i] * w[j] * double{h.sum[i * 3 + j]};
  EXPECT_NEAR(form / energy, 1, 1e-5);
}

TEST_F(HessianTest, RecurrentLayersMultiplyInputsAndTheirOwnResults) {
  const Graph g = MustParse(R"(graph g(x: f32[5,1,4]) -> (y, z, h) {
  w = const f32[1,12,4] ~1  r = const f32[1,12,3] ~2
  b = const f32[2,12,4] ~3  c = const f32[2,12,3] ~4
  a = const f32[1,9,4] ~5  d = const f32[1,9,3] ~6
  y, _ = LSTM(x, w, r) {hidden_size = 3}
  z, _ = LSTM(x, b, c) {hidden_size = 3, direction = "bidirectional"}
  _, h = GRU(x, a, d) {hidden_size = 3}
})");
  std::vector<const Node*> n;
  for (const auto& node : g.nodes()) n.push_back(node.get());
  ASSERT_EQ(n.size(), 3u);
  EXPECT_EQ(LayerSourceOf(*n[0], 1)->value, "x");
  EXPECT_EQ(LayerSourceOf(*n[0], 1)->depth, 4);
  EXPECT_EQ(LayerSourceOf(*n[0], 2)->value, "y");
  EXPECT_EQ(LayerSourceOf(*n[0], 2)->depth, 3);
  EXPECT_THAT(LayerSourceOf(*n[1], 2).status().message(), testing::HasSubstr("two directions"));
  EXPECT_THAT(LayerSourceOf(*n[2], 2).status().message(), testing::HasSubstr("a gate lies"));
}

TEST_F(HessianTest, Refusals) {
  const Graph g = MustParse(R"(graph g(x: f32[2,2], i: i64[2]) -> (y, z) {
  w = const f32[2,2] {1, 2, 3, 4}
  y = Gemm(x, w) {transA = 1}
  z = Add(x, w)
})");
  for (const auto& n : g.nodes()) EXPECT_FALSE(SourceOf(*n).ok());
  const RowSource source{"i", nullptr, 2, 1};
  const Samples none = InMemory({});
  const Samples one =
      InMemory({{Tensor::Zeros(DType::kF32, {2, 2}), Tensor::Of<int64_t>({2}, {1, 2})}});
  EXPECT_EQ(SumHessians(g, {&source, 1}, one, *backend_).status().code(), Code::kInvalidArgument);
  const RowSource x{"x", nullptr, 2, 1};
  EXPECT_EQ(SumHessians(g, {&x, 1}, none, *backend_).status().code(), Code::kInvalidArgument);
  std::stop_source stop;
  stop.request_stop();
  HessianOptions stopped;
  stopped.stop = stop.get_token();
  EXPECT_EQ(SumHessians(g, {&x, 1}, one, *backend_, stopped).status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace infer
