#pragma once
/// A child of fork() has the memory of an engine, but none of its threads.
#include <cstdint>

namespace infer::engine {

/// How many forks lie between the process that first asked and this one. A few nanoseconds.
uint64_t ForksSoFar();

}  // namespace infer::engine
