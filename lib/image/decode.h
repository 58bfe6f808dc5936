#pragma once
/// Image files as 8-bit pixels: PNG (libpng) and JPEG (libjpeg-turbo). Alpha is dropped, not
/// blended; 16-bit PNG loses its low byte; EXIF orientation is not applied; CMYK JPEG is refused.
/// Either library may be missing from a build: then its format is Unsupported with the way out.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/support/status.h"
#include "lib/tensor/tensor.h"

namespace infer {

/// The largest image that is decoded without being asked for: 200 MB of RGB.
inline constexpr int64_t kMaxPixels = int64_t{1} << 26;

/// u8 [height, width, channels], channels 1 (grey) or 3 (RGB), by the file's magic bytes. `name` is
/// what messages begin with. InvalidModel when broken or of a format that is not known; Resource
/// over max_pixels, before anything of that size is allocated.
Result<Tensor> DecodePixels(std::string_view bytes, const std::string& name,
                            int64_t max_pixels = kMaxPixels);

}  // namespace infer
