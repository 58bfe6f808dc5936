#pragma once
/// Upper and lower case of texts in UTF-8.
#include <string>
#include <string_view>

#include "lib/support/status.h"

namespace infer {

/// The text with each letter in upper or lower case, one character for one (Unicode's simple case
/// mapping as the C library's locale C.UTF-8 has it). Errors: InvalidArgument where it is no UTF-8,
/// Unsupported where it is not ASCII and the C library lacks that locale.
Result<std::string> ChangeCase(std::string_view text, bool upper);

}  // namespace infer
