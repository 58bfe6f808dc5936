#pragma once
/// A child of fork() has the memory of its parent, but none of the threads.
#include <cstdint>

namespace infer {

/// How many forks lie between the process that first asked and this one. A few nanoseconds.
uint64_t ForksSoFar();

}  // namespace infer
