#include "tools/infer_opt/compare/nearer.h"

#include <algorithm>

#include "runtime/reference/backend.h"

namespace infer {
namespace {

constexpr int64_t kMostFlops = 5'000'000'000;

/// Whether a run on `inputs` is short enough.
Result<bool> IsSmall(const Graph& g, const std::vector<Datum>& inputs) {
  INFER_ASSIGN(const auto program, MakeReferenceBackend()->Compile(g, {}));
  std::vector<Dims> dims;
  for (const Datum& d : inputs) dims.push_back(d.is_tensor() ? d.tensor().dims() : Dims());
  INFER_ASSIGN(const std::vector<Cost> costs, program->CostsFor(dims));
  int64_t flops = 0;
  for (const Cost& c : costs) flops += c.flops;
  return flops <= kMostFlops;
}

}  // namespace

Result<std::optional<FromReference>> CompareWithReference(const Graph& g, const OutputSource& ours,
                                                          const OutputSource& theirs,
                                                          const Samples& samples,
                                                          const std::stop_token& stop) {
  using Answer = std::optional<FromReference>;
  if (samples.count == 0) return Answer();
  INFER_ASSIGN(const std::vector<Datum> inputs, samples.get(0));
  INFER_ASSIGN(const bool small, IsSmall(g, inputs));
  if (!small) return Answer();
  INFER_ASSIGN(const OutputSource reference, RunsOf(g, *MakeReferenceBackend(), 0, 0, stop));
  INFER_ASSIGN(std::vector<Datum> outputs, reference(0, inputs));
  const OutputSource kept = [&outputs](int64_t, const auto&) -> Result<std::vector<Datum>> {
    return outputs;
  };
  Samples first = samples;
  first.count = 1;
  const auto distance = [&](const OutputSource& source) -> Result<std::optional<double>> {
    INFER_ASSIGN(const AccuracyReport report,
                 CompareSources(kept, source, g, first, {.stop = stop}));
    std::optional<double> worst;
    for (const ValueAccuracy& v : report.outputs)
      if (v.is_float) worst = std::max(worst.value_or(0), v.error_ratio());
    return worst;
  };
  INFER_ASSIGN(const auto of_ours, distance(ours));
  INFER_ASSIGN(const auto of_theirs, distance(theirs));
  if (!of_ours || !of_theirs) return Answer();
  return Answer({*of_ours, *of_theirs});
}

}  // namespace infer
