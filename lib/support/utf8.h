#pragma once
/// Characters of UTF-8 (RFC 3629: no longer forms than needed, no surrogates).
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace infer {

struct Utf8Character {
  char32_t code = 0;
  size_t bytes = 0;  ///< 0: there is none
};

/// The character at the beginning of `text`.
Utf8Character FirstCharacter(std::string_view text);
/// Whether all bytes belong to characters.
bool IsUtf8(std::string_view text);
/// Characters of a text. Pre: IsUtf8.
size_t NumCharacters(std::string_view text);
/// Adds a character to `out`; false where no character has this number.
bool AppendCharacter(char32_t code, std::string& out);

}  // namespace infer
