/// Outputs of requests that shared a run.
#include <gtest/gtest.h>

#include <cmath>

#include "lib/support/random.h"
#include "runtime/cpu/backend.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

/// Stacked runs against runs alone, on both backends, of graphs whose batch is proved.
TEST(Batched, IsUnbatchedWithinTheToleranceOfOperators) {
  const char* texts[] = {
      R"(graph g(x: f32[N,3,8,8]) -> (y, s) { w = const f32[4,3,3,3] ~1 b = const f32[4] ~2
        c = Conv(x, w, b) {pads=[1,1,1,1]} r = Relu(c) p = GlobalAveragePool(r) f = Flatten(p)
        v = const f32[4,6] ~3 m = MatMul(f, v) y = Softmax(m) s = ArgMax(m) {axis=1} })",
      R"(graph g(x: f32[N,T,8]) -> (y) { q = const f32[8,8] ~1 k = const f32[8,8] ~2
        a = MatMul(x, q) b = MatMul(x, k) t = Transpose(b) {perm=[0,2,1]} s = MatMul(a, t)
        p = Softmax(s) y = MatMul(p, x) })",
      R"(graph g(x: f32[N,6], ids: i64[N,2]) -> (y) { e = const f32[5,3] ~1 g0 = Gather(e, ids)
        sh = Shape(x) z = const i64[] {0} n = Gather(sh, z) o = const i64[1] {0} u = Unsqueeze(n, o)
        six = const i64[1] {6} to = Concat(u, six) {axis=0} r = Reshape(g0, to) y = Mul(x, r) })",
      R"(graph g(x: f32[S,N,4]) -> (y) { g = const f32[4] ~1 h = const f32[4] ~2
        y = LayerNormalization(x, g, h) })"};
  Random random(2);
  for (const char* text : texts)
    for (const auto& backend : {MakeReferenceBackend(), MakeCpuBackend()}) {
      const Graph graph = Parsed(text);
      auto source = CompileSource(*backend, graph.Clone(), {.threads = 1});
      ASSERT_TRUE(source.ok());
      ASSERT_TRUE(source->axes.proved) << source->axes.reason;
      const auto sim = std::make_shared<Simulation>(1, 2);
      const auto engine = *Engine::Make({.clock = sim, .executor = sim});
      ASSERT_TRUE(
          engine->Load("m", *source, {.batch = {.max_rows = 8, .max_delay_ns = 1000}}).ok());
      std::vector<Outcome> outcomes;
      std::vector<std::vector<Datum>> inputs;
      for (int64_t rows : {1, 3, 2}) {
        auto& request = inputs.emplace_back();
        for (const Value* v : graph.inputs()) {
          Dims dims;
          for (const Dim& d : v->shape().dims())
            dims.push_back(d.is_static()                       ? d.value()
                           : d.symbol() == source->axes.symbol ? rows
                                                               : 5);
          Tensor in(v->dtype(), dims);
          for (int64_t i = 0; i < in.num_elements(); ++i)
            in.Set(i, v->dtype() == DType::kI64 ? random.Below(5) : random.Normal());
          request.emplace_back(std::move(in));
        }
      }
      for (size_t i = 0; i < inputs.size(); ++i)
        sim->At(static_cast<int64_t>(i), [&, i] {
          engine->Submit({.model = "m", .inputs = inputs[i]},
                         [&](Outcome o) { outcomes.push_back(std::move(o)); });
        });
      sim->RunAll();
      ASSERT_EQ(outcomes.size(), inputs.size());
      for (size_t r = 0; r < inputs.size(); ++r) {
        const Outcome& o = outcomes[r];
        ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
        EXPECT_EQ(o.batch_rows, 6);
        const auto bare = *RunOnce(*source->program, inputs[r]);
        for (size_t k = 0; k < bare.size(); ++k) {
          const Tensor &got = o.outputs[k].tensor(), &want = bare[k].tensor();
          ASSERT_EQ(got.dims(), want.dims()) << text;
          double most = 0;
          for (int64_t i = 0; i < want.num_elements(); ++i)
            most = std::max(most, std::abs(want.At(i)));
          for (int64_t i = 0; i < want.num_elements(); ++i)
            ASSERT_LE(std::abs(got.At(i) - want.At(i)), 1e-5 * most) << text;
        }
      }
    }
}

}  // namespace
}  // namespace infer::engine
