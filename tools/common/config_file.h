#pragma once
/// --config FILE: options in TOML.
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

/// The entries of a file that are for `command`, in its order; the command's own section wins over
/// what stands before all sections. InvalidModel "line 3: ..." where the text is no TOML, a value
/// is none that an option takes, or a section is none of `commands`.
Result<std::vector<ConfigEntry>> ParseConfig(std::string_view text, std::string_view command,
                                             std::span<const std::string> commands);

}  // namespace infer
