#pragma once
/// Memory of a device: blocks of the driver's, each with one buffer over all of it, cut into parts.
/// Large parts have a block of their own. Thread-safe.
#include <map>
#include <mutex>

#include "runtime/api/device.h"
#include "runtime/vulkan/device/gpu.h"

namespace infer::vulkan {

enum class MemoryKind : uint8_t {
  kDevice,    ///< where shaders work; mapped too, where the device's own memory can be
  kUpload,    ///< written by the host, read by copies
  kDownload,  ///< written by copies, read by the host, cached if possible
};

class Allocator;

class Memory final : public DeviceMemory {
 public:
  ~Memory() override;
  MemoryKind kind() const { return kind_; }
  int64_t bytes() const override { return bytes_; }
  std::byte* host() override { return mapped_; }
  VkBuffer buffer() const { return buffer_; }
  /// In bytes, of the part in the buffer.
  int64_t offset() const { return offset_; }
  /// Makes what the host wrote visible to the device, and the other way round; `at` in bytes from
  /// the part's begin. Nothing to do for coherent memory. Pre: host().
  Status Flush(int64_t at, int64_t bytes) const { return Sync(at, bytes, true); }
  Status Invalidate(int64_t at, int64_t bytes) const { return Sync(at, bytes, false); }

 private:
  friend class Allocator;
  Status Sync(int64_t at, int64_t bytes, bool flush) const;
  std::shared_ptr<Allocator> owner_;
  MemoryKind kind_ = MemoryKind::kDevice;
  size_t block_ = 0;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  int64_t offset_ = 0, bytes_ = 0, taken_ = 0;
  std::byte* mapped_ = nullptr;
  bool coherent_ = true;
};

class Allocator : public std::enable_shared_from_this<Allocator> {
 public:
  explicit Allocator(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~Allocator();
  /// Uninitialised. ResourceExhausted with figures where there is none left.
  Result<std::shared_ptr<Memory>> Allocate(MemoryKind kind, int64_t bytes);
  /// ResourceExhausted with figures where so many bytes of kDevice more are above the limit, or
  /// above what the driver leaves this process.
  Status CheckRoom(int64_t bytes) const;
  VulkanMemoryUse use() const;
  Gpu& gpu() const { return *gpu_; }

  /// Offsets of parts are multiples of it; a driver may ask for up to this.
  static constexpr int64_t kAlignment = 256;

 private:
  friend class Memory;
  struct Block {
    MemoryKind kind = MemoryKind::kDevice;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkBuffer buffer = VK_NULL_HANDLE;
    int64_t bytes = 0, used = 0;
    std::byte* mapped = nullptr;
    bool coherent = true;
    std::map<int64_t, int64_t> free;  // offset -> bytes
  };
  void Release(Memory& part);
  Result<size_t> MakeBlock(MemoryKind kind, int64_t bytes);
  Status FillBlock(Block& block);
  void FreeBlock(Block& block);
  /// -1: none fits.
  int TypeFor(MemoryKind kind, uint32_t allowed) const;
  Status Exhausted(int64_t bytes, std::string_view why) const;
  Status CheckLimit(int64_t bytes) const;
  /// Whether the driver leaves so many bytes of the heap of this type of memory.
  Status CheckBudget(int type, int64_t bytes) const;

  std::shared_ptr<Gpu> gpu_;
  mutable std::mutex mutex_;
  std::map<size_t, Block> blocks_;
  size_t next_block_ = 0;
  VulkanMemoryUse use_;
};

}  // namespace infer::vulkan
