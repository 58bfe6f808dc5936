#pragma once
/// JSON and TOML that others wrote.
#include <string_view>

#include "tools/common/report.h"

namespace infer {

/// At most 32 levels deep: what compares and prints JSON recurses. InvalidArgument.
Result<Json> ParseJson(std::string_view text);

/// A TOML text as the JSON that says the same. InvalidModel "line 3: ...": no TOML, dates and
/// times, which JSON has not, or deeper than 32 levels.
Result<Json> JsonOfToml(std::string_view text);

}  // namespace infer
