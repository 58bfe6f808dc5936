#pragma once
/// Programs on the cpu backend that tests run: of graphs in text, chains of convolutions, networks
/// of the zoo.
#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "tests/lanes.h"
#include "tests/tools/test_models.h"

namespace infer {

inline std::shared_ptr<const Program> Compiled(const Graph& g, int threads) {
  auto program = MakeCpuBackend()->Compile(g, {.threads = threads});
  EXPECT_TRUE(program.ok()) << program.status().message();
  return *program;
}

inline Graph Parsed(const std::string& text) {
  auto g = ParseGraph(text, Ops());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

/// `n` convolutions, one after the other.
inline Graph Chain(int n, int channels, int side) {
  std::string text = Cat("graph g(v0: f32[1,", channels, ",", side, ",", side, "]) -> (v", n,
                         ": f32[1,", channels, ",", side, ",", side, "]) {\n");
  for (int i = 0; i < n; ++i)
    text += Cat("  w", i, " = const f32[", channels, ",", channels, ",3,3] ~", i + 1, "\n  v",
                i + 1, " = Conv(v", i, ", w", i, ") {pads=[1,1,1,1]}\n");
  return Parsed(text + "}");
}

/// A context with random inputs that has run once.
inline std::unique_ptr<RunContext> Ready(const Program& program, const Graph& g) {
  auto context = program.NewContext();
  EXPECT_TRUE(context.ok()) << context.status().message();
  const auto inputs = RandomModelInputs(g, 0);
  EXPECT_TRUE(inputs.ok()) << inputs.status().message();
  for (size_t i = 0; i < inputs->size(); ++i)
    EXPECT_TRUE((*context)->BindInput(i, (*inputs)[i]).ok());
  EXPECT_TRUE((*context)->Run().ok());
  return *std::move(context);
}

struct CompiledModel {
  std::shared_ptr<const Program> program;
  std::unique_ptr<RunContext> run;
};
inline CompiledModel CompiledZoo(std::string_view name, int64_t resolution = 0) {
  const auto model = MakeZooModel(name, {.resolution = resolution}, Ops());
  EXPECT_TRUE(model.ok()) << model.status().message();
  auto program = MakeCpuBackend()->Compile(model->graph, {.threads = 1});
  EXPECT_TRUE(program.ok()) << program.status().message();
  return {*program, Ready(**program, model->graph)};
}

/// Random inputs of these extents.
inline std::vector<Datum> RandomInputs(const std::vector<Dims>& dims) {
  Random random(1);
  std::vector<Datum> inputs;
  for (const Dims& d : dims) {
    Tensor t(DType::kF32, d);
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.mutable_data<float>()[static_cast<size_t>(i)] = static_cast<float>(random.Uniform());
    inputs.emplace_back(std::move(t));
  }
  return inputs;
}

}  // namespace infer
