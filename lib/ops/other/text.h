#pragma once
/// Texts in UTF-8, character by character.
#include <cstddef>
#include <string>
#include <string_view>

#include "lib/support/status.h"

namespace infer {

/// Whether all bytes belong to characters (RFC 3629: no longer forms than needed, no surrogates).
bool IsUtf8(std::string_view text);
/// Bytes of the first character; 1 where the text begins with none. Pre: not empty.
size_t CharacterBytes(std::string_view text);
/// Characters of a text. Pre: IsUtf8.
size_t NumCharacters(std::string_view text);
/// The text with each letter in upper or lower case, one character for one (Unicode's simple case
/// mapping as the C library's locale C.UTF-8 has it). Errors: InvalidArgument where it is no UTF-8,
/// Unsupported where it is not ASCII and the C library lacks that locale.
Result<std::string> ChangeCase(std::string_view text, bool upper);

}  // namespace infer
