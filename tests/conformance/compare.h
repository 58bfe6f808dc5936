#pragma once
/// Expected against computed values, with the rules of ONNX's own backend runner: the same type,
/// the same extents, |got - want| <= atol + rtol * |want|; NaN equals NaN; integers and strings too
/// go through that rule, respectively equality.
#include <string>

#include "lib/tensor/datum.h"

namespace infer::conformance {

inline constexpr double kRelative = 1e-3;
inline constexpr double kAbsolute = 1e-7;

/// "" when `got` is as good as `want`, else what differs first.
std::string Difference(const Datum& got, const Datum& want);

}  // namespace infer::conformance
