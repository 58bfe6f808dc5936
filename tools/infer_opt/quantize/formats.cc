#include "tools/infer_opt/quantize/formats.h"

#include "lib/support/strings.h"
#include "quant/convert/qoperator.h"

namespace infer {
namespace {

/// "u8" or "s16", as the options spell them.
DType TypeOf(const std::string& text) {
  return *ParseDType(text[0] == 's' ? "i" + text.substr(1) : text);
}

}  // namespace

void TypeFlags::Declare(Options& o) {
  o.Choice("--activations", &activations, {"u8", "s8", "u16", "s16"},
           "static: integer type of activations; 16 bits compute in f32 and need opset 21");
  o.Flag("--symmetric-activations", &symmetric, "static: ranges of activations around zero");
  o.Choice("--weights", &weights, {"s8", "u8"}, "static: integer type of weights");
}

Status TypeFlags::Apply(const std::string& format, QuantScheme& scheme) const {
  scheme.activations.dtype = TypeOf(activations);
  scheme.activations.symmetric = symmetric;
  scheme.weights.dtype = TypeOf(weights);
  if (activations == "s8" && weights == "u8")
    return InvalidArgument("--activations s8 with --weights u8: no runtime has such a product");
  if (format == "qoperator" && BitWidth(scheme.activations.dtype) != 8)
    return InvalidArgument(Cat("--format qoperator has no operators for --activations ",
                               activations, "; --format qdq has"));
  return {};
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
