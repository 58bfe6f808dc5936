#include "lib/image/decode.h"

#include "lib/image/codecs.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kJp2 = "\0\0\0\x0cjP  \r\n\x87\n"sv;

Status Refused(const std::string& name, std::string_view format) {
  return Unsupported(Cat(name, ": a ", format, " image; convert it to PNG, JPEG, BMP or PNM"));
}

}  // namespace

Status CheckPixels(int64_t height, int64_t width, const std::string& name, int64_t max_pixels) {
  const bool none = height < 1 || width < 1;
  if (!none && height <= max_pixels / width) return {};
  return {none ? Code::kInvalidModel : Code::kResource,
          Cat(name, ": ", width, " x ", height, " pixels; the limit is ", max_pixels)};
}

Result<Tensor> DecodePixels(std::string_view bytes, const std::string& name, int64_t max_pixels) {
  if (bytes.starts_with("\x89PNG")) return DecodePng(bytes, name, max_pixels);
  if (bytes.starts_with("\xff\xd8")) return DecodeJpeg(bytes, name, max_pixels);
  if (bytes.starts_with("BM")) return DecodeBmp(bytes, name, max_pixels);
  if (bytes.size() > 2 && bytes[0] == 'P' && (IsSpace(bytes[2]) || bytes[2] == '#')) {
    if (bytes[1] >= '1' && bytes[1] <= '6') return DecodePnm(bytes, name, max_pixels);
    if (bytes[1] == '7') return Refused(name, "PAM");
  }
  if (bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP"))
    return Refused(name, "WebP");
  if (bytes.starts_with("\xff\x4f\xff\x51") || bytes.substr(0, 12) == kJp2)
    return Refused(name, "JPEG 2000");
  if (bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv)) return Refused(name, "TIFF");
  return InvalidModel(Cat(name, ": neither a PNG, JPEG, BMP nor PNM file"));
}

}  // namespace infer
