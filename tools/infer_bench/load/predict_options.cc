#include "tools/infer_bench/load/predict_options.h"

#include "lib/support/strings.h"
#include "tools/common/model_options.h"

namespace infer::bench {

void PredictOptions::Declare(Options& o) {
  o.Value("--machine", &machine,
          "Of the engine: what `infer-bench machine` wrote; recommendations go by predicted times, "
          "too",
          PathUse::kRead);
  o.Values("--recommend-precisions", &precisions,
           "Of --machine: precisions that are predicted beside the model's own");
  o.Values("--recommend-variants", &variants,
           "Of --machine: files of variants that are predicted beside the model", PathUse::kRead);
}

Status PredictOptions::Check(const ServeOptions& serve, const std::string& device) const {
  if (machine.empty())
    return precisions.empty() && variants.empty()
               ? Status()
               : InvalidArgument(
                     "--recommend-precisions and --recommend-variants go with --machine");
  if (!serve.engine) return InvalidArgument("--machine goes with --engine");
  if (!serve.route.empty() || !serve.also.empty())
    return InvalidArgument("--machine predicts for one model: no --route and no --also");
  if (device != DeviceOptions().device)
    return Unsupported(Cat("--machine: predictions are of the ", DeviceOptions().device,
                           " alone, no --device ", device));
  return {};
}

}  // namespace infer::bench
