#pragma once
/// What a tool tells of itself beside --help: `TOOL completion SHELL` prints a completion script,
/// `TOOL help --man DIR` writes the manual pages.
#include <optional>
#include <string>
#include <vector>

#include "lib/support/status.h"
#include "tools/common/help_text.h"

namespace infer {

/// The page of the command `completion`.
HelpPage CompletionPage(const std::string& tool);

/// What goes to stdout where the arguments ask for one of both; nullopt: they do not. The pages get
/// the date of $SOURCE_DATE_EPOCH, else of today. InvalidArgument, Io.
std::optional<Result<std::string>> GeneratedHelp(const std::vector<std::string>& arguments,
                                                 const ToolHelp& help);

}  // namespace infer
