#include "tools/bench/allocations.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define INFER_WRAPPED_ALREADY
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define INFER_WRAPPED_ALREADY
#endif

namespace infer::bench {

#ifdef INFER_WRAPPED_ALREADY

void CountAllocations() {}
std::optional<AllocatedBytes> Allocated() { return std::nullopt; }

#else

namespace {

std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_now{0}, g_peak{0};

void Took(void* p) {
  if (!p || !g_counting.load(std::memory_order_relaxed)) return;
  const auto bytes = static_cast<int64_t>(::malloc_usable_size(p));
  const int64_t now = g_now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = g_peak.load(std::memory_order_relaxed);
  while (now > peak && !g_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void Gives(void* p) {
  if (!p || !g_counting.load(std::memory_order_relaxed)) return;
  g_now.fetch_sub(static_cast<int64_t>(::malloc_usable_size(p)), std::memory_order_relaxed);
}

}  // namespace

void CountAllocations() { g_counting.store(true); }

std::optional<AllocatedBytes> Allocated() {
  // Blocks from before the start may have been freed since.
  return AllocatedBytes{.now = std::max<int64_t>(g_now.load(), 0), .peak = g_peak.load()};
}

#endif

}  // namespace infer::bench

#ifndef INFER_WRAPPED_ALREADY

// glibc's own names; the program's definitions of malloc and its kin come before the library's.
extern "C" {
void* __libc_malloc(size_t);
void __libc_free(void*);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) noexcept {
  void* p = __libc_malloc(n);
  infer::bench::Took(p);
  return p;
}
void free(void* p) noexcept {
  infer::bench::Gives(p);
  __libc_free(p);
}
void* calloc(size_t n, size_t size) noexcept {
  void* p = __libc_calloc(n, size);
  infer::bench::Took(p);
  return p;
}
void* realloc(void* old, size_t n) noexcept {
  infer::bench::Gives(old);
  void* p = __libc_realloc(old, n);
  // Refused: the old block stays.
  infer::bench::Took(p || n == 0 ? p : old);
  return p;
}
void* memalign(size_t alignment, size_t n) noexcept {
  void* p = __libc_memalign(alignment, n);
  infer::bench::Took(p);
  return p;
}
void* aligned_alloc(size_t alignment, size_t n) noexcept { return memalign(alignment, n); }
int posix_memalign(void** out, size_t alignment, size_t n) noexcept {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* p = memalign(alignment, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
}

#endif
