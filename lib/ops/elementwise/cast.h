#pragma once
/// Element conversion with all of Cast's rules: strings, saturation of fp8, rounding of e8m0.
#include <string_view>

#include "lib/tensor/tensor.h"

namespace infer {

struct CastOptions {
  bool saturate = true;                ///< fp8 and e8m0: out of range becomes the largest value
  std::string_view round_mode = "up";  ///< e8m0: "up", "down" or "nearest"
};
/// InvalidModel when a string is no number or round_mode is unknown. Integers that do not fit lose
/// their high bits; floats that do not fit an integer saturate (ONNX leaves that open), NaN gives
/// 0.
Result<Tensor> CastTensor(const Tensor& x, DType to, const CastOptions& options = {});

}  // namespace infer
