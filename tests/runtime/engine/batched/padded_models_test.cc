/// Padding of real models with an extent that they leave open: what is proved, and that requests
/// that share a padded run keep their numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/onnx/import.h"
#include "lib/support/random.h"
#include "runtime/cpu/backend.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::optional<Graph> Imported(const std::string& name) {
  const char* data = std::getenv("INFER_TEST_DATA");
  if (!data) return std::nullopt;
  auto model = ImportModel(std::string(data) + "/models/" + name + "/model.onnx", Ops());
  EXPECT_TRUE(model.ok()) << model.status().message();
  return std::move(model->graph);
}

#define SKIP_WITHOUT(graph) \
  if (!(graph)) GTEST_SKIP() << "INFER_TEST_DATA is not set"

TEST(PaddedModels, RefusalsSayWhatCarriesMixesOrLooksAround) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"nnsplit_en", "length", "made of length"},
      {"tract_bidi_lstm", "length", "LSTM"},
      {"voicevox_spec", "length", "Conv"},
      {"matchboxnet_kws", "audio_signal_dynamic_axes_2", "Conv"},
      {"ocr_dbnet", "shape_h", "Conv"},
      {"silero_op15", "sequence", "Pad"},
      {"gpt2_past", "seq_len", ""},
  };
  for (const auto& [name, symbol, reason] : cases) {
    const auto graph = Imported(name);
    SKIP_WITHOUT(graph);
    const PaddedAxes a = ProvePadding(*graph, symbol);
    EXPECT_FALSE(a.proved) << name;
    EXPECT_THAT(a.reason, HasSubstr(reason)) << name;
    RecordProperty(name, a.reason);
  }
}

/// A request of BERT: its last places may be masked by the caller as well.
std::vector<Datum> BertRequest(Random& random, int64_t rows, int64_t length) {
  Tensor ids(DType::kI64, {rows, length}), types(DType::kI64, {rows, length}),
      mask(DType::kI64, {rows, length});
  for (int64_t i = 0; i < rows * length; ++i) {
    ids.Set(i, random.Below(99));
    types.Set(i, random.Below(16));
    mask.Set(i, i % length == 0 || random.Below(4) > 0);
  }
  return {ids, types, mask};
}

TEST(PaddedModels, RequestsOfOtherLengthsShareARunOfBert) {
  auto graph = Imported("bert_toy");
  SKIP_WITHOUT(graph);
  const auto source = CompileSource(*MakeCpuBackend(), *std::move(graph), {.threads = 1});
  ASSERT_TRUE(source.ok()) << source.status().message();
  ASSERT_TRUE(source->axes.proved) << source->axes.reason;
  ASSERT_EQ(source->padding.size(), 1u);
  const PaddedAxes& axes = source->padding[0];
  ASSERT_TRUE(axes.proved) << axes.reason;
  EXPECT_THAT(axes.masks, ElementsAre(2));
  EXPECT_THAT(axes.outputs, ElementsAre(ElementsAre(1), ElementsAre()));
  const auto sim = std::make_shared<Simulation>(1, 2);
  const auto engine = *Engine::Make({.clock = sim, .executor = sim});
  Random random(7);
  ASSERT_TRUE(engine
                  ->Load("m", *source,
                         {.batch = {.max_rows = 16, .max_delay_ns = 1000},
                          .buckets = {.extents = {8, 16, 32}},
                          .warm_inputs = BertRequest(random, 1, 5)})
                  .ok());
  EXPECT_EQ(engine->Stats()[0].unpaddable, "");
  std::vector<std::vector<Datum>> inputs;
  std::vector<Outcome> outcomes(40);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    inputs.push_back(BertRequest(random, 1 + random.Below(3), 1 + random.Below(38)));
    sim->At(static_cast<int64_t>(i) * 50, [&, i] {
      engine->Submit({.model = "m", .inputs = inputs[i]},
                     [&outcomes, i](Outcome o) { outcomes[i] = std::move(o); });
    });
  }
  sim->RunAll();
  double worst = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    ASSERT_EQ(outcomes[i].end, State::kSucceeded) << outcomes[i].status.message();
    const auto bare = *RunOnce(*source->program, inputs[i]);
    for (size_t k = 0; k < bare.size(); ++k) {
      const Tensor &got = outcomes[i].outputs[k].tensor(), &want = bare[k].tensor();
      ASSERT_EQ(got.dims(), want.dims());
      double most = 0;
      for (int64_t e = 0; e < want.num_elements(); ++e) most = std::max(most, std::abs(want.At(e)));
      for (int64_t e = 0; e < want.num_elements(); ++e)
        worst = std::max(worst, std::abs(got.At(e) - want.At(e)) / most);
    }
  }
  EXPECT_LE(worst, 1e-5);
  const ModelStats s = engine->Stats()[0];
  EXPECT_GT(s.padding[static_cast<size_t>(Padding::kPadded)], 20);
  EXPECT_GT(s.padding[static_cast<size_t>(Padding::kLonger)], 0);
  EXPECT_EQ(s.padding[static_cast<size_t>(Padding::kRefuted)], 0);
  EXPECT_LT(s.runs, 20) << "requests share runs";
}

}  // namespace
}  // namespace infer::engine
