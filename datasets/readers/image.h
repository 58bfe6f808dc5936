#pragma once
/// Image files as tensors; what is decoded, and how, stands in lib/image/decode.h.
#include "datasets/readers/data_bytes.h"
#include "lib/tensor/tensor.h"

namespace infer {

/// u8 [height, width, channels], channels 1 (grey) or 3 (RGB), by the file's magic bytes.
/// InvalidModel when broken, over max_pixels, or of another format.
Result<Tensor> DecodeImage(std::string_view bytes, const std::string& name,
                           const ReadLimits& limits = {});
Result<Tensor> ReadImage(const std::string& path, const ReadLimits& limits = {});
/// By extension, in any case: .png .jpg .jpeg .bmp .pbm .pgm .ppm .pnm.
bool IsImagePath(std::string_view path);

}  // namespace infer
