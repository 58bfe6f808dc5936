#pragma once
/// Image files as 8-bit pixels: PNG (libpng), JPEG (libjpeg-turbo), BMP without run lengths, and
/// PBM, PGM and PPM. Alpha is dropped, not blended; 16-bit PNG loses its low byte, PNM is scaled to
/// 255; EXIF orientation is not applied. CMYK JPEG, WebP, JPEG 2000, TIFF and PAM are Unsupported.
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

/// The grey of ITU-R BT.601: (19595 R + 38470 G + 7471 B + 2^15) / 2^16, as Pillow computes it.
inline uint8_t Luma(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

}  // namespace infer
