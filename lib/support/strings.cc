#include "lib/support/strings.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <type_traits>

namespace infer {
namespace {

/// Writes `v` to `out` and returns its length. Pre: room for 32 characters.
template <typename T>
size_t WriteNumber(T v, char* out) {
  if constexpr (std::is_floating_point_v<T>) {
    const std::string_view name = std::isnan(v)      ? "nan"
                                  : std::isfinite(v) ? ""
                                  : v < 0            ? "-inf"
                                                     : "inf";
    if (!name.empty()) return name.copy(out, name.size());
  }
  return static_cast<size_t>(std::to_chars(out, out + 32, v).ptr - out);
}

template <typename T>
std::string FormatNumber(T v) {
  char buffer[32];
  return {buffer, WriteNumber(v, buffer)};
}

/// Matches one element of `pattern` (not '*') against `c`; returns its length, 0 for a mismatch.
size_t MatchOne(std::string_view pattern, char c) {
  if (pattern[0] == '?') return 1;
  if (pattern[0] == '[') {
    const size_t close = pattern.find(']', 2);
    if (close != std::string_view::npos) {
      const bool negate = pattern[1] == '!';
      const bool found = pattern.substr(negate ? 2 : 1, close - (negate ? 2 : 1)).find(c) !=
                         std::string_view::npos;
      return found != negate ? close + 1 : 0;
    }
  }
  return pattern[0] == c ? 1 : 0;
}

}  // namespace

std::string FormatFloat(float v) { return FormatNumber(v); }
std::string FormatDouble(double v) { return FormatNumber(v); }

TextPiece::TextPiece(float v) : text_(digits_, WriteNumber(v, digits_)) {}
TextPiece::TextPiece(double v) : text_(digits_, WriteNumber(v, digits_)) {}
void TextPiece::SetSigned(int64_t v) { text_ = {digits_, WriteNumber(v, digits_)}; }
void TextPiece::SetUnsigned(uint64_t v) { text_ = {digits_, WriteNumber(v, digits_)}; }

std::string Concatenate(std::initializer_list<const TextPiece*> pieces) {
  size_t size = 0;
  for (const TextPiece* p : pieces) size += p->text().size();
  std::string out;
  out.reserve(size);
  for (const TextPiece* p : pieces) out += p->text();
  return out;
}

std::optional<double> ParseDouble(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  double v = 0;
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (ec != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return v;
}

std::optional<int64_t> ParseInt(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  int64_t v = 0;
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (ec != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return v;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    out.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return out;
    begin = end + 1;
  }
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool GlobMatch(std::string_view pattern, std::string_view text) {
  // Linear with one backtracking point: only the latest '*' can still grow.
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (size_t n = p < pattern.size() ? MatchOne(pattern.substr(p), text[t]) : 0; n > 0) {
      p += n;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string HumanBytes(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double v = static_cast<double>(bytes);
  size_t u = 0;
  while (std::abs(v) >= 1024 && u + 1 < kUnits.size()) v /= 1024, ++u;
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), u == 0 ? "%.0f %s" : "%.1f %s", v, kUnits[u]);
  return buffer.data();
}

}  // namespace infer
