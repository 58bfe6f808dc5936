#include "lib/ops/other/text.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "lib/support/strings.h"

namespace infer {
namespace {

static_assert(std::numeric_limits<wchar_t>::max() >= 0x10ffff, "a wchar_t holds any character");

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  ///< 0: the text begins with no character
};

Character First(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {.code = first, .bytes = 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  uint32_t code = first & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3f);
  }
  const bool is_too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (is_too_long || is_surrogate || code > 0x10ffff) return {};
  return {.code = code, .bytes = bytes};
}

void Append(uint32_t code, std::string& out) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | (code >> shift & 0x3f)));
  };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xc0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xf0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// The C library's table of characters; it stays until the process ends. Null where it has none.
locale_t Unicode() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

size_t CharacterBytes(std::string_view text) { return std::max<size_t>(First(text).bytes, 1); }

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = First(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

size_t NumCharacters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

Result<std::string> ChangeCase(std::string_view text, bool upper) {
  if (IsAscii(text)) {
    std::string out(text);
    for (char& c : out)
      if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = static_cast<char>(c ^ 0x20);
    return out;
  }
  const locale_t unicode = Unicode();
  if (unicode == nullptr)
    return Unsupported("upper and lower case beyond ASCII: the C library has no locale C.UTF-8");
  std::string out;
  out.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const Character c = First(rest);
    if (c.bytes == 0) return InvalidArgument("a text is no UTF-8");
    const auto wide = static_cast<wint_t>(c.code);
    Append(static_cast<uint32_t>(upper ? towupper_l(wide, unicode) : towlower_l(wide, unicode)),
           out);
    rest.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace infer
