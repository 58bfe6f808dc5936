#pragma once
/// Loops that keep a core's multiply-add units, or its loads, as busy as they can be. Not kernels:
/// they compute nothing that is used.
#include <cstddef>
#include <cstdint>

namespace infer {

struct PeakLoops {
  double f32_ops, int8_ops;  ///< operations of one round; a multiply-add counts as two
  void (*f32)(int64_t rounds);
  void (*int8)(int64_t rounds);
  void (*read)(const std::byte* p, int64_t bytes);  ///< Pre: bytes is a multiple of 1024
};

/// For the widest vectors of this processor, whatever INFER_MAX_ISA says.
PeakLoops BestPeakLoops();

}  // namespace infer
