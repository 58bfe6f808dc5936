#include "lib/image/decode.h"

#include "lib/image/codecs.h"
#include "lib/support/strings.h"

namespace infer {

Status CheckPixels(int64_t height, int64_t width, const std::string& name, int64_t max_pixels) {
  const bool none = height < 1 || width < 1;
  if (!none && height <= max_pixels / width) return {};
  return {none ? Code::kInvalidModel : Code::kResource,
          Cat(name, ": ", width, " x ", height, " pixels; the limit is ", max_pixels)};
}

Result<Tensor> DecodePixels(std::string_view bytes, const std::string& name, int64_t max_pixels) {
  if (bytes.starts_with("\x89PNG")) return DecodePng(bytes, name, max_pixels);
  if (bytes.starts_with("\xff\xd8")) return DecodeJpeg(bytes, name, max_pixels);
  return InvalidModel(Cat(name, ": neither a PNG nor a JPEG file"));
}

}  // namespace infer
