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
  // Two variants (here of one file) behind one name: a tenth of the keys goes to the second.
  for (const char* name : {"stable", "candidate"}) {
    const Status loaded = (*server)->Load(
        name, *source,
        {.batch = {.max_rows = 8, .max_delay_ns = 1'000'000}, .warm_inputs = {image}});
    if (!loaded.ok()) return std::puts(loaded.message().c_str()), 1;
  }
  const Status routed = (*server)->SetRoute(
      "digits", {engine::SplitRoute{.salt = "spring"},
                 {{.model = "stable", .weight = 9}, {.model = "candidate", .weight = 1}}});
  if (!routed.ok()) return std::puts(routed.message().c_str()), 1;

  std::vector<engine::Future> answers;
  for (int i = 0; i < 20; ++i)
    answers.push_back((*server)->Submit({.model = "digits",
                                         .inputs = {image},
                                         .timeout_ns = 60'000'000'000,
                                         .priority = engine::Priority::kNormal,
                                         .key = "user " + std::to_string(i)}));
  int succeeded = 0;
  for (auto& answer : answers) {
    const engine::Outcome o = answer.get();
    if (o.end == engine::State::kSucceeded) ++succeeded;
  }
  (*server)->Drain();
  for (const engine::RouteStats& r : (*server)->StatsOfRoutes())
    for (const engine::VariantStats& v : r.variants)
      std::printf("%s: %d requests, p99 %.0f us\n", v.model.c_str(), static_cast<int>(v.sent),
                  v.total_ns.Quantile(0.99) / 1e3);
  return succeeded == 20 ? 0 : 1;
}
