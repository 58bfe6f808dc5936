#pragma once
/// How the report of a quantization is printed.
#include <string>

#include "quant/scheme/report.h"

namespace infer {

/// How many layers have which precision, what the mode does not cover (the most frequent operators)
/// and a table of the layers that it covers and leaves in f32, one row per operator and reason.
std::string QuantizeSummary(const QuantizeReport& r);

}  // namespace infer
