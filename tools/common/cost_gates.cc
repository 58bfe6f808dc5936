#include "tools/common/cost_gates.h"

#include "passes/pass/pipeline.h"
#include "tools/common/pair_timing.h"

namespace infer {
namespace {

Result<std::shared_ptr<const Program>> Rewritten(const Graph& g, const DeviceOptions& device) {
  Graph rewritten = g.Clone();
  INFER_TRY(Optimize(rewritten).status());
  return CompileOwnedFor(std::move(rewritten), device);
}

}  // namespace

Result<std::vector<GateResult>> CheckCosts(Context& context, const GateFlags& flags,
                                           const DeviceOptions& device, const CostSide* golden,
                                           const CostSide& candidate, const Samples& samples,
                                           Json& report) {
  std::vector<GateResult> results;
  if (const auto size = flags.size())
    results.push_back(CheckSize(*size, golden ? golden->bytes : -1, candidate.bytes));
  const auto speedup = flags.speedup();
  if (!speedup) return results;
  if (!golden || samples.count == 0)
    return InvalidArgument("--min-speedup needs a golden model and data to run both on");
  INFER_ASSIGN(const auto inputs, samples.get(0));
  INFER_ASSIGN(const Summary ratio,
               MeasureSpeedup(context, golden->graph, candidate.graph, device, inputs, report));
  results.push_back(CheckSpeedup(*speedup, ratio.median, {ratio.median_low, ratio.median_high},
                                 flags.allow_inconclusive));
  return results;
}

Result<Summary> MeasureSpeedup(Context& context, const Graph& golden, const Graph& candidate,
                               const DeviceOptions& device, const std::vector<Datum>& inputs,
                               Json& report) {
  context.Step("measure speed-up");
  INFER_ASSIGN(const auto before, Rewritten(golden, device.InF32()));
  INFER_ASSIGN(const auto after, Rewritten(candidate, device));
  // The ratio is before / after: how many times as fast the candidate is.
  INFER_ASSIGN(const PairTiming t, TimePair(*after, *before, inputs, context.stop()));
  report["latency"] = {
      {"golden_ms", ToJson(t.b)}, {"candidate_ms", ToJson(t.a)}, {"speedup", ToJson(t.ratio)}};
  return t.ratio;
}

}  // namespace infer
