#pragma once
/// What the allocator gave out, counted where the C library lets itself be wrapped: not under
/// sanitizers, which wrap it themselves. Off until asked for; then an allocation costs some
/// nanoseconds more.
#include <cstdint>
#include <optional>

namespace infer::bench {

/// From here on. What was allocated before does not count; freeing it does not either.
void CountAllocations();
struct AllocatedBytes {
  int64_t now = 0, peak = 0;
};
/// nullopt: not counted in this build.
std::optional<AllocatedBytes> Allocated();

}  // namespace infer::bench
