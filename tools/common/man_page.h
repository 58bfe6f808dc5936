#pragma once
/// Manual pages of section 1 from the option definitions, in man(7)'s macros, which groff and
/// mandoc both read.
#include <string>
#include <utility>
#include <vector>

#include "tools/common/help_text.h"

namespace infer {

/// File name ("infer-opt-fuse.1") and text of each page: the tool's, then one per command. `date`
/// ("2026-11-25") stands in the footer.
std::vector<std::pair<std::string, std::string>> ManPages(const ToolHelp& help,
                                                          const std::string& date);

}  // namespace infer
