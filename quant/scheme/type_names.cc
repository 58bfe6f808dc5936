#include "quant/scheme/type_names.h"

#include <optional>
#include <string>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// Of "u8" or "s16"; nullopt for others.
std::optional<DType> IntegerNamed(std::string_view text) {
  if (text == "s8") return DType::kI8;
  if (text == "u8") return DType::kU8;
  if (text == "s16") return DType::kI16;
  if (text == "u16") return DType::kU16;
  return std::nullopt;
}

}  // namespace

Status ChooseTypes(std::string_view activations, std::string_view weights, QuantScheme& scheme) {
  const auto a = IntegerNamed(activations), w = IntegerNamed(weights);
  if (!a) return InvalidArgument(Cat("activations '", activations, "': u8, s8, u16 or s16"));
  if (!w || BitWidth(*w) != 8) return InvalidArgument(Cat("weights '", weights, "': s8 or u8"));
  if (*a == DType::kI8 && *w == DType::kU8)
    return InvalidArgument("activations s8 with weights u8: no runtime has such a product");
  scheme.activations.dtype = *a;
  scheme.weights.dtype = *w;
  return {};
}

Status CheckFormat(std::string_view format, const QuantScheme& scheme) {
  if (format != "qoperator" || BitWidth(scheme.activations.dtype) == 8) return {};
  return InvalidArgument(Cat("format qoperator has no operators for activations of type ",
                             Name(scheme.activations.dtype), "; qdq has"));
}

}  // namespace infer
