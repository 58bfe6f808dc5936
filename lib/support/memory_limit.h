#pragma once
/// A limit on the memory of all tensors of the process, for models that nobody vouches for: a loop
/// without end must not take the machine's memory. Arenas and packed weights are counted as well;
/// what kernels use besides, graphs and strings are not.
#include <cstdint>
#include <new>

namespace infer {

/// Thrown where the limit leaves no room; StatusOfException names the limit.
class MemoryLimitReached : public std::bad_alloc {
 public:
  explicit MemoryLimitReached(int64_t limit) : limit_(limit) {}
  const char* what() const noexcept override { return "the limit on tensor memory is reached"; }
  int64_t limit() const { return limit_; }

 private:
  int64_t limit_;
};

/// In bytes; INT64_MAX, the default: none. What is held already counts. Thread-safe.
void SetMemoryLimit(int64_t bytes);
int64_t MemoryLimit();
/// Bytes that are charged now.
int64_t ChargedMemory();

/// Throws MemoryLimitReached where `bytes` more are too many.
void ChargeMemory(int64_t bytes);
void ReleaseMemory(int64_t bytes) noexcept;

}  // namespace infer
