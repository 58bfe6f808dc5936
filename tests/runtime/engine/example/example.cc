#include <cstdio>

#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "runtime/cpu/backend.h"
#include "runtime/engine/engine.h"

using namespace infer;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const OpRegistry ops = AllOps();
  auto model = ImportModel(argv[1], ops);
  if (!model.ok()) return std::puts(model.status().message().c_str()), 1;
  // Proves along which axis requests may share a run, then compiles.
  auto source = engine::CompileSource(*MakeCpuBackend(), std::move(model->graph), {.threads = 1});
  auto server = engine::Engine::Make();
  if (!source.ok() || !server.ok()) return std::puts("no engine"), 1;
  const Datum image = Tensor::Zeros(DType::kF32, {1, 1, 32, 32});
  const Status loaded = (*server)->Load(
      "digits", *source,
      {.batch = {.max_rows = 8, .max_delay_ns = 1'000'000}, .warm_inputs = {image}});
  if (!loaded.ok()) return std::puts(loaded.message().c_str()), 1;

  std::vector<std::future<engine::Outcome>> answers;
  for (int i = 0; i < 20; ++i)
    answers.push_back((*server)->Submit({.model = "digits",
                                         .inputs = {image},
                                         .timeout_ns = 60'000'000'000,
                                         .priority = engine::Priority::kNormal}));
  int succeeded = 0;
  for (auto& answer : answers) {
    const engine::Outcome o = answer.get();
    if (o.end == engine::State::kSucceeded) ++succeeded;
  }
  (*server)->Drain();
  for (const engine::ModelStats& s : (*server)->Stats())
    std::printf("%d of %d succeeded, %d runs\n", succeeded, static_cast<int>(s.submitted),
                static_cast<int>(s.runs));
  return succeeded == 20 ? 0 : 1;
}
