#pragma once
/// Small string helpers: concatenation, joining, splitting, number parsing. Locale-free.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace infer {

/// Shortest text that reads back as the same number ("0.1", "1e-05", "inf", "nan").
std::string FormatFloat(float v);
std::string FormatDouble(double v);
/// Whole-string conversion; nullopt for anything but one number.
std::optional<double> ParseDouble(std::string_view text);
std::optional<int64_t> ParseInt(std::string_view text);

namespace strings_internal {
inline void Append(std::string& out, std::string_view s) { out += s; }
inline void Append(std::string& out, const char* s) { out += s; }
inline void Append(std::string& out, char c) { out += c; }
template <typename T>
  requires std::is_arithmetic_v<T>
void Append(std::string& out, T v) {
  if constexpr (std::is_same_v<T, bool>)
    out += v ? "true" : "false";
  else if constexpr (std::is_same_v<T, float>)
    out += FormatFloat(v);
  else if constexpr (std::is_floating_point_v<T>)
    out += FormatDouble(static_cast<double>(v));
  else
    out += std::to_string(v);
}
}  // namespace strings_internal

/// Cat("node ", name, ": rank ", 3) == "node conv1: rank 3".
template <typename... Args>
std::string Cat(const Args&... args) {
  std::string out;
  (strings_internal::Append(out, args), ...);
  return out;
}

/// Joins anything Cat takes with `separator` between elements.
template <typename Range>
std::string Join(const Range& range, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& x : range) {
    if (!first) out += separator;
    first = false;
    strings_internal::Append(out, x);
  }
  return out;
}

/// Splits at every `separator`; "" gives one empty piece.
std::vector<std::string> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);
/// Shell-style match of the whole text: '*' any run, '?' one character, '[ab]' one of a set.
bool GlobMatch(std::string_view pattern, std::string_view text);
/// 1536 -> "1.5 KiB".
std::string HumanBytes(int64_t bytes);

}  // namespace infer
