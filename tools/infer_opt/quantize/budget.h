#pragma once
/// A limit of time as users write it.
#include <chrono>
#include <string>

#include "lib/support/status.h"

namespace infer {

/// "90s", "10min", "1h". InvalidArgument, with the name of the option, for anything else and for
/// what is not above 0.
Result<std::chrono::steady_clock::duration> ParseBudget(const std::string& option,
                                                        const std::string& text);

}  // namespace infer
