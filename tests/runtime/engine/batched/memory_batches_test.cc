/// A budget of memory with contexts that count for themselves what they take.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/cpu/backend.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

constexpr const char* kConvolutions = R"(graph g(x: f32[N,3,S,S]) -> (y) {
  w = const f32[8,3,3,3] ~1 c = Conv(x, w) {pads=[1,1,1,1]} r = Relu(c)
  v = const f32[8,8,3,3] ~2 d = Conv(r, v) {pads=[1,1,1,1]} p = GlobalAveragePool(d)
  y = Flatten(p) })";

Tensor Images(int64_t rows, int64_t size, float value) {
  Tensor t(DType::kF32, {rows, 3, size, size});
  for (float& v : t.mutable_data<float>()) v = value;
  return t;
}

TEST(Batched, KeepsWithinTheBudget) {
  auto source = *CompileSource(*MakeCpuBackend(), Parsed(kConvolutions), {.threads = 1});
  ASSERT_TRUE(source.axes.proved) << source.axes.reason;
  const auto bytes_of = [&](int64_t rows, int64_t size) {
    const auto context = *source.program->NewContext();
    EXPECT_TRUE(context->BindInput(0, Images(rows, size, 1)).ok());
    EXPECT_TRUE(context->Run().ok());
    return context->memory();
  };
  const int64_t weights = bytes_of(1, 32).weight_bytes;
  const int64_t five = bytes_of(5, 32).activation_bytes();
  const int64_t eight = bytes_of(8, 32).activation_bytes();
  ASSERT_LT(five, eight);
  const auto compiled = source.program;
  for (const bool scarce : {true, false})
    for (const bool warm : {true, false}) {
      const auto sim = std::make_shared<Simulation>(1, 1);
      const auto engine = *Engine::Make(
          {.memory_bytes = weights + (scarce ? five : 2 * eight), .clock = sim, .executor = sim});
      int64_t most = 0;  // rows of the larger images
      const auto hook = [&](const std::vector<Datum>& in, const RunOptions&) {
        if (in[0].tensor().dim(2) == 32) most = std::max(most, in[0].tensor().dim(0));
        sim->Elapse(1000);
        return Status();
      };
      source.program = std::make_shared<HookedProgram>(compiled, hook);
      ModelOptions options{.batch = {.max_rows = 8}};
      if (warm) options.warm_inputs = {Images(1, 32, 1)};
      ASSERT_TRUE(engine->Load("m", source, options).ok());
      int succeeded = 0;
      for (int i = 0; i < 100; ++i)
        sim->At(1 + i, [&, i] {
          engine->Submit({.model = "m", .inputs = {Images(1, i % 5 == 0 ? 24 : 32, 1)}},
                         [&](const Outcome& o) { succeeded += o.end == State::kSucceeded; });
        });
      sim->RunAll();  // all runs but the first begin when all have come
      EXPECT_EQ(succeeded, 100);
      EXPECT_LE(engine->Memory().peak, engine->Memory().budget);
      const ModelStats s = engine->Stats()[0];
      EXPECT_LE(most, scarce ? 5 : 8);
      EXPECT_GE(most, scarce ? 3 : 8);
      EXPECT_EQ(s.fired[static_cast<size_t>(Fired::kMemory)] > 2, scarce);
    }
}

}  // namespace
}  // namespace infer::engine
