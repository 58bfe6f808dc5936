#pragma once
/// Where exceptions end: no exception crosses a folder (lib/support/status.h).
#include <stdexcept>
#include <string_view>

#include "lib/support/status.h"

namespace infer {

/// A condition of INFER_CHECK that does not hold: a bug. It ends what met it with kInternal instead
/// of ending the process, which may serve others.
class CheckFailure : public std::logic_error {
  using std::logic_error::logic_error;
};

/// The Status of the exception that is being handled: kResource for want of memory or threads, else
/// kInternal. Never throws, even without memory. `doing` completes the message: "while compiling",
/// "". For the `catch (...)` where a command, a compile or a run begins.
Status StatusOfException(std::string_view doing) noexcept;

}  // namespace infer
