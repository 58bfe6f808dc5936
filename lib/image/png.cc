#include "lib/image/codecs.h"
#include "lib/support/strings.h"

#ifdef INFER_HAVE_PNG
#include <png.h>

namespace infer {

Result<Tensor> DecodePng(std::string_view bytes, const std::string& name, int64_t max_pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto fail = [&] {
    std::string why = image.message;
    png_image_free(&image);
    return InvalidModel(Cat(name, ": broken PNG: ", why));
  };
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) return fail();
  const int64_t height = image.height, width = image.width;
  if (Status s = CheckPixels(height, width, name, max_pixels); !s.ok()) {
    png_image_free(&image);
    return s;
  }
  const int64_t colours = image.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
  // With alpha asked for, nothing is blended; it is dropped below.
  const bool alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
  image.format =
      (colours == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY) | (alpha ? PNG_FORMAT_FLAG_ALPHA : 0u);
  const int64_t stored = colours + alpha;
  Tensor pixels(DType::kU8, {height, width, stored});
  if (!png_image_finish_read(&image, nullptr, pixels.mutable_raw(), 0, nullptr)) return fail();
  if (!alpha) return pixels;
  Tensor out(DType::kU8, {height, width, colours});
  const uint8_t* from = pixels.data<uint8_t>().data();
  uint8_t* to = out.mutable_data<uint8_t>().data();
  for (int64_t i = 0; i < height * width; ++i)
    for (int64_t c = 0; c < colours; ++c) to[i * colours + c] = from[i * stored + c];
  return out;
}

}  // namespace infer
#else
namespace infer {

Result<Tensor> DecodePng(std::string_view, const std::string& name, int64_t) {
  return Unsupported(Cat(name, ": this build has no libpng; convert the image to .npy"));
}

}  // namespace infer
#endif
