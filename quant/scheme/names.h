#pragma once
/// Names of what quantization writes beside a value.
#include <string>
#include <string_view>

#include "lib/support/strings.h"

namespace infer {

/// NAME_WHAT; WHAT alone, to which the editor adds a number, where NAME is long. Each name stands
/// in a file three times and more, and exporters make some of 100 characters: in small models they
/// would outweigh what quantization saves.
inline std::string NameBeside(std::string_view name, std::string_view what) {
  constexpr size_t kLongest = 16;
  return name.size() <= kLongest ? Cat(name, "_", what) : std::string(what);
}

/// The constant that codes of this name stand for: NAME of NAME_quantized and of NAME_codes, as the
/// writers call them; "" for other names.
inline std::string OriginalName(std::string_view codes) {
  for (const std::string_view suffix : {"_quantized", "_codes"})
    if (codes.ends_with(suffix)) return std::string(codes.substr(0, codes.size() - suffix.size()));
  return "";
}

}  // namespace infer
