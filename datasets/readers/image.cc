#include "datasets/readers/image.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "lib/image/decode.h"
#include "lib/support/strings.h"

namespace infer {

Result<Tensor> DecodeImage(std::string_view bytes, const std::string& name,
                           const ReadLimits& limits) {
  Result<Tensor> pixels = DecodePixels(bytes, name, limits.max_pixels);
  // Among data, a file over the limit is a bad file, not a machine that is too small.
  if (!pixels.ok() && pixels.status().code() == Code::kResource)
    return InvalidModel(pixels.status().message());
  return pixels;
}

Result<Tensor> ReadImage(const std::string& path, const ReadLimits& limits) {
  INFER_ASSIGN(DataBytesPtr source, DataBytes::Open(path));
  if (source->size() > limits.max_pixels * 8)
    return InvalidModel(Cat(path, ": ", HumanBytes(source->size()), " is too large for an image"));
  INFER_ASSIGN(const std::string bytes, source->ReadString(0, source->size()));
  return DecodeImage(bytes, path, limits);
}

bool IsImagePath(std::string_view path) {
  std::string lower(path);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kEnds[] = {".png", ".jpg", ".jpeg", ".bmp",
                                        ".pbm", ".pgm", ".ppm",  ".pnm"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return lower.ends_with(end); });
}

}  // namespace infer
