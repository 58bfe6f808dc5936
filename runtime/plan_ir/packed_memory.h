#pragma once
/// Memory for the weights that the kernels of one program pack: many small buffers on few huge
/// pages. What is bound by memory loses some 10 % to small pages (docs/adr/0008).
#include <algorithm>
#include <memory>
#include <mutex>

#include "lib/tensor/tensor.h"

namespace infer {

class PackedMemory {
 public:
  struct Part {
    std::shared_ptr<const Buffer> buffer;  ///< keeps the memory
    std::byte* data = nullptr;  ///< aligned to 64 bytes, to be written before it is shared
  };
  /// Thread-safe. Throws std::bad_alloc.
  Part Take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!slab_ || used_ + bytes > slab_->size()) {
      slab_ = Buffer::Allocate(std::max(bytes, next_));
      next_ = std::min(4 * next_, kLargestSlab);
      used_ = 0;
    }
    std::byte* data = slab_->mutable_data() + used_;
    used_ += (bytes + 63) / 64 * 64;
    return {Buffer::Borrow(data, bytes, slab_), data};
  }

 private:
  /// The last slab takes memory as far as it is written, but counts whole; so a small program
  /// begins with a small one, on pages of the usual size.
  static constexpr size_t kSmallestSlab = size_t{1} << 20, kLargestSlab = size_t{32} << 20;
  std::mutex mutex_;
  std::shared_ptr<Buffer> slab_;
  size_t used_ = 0, next_ = kSmallestSlab;
};

}  // namespace infer
