#include "lib/support/readable.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "lib/support/strings.h"
#include "lib/support/utf8.h"

namespace infer {
namespace {

std::string Print(const char* format, int digits, double v) {
  if (!std::isfinite(v)) return FormatDouble(v);
  if (v == 0) v = 0;             // -0 says nothing to people
  std::array<char, 400> buffer;  // %f of the largest double has 309 digits before the point
  const int n = std::snprintf(buffer.data(), buffer.size(), format, digits, v);
  return std::string(buffer.data(), static_cast<size_t>(n));
}

/// Length of the UTF-8 character at the beginning of `text`; 0 where there is none. Control
/// characters, and those that reverse the text behind them, count as none.
size_t CharacterLength(std::string_view text) {
  const auto [code, bytes] = FirstCharacter(text);
  const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool reverses = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return is_control || reverses ? 0 : bytes;
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
