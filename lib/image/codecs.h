#pragma once
/// One decoder per format, for decode.cc; the contract is that of DecodePixels.
#include "lib/image/decode.h"

namespace infer {

inline bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// InvalidModel without pixels, Resource with more than max_pixels.
Status CheckPixels(int64_t height, int64_t width, const std::string& name, int64_t max_pixels);

Result<Tensor> DecodePng(std::string_view bytes, const std::string& name, int64_t max_pixels);
Result<Tensor> DecodeJpeg(std::string_view bytes, const std::string& name, int64_t max_pixels);
Result<Tensor> DecodeBmp(std::string_view bytes, const std::string& name, int64_t max_pixels);
/// Pre: begins with "P" and a digit from 1 to 6.
Result<Tensor> DecodePnm(std::string_view bytes, const std::string& name, int64_t max_pixels);

}  // namespace infer
