#pragma once
/// Element types as the loops of simd/elements.h and simd/folds.h have them.
#include <optional>

#include "lib/tensor/dtype.h"
#include "runtime/cpu/simd/elements.h"

namespace infer {

/// nullopt of a type that the loops do not know.
std::optional<simd::Element> ElementOf(DType t);

}  // namespace infer
