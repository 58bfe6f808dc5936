#pragma once
/// Where exceptions end: no exception crosses a folder (lib/support/status.h).
#include <string_view>

#include "lib/support/status.h"

namespace infer {

/// The Status of the exception that is being handled: kResource for want of memory or threads, else
/// kInternal. Never throws, even without memory. `doing` completes the message: "while compiling",
/// "". For the `catch (...)` where a command, a compile or a run begins.
Status StatusOfException(std::string_view doing) noexcept;

}  // namespace infer
