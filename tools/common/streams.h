#pragma once
/// Writing to standard output and standard error.
#include <cstdio>
#include <string_view>

#include "lib/support/status.h"

namespace infer {

/// Writes all of `text` and flushes what was written before. Io when the system refuses (a full
/// disk). Where the reader has gone (`infer-opt ops | head -1`) the signal SIGPIPE counts as
/// caught: the process then ends with 128 + 13 and says nothing, as other filters do.
Status WriteStream(std::FILE* stream, std::string_view text);

}  // namespace infer
