#include "lib/ops/other/text.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <limits>

#include "lib/support/utf8.h"

namespace infer {
namespace {

static_assert(std::numeric_limits<wchar_t>::max() >= 0x10ffff, "a wchar_t holds any character");

/// The C library's table of characters; it stays until the process ends. Null where it has none.
locale_t Unicode() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

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
    const Utf8Character c = FirstCharacter(rest);
    if (c.bytes == 0) return InvalidArgument("a text is no UTF-8");
    const wint_t wide = c.code;
    AppendCharacter(upper ? towupper_l(wide, unicode) : towlower_l(wide, unicode), out);
    rest.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace infer
