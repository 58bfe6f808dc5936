#pragma once
/// Small string helpers: concatenation, joining, splitting, number parsing. Locale-free.
#include <cstdint>
#include <initializer_list>
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

/// What Cat and Join take: text, one character, a bool or a number, as text. Lives as long as what
/// it was made of, so only as an argument.
class TextPiece {
 public:
  TextPiece(std::string_view s) : text_(s) {}    // NOLINT: implicit on purpose, as all below
  TextPiece(const std::string& s) : text_(s) {}  // NOLINT
  TextPiece(const char* s) : text_(s) {}         // NOLINT
  TextPiece(char c) : text_(digits_, 1) { digits_[0] = c; }  // NOLINT
  TextPiece(float v);                                        // NOLINT
  TextPiece(double v);                                       // NOLINT
  template <typename T>
    requires std::is_integral_v<T>
  TextPiece(T v) {  // NOLINT
    if constexpr (std::is_same_v<T, bool>)
      text_ = v ? "true" : "false";
    else if constexpr (std::is_signed_v<T>)
      SetSigned(v);
    else
      SetUnsigned(v);
  }
  TextPiece(const TextPiece&) = delete;
  TextPiece& operator=(const TextPiece&) = delete;
  std::string_view text() const { return text_; }

 private:
  void SetSigned(int64_t v);
  void SetUnsigned(uint64_t v);

  std::string_view text_;
  char digits_[32];  // of a number; text_ views them
};

/// The pieces one after another.
std::string Concatenate(std::initializer_list<const TextPiece*> pieces);

/// Cat("node ", name, ": rank ", 3) == "node conv1: rank 3".
template <typename... Args>
std::string Cat(const Args&... args) {
  // A function of its own for the work: this is called from more than a thousand places.
  return [](const auto&... pieces) { return Concatenate({&pieces...}); }(TextPiece(args)...);
}

/// Joins anything Cat takes with `separator` between elements.
template <typename Range>
std::string Join(const Range& range, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& x : range) {
    if (!first) out += separator;
    first = false;
    out += TextPiece(x).text();
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
