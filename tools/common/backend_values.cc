#include "tools/common/backend_values.h"

#include "lib/ir/inference.h"
#include "passes/rewrite/patch.h"

namespace infer {
namespace {

/// Reference kernels take about as long for it as a program takes to compile.
constexpr int64_t kLittleFlops = 1 << 20, kLittleBytes = 1 << 20;

/// With the extents of `inputs`.
Result<Graph> WithExtentsOf(const Graph& g, std::span<const Datum> inputs) {
  std::map<std::string, Dims> shapes;
  for (size_t i = 0; i < inputs.size() && i < g.inputs().size(); ++i)
    if (inputs[i].is_tensor() && g.inputs()[i]->type().is_tensor())
      shapes[g.inputs()[i]->name()] = inputs[i].tensor().dims();
  Graph known = g.Clone();
  INFER_TRY(SpecializeInputs(known, shapes));
  return known;
}

/// Known to be little.
bool IsLittleWork(const Graph& g) {
  Cost sum;
  for (const auto& n : g.nodes()) {
    const auto cost = StaticCostOf(*n, &g.ops());
    if (!cost) return false;
    sum.flops += cost->flops;
    sum.bytes_read += cost->bytes_read;
    sum.bytes_written += cost->bytes_written;
  }
  return sum.flops <= kLittleFlops && sum.bytes_read + sum.bytes_written <= kLittleBytes;
}

Result<ValuesByName> RunOn(const Backend& backend, const CompileOptions& options,
                           const RunOptions& run, const Graph& g, std::span<const Datum> inputs,
                           const ValueNames* wanted) {
  INFER_ASSIGN(Graph all, WithExtentsOf(g, inputs));
  if (IsLittleWork(all)) return ReferenceValues(g, inputs, wanted);
  GraphEditor editor(all);
  for (const auto& v : all.values())
    if (v->producer() && !v->is_output() && (!wanted || wanted->contains(v->name())))
      editor.MarkOutput(v.get());
  INFER_ASSIGN(const auto program, backend.CompileOwned(std::move(all), options));
  INFER_ASSIGN(std::vector<Datum> made, RunOnce(*program, inputs, run));
  ValuesByName values;
  for (size_t i = 0; i < made.size(); ++i)
    values[program->outputs()[i]->name()] = std::move(made[i]);
  for (size_t i = 0; i < inputs.size(); ++i) values[g.inputs()[i]->name()] = inputs[i];
  return values;
}

}  // namespace

RunValues ValuesOn(std::shared_ptr<const Backend> backend, int threads, std::stop_token stop) {
  CompileOptions options;
  options.level = 0;
  options.threads = threads;
  RunOptions run;
  run.stop = std::move(stop);
  return [backend = std::move(backend), options, run](
             const Graph& g, std::span<const Datum> inputs,
             const ValueNames* wanted) -> Result<ValuesByName> {
    return RunOn(*backend, options, run, g, inputs, wanted);
  };
}

}  // namespace infer
