#include "tools/infer_opt/quantize/formats.h"

#include "quant/convert/qoperator.h"
#include "quant/scheme/type_names.h"

namespace infer {

void TypeFlags::Declare(Options& o) {
  o.Choice("--activations", &activations, {"u8", "s8", "u16", "s16"},
           "static: integer type of activations; 16 bits compute in f32 and need opset 21");
  o.Flag("--symmetric-activations", &symmetric, "static: ranges of activations around zero");
  o.Choice("--weights", &weights, {"s8", "u8"}, "static: integer type of weights");
}

Status TypeFlags::Apply(const std::string& format, QuantScheme& scheme) const {
  scheme.activations.symmetric = symmetric;
  INFER_TRY(ChooseTypes(activations, weights, scheme));
  return CheckFormat(format, scheme);
}

Status WriteFormat(const QuantizeJob& job, Graph& g, QuantizeReport& done, Json& report) {
  report["format"] = job.format;
  if (job.format != "qoperator") return {};
  INFER_ASSIGN(const QOperatorReport made, ConvertToQOperator(g, done));
  report["qoperator"] = {{"converted", made.converted}, {"kept", Json::array()}};
  for (const auto& [name, reason] : made.kept)
    report["qoperator"]["kept"].push_back({{"name", name}, {"reason", reason}});
  return {};
}

}  // namespace infer
