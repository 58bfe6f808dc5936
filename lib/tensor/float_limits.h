#pragma once
/// Limits of the types that masks and scores have.
#include <limits>

#include "lib/tensor/dtype.h"

namespace infer {

/// The lowest finite number of f16, bf16, f32 or f64. Pre: `t` is one of them.
inline double LowestFinite(DType t) {
  switch (t) {
    case DType::kF16: return -65504;
    case DType::kBF16: return -0x1.fep127;
    case DType::kF64: return std::numeric_limits<double>::lowest();
    default: return std::numeric_limits<float>::lowest();
  }
}

}  // namespace infer
