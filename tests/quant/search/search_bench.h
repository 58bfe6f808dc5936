#pragma once
/// A small network whose layers quantize well or badly, and searches on it.
#include "lib/ir/editor.h"
#include "lib/support/strings.h"
#include "quant/search/search.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {

/// Four products of 32x32 with Relus between. Layer `bad` (1...3; 0: none) has in each row one
/// weight so large that the others share few codes, on a channel that the layer before leaves next
/// to empty: in f32 it matters to nobody.
inline Graph Net(int bad = 0) {
  Graph g = MustParse(R"(
graph g(x: f32[4,32], w0: f32[32,32], w1: f32[32,32], w2: f32[32,32], w3: f32[32,32]) -> (y: f32[4,32]) {
  a = Gemm(x, w0) {transB=1}
  ra = Relu(a)
  b = Gemm(ra, w1) {transB=1}
  rb = Relu(b)
  c = Gemm(rb, w2) {transB=1}
  rc = Relu(c)
  y = Gemm(rc, w3) {transB=1}
}
)");
  GraphEditor editor(g);
  for (int i = 0; i < 4; ++i) {
    Random random(static_cast<uint64_t>(i) + 1);
    Tensor t(DType::kF32, {32, 32});
    const auto w = t.mutable_data<float>();
    for (float& v : w) v = static_cast<float>(0.3 * random.Normal());
    if (bad > 0 && i == bad - 1)
      for (size_t k = 0; k < 32; ++k) w[k] *= 1e-4f;
    if (bad > 0 && i == bad)
      for (size_t row = 0; row < 32; ++row) w[row * 32] = 10;
    editor.SetConstant(g.FindValue(Cat("w", i)), std::move(t));
  }
  while (g.inputs().size() > 1) editor.EraseInput(1);
  return g;
}

struct Bench {
  Graph golden;
  Samples samples;
  std::unique_ptr<Backend> backend = MakeReferenceBackend();

  explicit Bench(Graph g) : golden(std::move(g)), samples(NormalSamples(golden, 12, 7)) {}
  MixedModel Model() const {
    QuantizeOptions options;
    options.prepare = false;
    auto m = MixedModel::Make(golden, samples, *backend, options);
    EXPECT_TRUE(m.ok()) << m.status().message();
    return *std::move(m);
  }
  SearchResult Search(SearchOptions options, MeasurementStore& store) const {
    options.timing_ms = 1;
    const MixedModel m = Model();
    auto judge = Judge::Make(golden, samples, 12, *backend, 1, {});
    EXPECT_TRUE(judge.ok()) << judge.status().message();
    auto r = SearchPolicy(m, *judge, *backend, options, store);
    EXPECT_TRUE(r.ok()) << r.status().message();
    return *std::move(r);
  }
};

}  // namespace infer
