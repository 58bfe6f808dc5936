#include "tools/bench/precision.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "quant/convert/dynamic.h"
#include "quant/convert/layers.h"
#include "quant/convert/narrow.h"
#include "quant/convert/widen.h"
#include "quant/weight_only/round.h"
#include "quant/weight_only/weight_only.h"

namespace infer::bench {
namespace {

Status ToWeights(Graph& g, int bits, const std::stop_token& stop) {
  WeightOnlyOptions options;
  options.scheme.grid.bits = bits;
  options.stop = stop;
  return QuantizeWeightOnly(g, options).status();
}

Status ToFloats(Graph& g, DType to, const Backend& backend, const std::stop_token& stop) {
  NarrowOptions options;
  options.to = to;
  options.stop = stop;
  return NarrowFloats(g, infer::Samples(), backend, options).status();
}

}  // namespace

std::vector<std::string> PrecisionNames() {
  return {std::string(kAsIs), "fp32",         "fp16",        "bf16",
          "int8-dynamic",     "int8-weights", "int4-weights"};
}

Status CheckPrecision(const std::string& name) {
  const std::vector<std::string> names = PrecisionNames();
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  return InvalidArgument(Cat("--precision ", name, ": there are ", Join(names, ", ")));
}

Status ConvertPrecision(Graph& g, const std::string& precision, const Backend& backend,
                        const std::stop_token& stop) {
  INFER_TRY(CheckPrecision(precision));
  if (precision == kAsIs) return {};
  const std::string where = "--precision " + precision;
  if (precision != "fp16" && precision != "bf16" && HasHalfLayers(g))
    INFER_TRY(WidenFloats(g).In(where));
  INFER_TRY(CheckIsFloat(g).In(where));
  if (precision == "fp32") return Optimize(g).status().In(where);
  if (precision == "fp16") return ToFloats(g, DType::kF16, backend, stop).In(where);
  if (precision == "bf16") return ToFloats(g, DType::kBF16, backend, stop).In(where);
  if (precision == "int8-dynamic") return QuantizeDynamic(g).status().In(where);
  return ToWeights(g, precision == "int8-weights" ? 8 : 4, stop).In(where);
}

}  // namespace infer::bench
