#include "lib/support/readable.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "lib/support/strings.h"

namespace infer {
namespace {

std::string Print(const char* format, int digits, double v) {
  if (!std::isfinite(v)) return FormatDouble(v);
  if (v == 0) v = 0;             // -0 says nothing to people
  std::array<char, 400> buffer;  // %f of the largest double has 309 digits before the point
  const int n = std::snprintf(buffer.data(), buffer.size(), format, digits, v);
  return std::string(buffer.data(), static_cast<size_t>(n));
}

unsigned char Byte(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

/// Length of the UTF-8 character at the beginning of `text`; 0 where there is none. Control
/// characters count as none.
size_t CharacterLength(std::string_view text) {
  const unsigned char first = Byte(text, 0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xf5   ? 0
                        : first >= 0xf0 ? 4
                        : first >= 0xe0 ? 3
                        : first >= 0xc2 ? 2
                                        : 0;
  for (size_t i = 1; i < length; ++i)
    if ((Byte(text, i) & 0xc0) != 0x80) return 0;
  const unsigned char second = Byte(text, 1);
  if (first == 0xc2 && second < 0xa0) return 0;  // U+0080 to U+009F: control characters
  if ((first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90)) return 0;  // too long
  if ((first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90)) return 0;
  // U+202A to U+202E and U+2066 to U+2069 reverse the text behind them.
  const unsigned char third = Byte(text, 2);
  if (first == 0xe2 && second == 0x80 && third >= 0xaa && third <= 0xae) return 0;
  if (first == 0xe2 && second == 0x81 && third >= 0xa6 && third <= 0xa9) return 0;
  return length;
}

std::string Escaped(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return Cat("\\x", kDigits[byte >> 4], kDigits[byte & 15]);
}

}  // namespace

std::string Fixed(double v, int digits) { return Print("%.*f", digits, v); }
std::string Rounded(double v, int digits) { return Print("%.*g", digits, v); }

std::string Printable(std::string_view text, EndsOfLine keep) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t n = CharacterLength(text);
    if (text[0] == '\n' &&
        (keep == EndsOfLine::kAll || (keep == EndsOfLine::kIndented && text.substr(1, 2) == "  ")))
      n = 1;
    if (n > 0)
      out += text.substr(0, n);
    else
      out += Escaped(text[0]);
    text.remove_prefix(n > 0 ? n : 1);
  }
  return out;
}

}  // namespace infer
