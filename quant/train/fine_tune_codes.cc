#include "quant/train/fine_tune_codes.h"

#include <map>

#include "lib/ir/roles.h"

namespace infer {
namespace {

/// Scale of each value that is rounded, by its name before it was.
std::map<std::string, float> ScalesOf(const Graph& g) {
  std::map<std::string, float> scales;
  for (const auto& n : g.nodes()) {
    if (!n->Is(Trait::kQuantize) || !n->input(1)->is_constant()) continue;
    const auto scale = static_cast<float>(n->input(1)->constant()->At(0));
    scales[n->input(0)->name()] = scale;
    for (const Use& u : n->output(0)->uses())
      if (u.user && u.user->Is(Trait::kDequantize)) scales[u.user->output(0)->name()] = scale;
  }
  return scales;
}

/// Ranges and scales that calibration chose become those that were trained.
void Refresh(const Graph& g, QuantizeReport& report) {
  const auto scales = ScalesOf(g);
  for (QuantizedValue& v : report.values) {
    const auto it = scales.find(v.name);
    if (it == scales.end() || it->second == v.scale) continue;
    const double ratio = static_cast<double>(it->second) / static_cast<double>(v.scale);
    v.range = {v.range.lo * ratio, v.range.hi * ratio};
    v.scale = it->second;
    v.error = std::nullopt;
  }
}

}  // namespace

Result<CodesReport> FineTuneCodes(Graph& quantized, QuantizeReport& report, const Graph& prepared,
                                  const QuantGrid& grid, const Graph& golden,
                                  const Samples& samples, const Backend& backend,
                                  const FineTuneOptions& options) {
  INFER_ASSIGN(const LatentCodes latent, LatentCodes::Of(quantized, prepared, grid));
  FineTuneOptions o = options;
  o.constants = latent.constants();
  o.keep_zeros = false;
  o.as_written = [&](const Graph& trained) { return latent.Written(trained); };
  Graph model = latent.graph().Clone();
  CodesReport done;
  done.codes = latent.codes();
  for (const TrainedConstant& c : latent.constants())
    if (c.is_scale) done.scales += model.FindValue(c.name)->constant()->num_elements();
  INFER_ASSIGN(done.training, FineTune(model, golden, samples, backend, o));
  if (done.training.best_step == 0) return done;
  INFER_ASSIGN(Graph written, latent.Written(model));
  done.changed = latent.Changed(quantized, written);
  quantized = std::move(written);
  Refresh(quantized, report);
  return done;
}

}  // namespace infer
