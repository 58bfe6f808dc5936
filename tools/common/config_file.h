#pragma once
/// --config FILE: options in a part of TOML that can be checked line by line.
///
///     threads = 2                 # an option of any command, without its dashes
///     set = ["batch=1", "n=4"]    # given several times; the list may span lines
///     [quantize]                  # what follows is for this command alone
///     per-tensor = true           # a flag
#include <span>
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer {

struct ConfigEntry {
  std::string option;               ///< without dashes
  std::vector<std::string> values;  ///< "true" and "false" for a flag
  int line = 0;
};

/// The entries of a file that are for `command`. InvalidModel "line 3: ..." where the text is
/// broken, an option stands twice or a section is none of `commands`.
Result<std::vector<ConfigEntry>> ParseConfig(std::string_view text, std::string_view command,
                                             std::span<const std::string> commands);

}  // namespace infer
