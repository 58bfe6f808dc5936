#include "tools/infer_opt/quantize/worth.h"

#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/common/pair_timing.h"

namespace infer {

Result<bool> TellWorth(Context& context, const WorthSide& fp32, const WorthSide& candidate,
                       const DeviceOptions& device, const Samples& samples,
                       const std::string& model_path, Json& report) {
  context.Step("time beside the fused FP32 model");
  INFER_ASSIGN(const auto inputs, samples.get(0));
  std::vector<std::shared_ptr<const Program>> programs;
  for (const Graph* g : {&fp32.graph, &candidate.graph}) {
    Graph fused = g->Clone();
    INFER_TRY(Optimize(fused).status());
    INFER_ASSIGN(auto program, CompileOwnedFor(std::move(fused), device));
    programs.push_back(std::move(program));
  }
  Worth w{.fused_bytes = fp32.bytes, .bytes = candidate.bytes, .told = candidate.told};
  INFER_ASSIGN(w.timing, TimeSuspects([&] {
                 return TimePair(*programs[0], *programs[1], inputs, context.stop());
               }));
  context.PrintLine(Cat("\n", ToText(w)));
  report["worth"] = ToJson(w);
  if (!w.worth()) context.Warn(WarningOf(w, model_path));
  return w.worth();
}

void TellLarger(Context& context, int64_t fused_bytes, int64_t bytes,
                const std::string& model_path) {
  const std::string warning = WarningOfBytes(fused_bytes, bytes, model_path);
  if (!warning.empty()) context.Warn(warning);
}

}  // namespace infer
