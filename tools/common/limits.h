#pragma once
/// Limits on what a command may take of the machine: --max-memory and --timeout.
#include <cstdint>
#include <string_view>

#include "lib/support/status.h"

namespace infer {

/// No more tensors than the machine has memory for: the least of what it has with its swap, the
/// limits of the control group and of the process (RLIMIT_AS, RLIMIT_DATA). Past that the kernel
/// would end the process without a word. The last eighth of a limit on addresses, at most 512 MiB,
/// is left to code that cannot say that it got no memory.
void LimitMemoryToMachine();

/// "2G", "512MiB", "1000000": bytes; K, M, G and T are powers of 1024. InvalidArgument.
Result<int64_t> ParseBytes(std::string_view text);

/// At most `bytes` for all tensors, and with what else the process allocates (RLIMIT_DATA, which
/// processes that it starts inherit). Resource: it holds more already.
Status LimitMemory(int64_t bytes);

}  // namespace infer
