/// A language model's cache as the state of sequences.
#include <gtest/gtest.h>

#include <cmath>

#include "lib/onnx/import.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

Tensor Ints(std::vector<int64_t> values) {
  Tensor t(DType::kI64, {1, static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    t.Set(static_cast<int64_t>(i), static_cast<double>(values[i]));
  return t;
}

/// Token by token, two sequences side by side, against the whole text in one run.
TEST(SequenceModels, TokensOneByOneAreTheTextAtOnce) {
  const char* data = std::getenv("INFER_TEST_DATA");
  if (!data) GTEST_SKIP() << "INFER_TEST_DATA is not set";
  auto model = ImportModel(std::string(data) + "/models/stories260k_a/model.onnx", Ops());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto source = CompileSource(*MakeCpuBackend(), std::move(model->graph), {.threads = 1});
  ASSERT_TRUE(source.ok()) << source.status().message();
  StateRules state;
  const size_t pairs = source->program->inputs().size() - 2;
  ASSERT_EQ(source->program->outputs().size(), pairs + 1);
  for (size_t i = 0; i < pairs; ++i) state.pairs.push_back({.input = 2 + i, .output = 1 + i});
  const auto sim = std::make_shared<Simulation>(1, 1);
  const auto engine = *Engine::Make({.clock = sim, .executor = sim});
  ASSERT_TRUE(
      engine->Load("m", *source, {.batch = {.max_rows = 4, .max_delay_ns = 10}, .state = state})
          .ok());
  const std::vector<int64_t> texts[] = {{1, 403, 407, 261, 378, 432}, {1, 300, 20, 77, 410, 99}};
  std::map<size_t, std::vector<Outcome>> outcomes;
  for (size_t s = 0; s < 2; ++s)
    for (size_t i = 0; i < texts[s].size(); ++i)
      sim->At(static_cast<int64_t>(100 * i + s + 1), [&, s, i] {
        engine->Submit({.model = "m",
                        .inputs = {Ints({texts[s][i]}), Ints({static_cast<int64_t>(i)})},
                        .sequence = {Cat(s), i == 0, i + 1 == texts[s].size()}},
                       [&, s](Outcome o) { outcomes[s].push_back(std::move(o)); });
      });
  sim->RunAll();
  for (size_t s = 0; s < 2; ++s) {
    ASSERT_EQ(outcomes[s].size(), texts[s].size());
    std::vector<Datum> whole = {Ints(texts[s]), Ints({0, 1, 2, 3, 4, 5})};
    for (size_t i = 0; i < pairs; ++i) {
      Dims dims;
      const Value& past = *source->program->inputs()[2 + i];
      for (const Dim& d : past.shape().dims())
        dims.push_back(d.is_static() ? d.value() : d.symbol() == source->axes.symbol ? 1 : 0);
      whole.emplace_back(Tensor::Zeros(past.dtype(), dims));
    }
    const auto want = RunOnce(*source->program, whole);
    ASSERT_TRUE(want.ok()) << want.status().message();
    const Tensor& logits = (*want)[0].tensor();
    const int64_t words = logits.dim(-1);
    double most = 0, worst = 0;
    for (size_t i = 0; i < texts[s].size(); ++i) {
      const Outcome& o = outcomes[s][i];
      ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
      ASSERT_EQ(o.outputs.size(), 1u);
      EXPECT_EQ(o.batch_rows, 2);
      for (int64_t k = 0; k < words; ++k) {
        const double expected = logits.At(static_cast<int64_t>(i) * words + k);
        most = std::max(most, std::abs(expected));
        worst = std::max(worst, std::abs(o.outputs[0].tensor().At(k) - expected));
      }
    }
    EXPECT_LE(worst, 1e-4 * most);
  }
}

}  // namespace
}  // namespace infer::engine
