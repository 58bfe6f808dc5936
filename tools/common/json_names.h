#pragma once
/// Names in JSON. A name of a model may hold any bytes, a JSON text only UTF-8: nlohmann's dump()
/// throws for others, and with U+FFFD in their place two names may become one.
#include <string>
#include <string_view>

#include "tools/common/report.h"

namespace infer {

/// The name as UTF-8, from which NameOfJson has it back: a byte that is no UTF-8 becomes one of the
/// private characters U+F780 to U+F7FF, and so do the bytes of those themselves. What is UTF-8, and
/// has none of them, stays. For keys, and whatever is read again.
std::string JsonName(std::string_view name);
std::string NameOfJson(std::string_view text);

/// One line without its end, U+FFFD for bytes that are no UTF-8. Never throws because of them.
std::string CompactJson(const Json& j);

}  // namespace infer
