#include "quant/search/policy.h"

namespace infer {

std::string_view Name(Precision p) {
  switch (p) {
    case Precision::kF32: return "f32";
    case Precision::kInt8: return "int8";
    case Precision::kF16Weights: return "f16-weights";
    case Precision::kInt8Weights: return "int8-weights";
    case Precision::kInt8NBits: return "int8-nbits";
    case Precision::kInt4NBits: return "int4-nbits";
    case Precision::kInt4Weights: return "int4-weights";
    case Precision::kInt4Wide: return "int4-weights-256";
  }
  return "";
}

std::optional<Precision> ParsePrecision(std::string_view name) {
  for (const Precision p : kPrecisions)
    if (Name(p) == name) return p;
  return std::nullopt;
}

}  // namespace infer
