#pragma once
/// Data inside HTML pages that need nothing else.
#include <string>
#include <string_view>

#include "tools/common/report.h"

namespace infer {

/// `page` with `data` in the place of `mark`, which stands once, in a <script
/// type="application/json">. Whatever names the data hold, none ends the element. Bytes that are no
/// UTF-8 become U+FFFD.
std::string PageWithData(std::string_view page, std::string_view mark, const Json& data);

}  // namespace infer
