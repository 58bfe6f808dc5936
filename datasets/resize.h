#pragma once
/// Antialiased image resizing on 8-bit pixels.
#include "datasets/preprocess.h"

namespace infer {

/// u8 [h, w, c] -> u8 [height, width, c] with the law stated in preprocess.h. Pre: extents >= 1.
Tensor ResizeImage(const Tensor& image, int64_t height, int64_t width, Preprocess::Interp interp);

}  // namespace infer
