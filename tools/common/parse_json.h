#pragma once
/// JSON that others wrote.
#include <string_view>

#include "tools/common/report.h"

namespace infer {

/// At most 32 levels deep: what compares and prints JSON recurses. InvalidArgument.
Result<Json> ParseJson(std::string_view text);

}  // namespace infer
