#include "runtime/vulkan/memory/allocator.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer::vulkan {
namespace {

/// Blocks grow with what is in use, so that a small program takes little.
constexpr int64_t kSmallestBlock = int64_t{4} << 20, kLargestBlock = int64_t{64} << 20;
/// Parts from this size on have a block of their own, which goes with them.
constexpr int64_t kDedicated = int64_t{16} << 20;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

Memory::~Memory() {
  if (owner_) owner_->Release(*this);
}

Status Memory::Sync(int64_t at, int64_t bytes, bool flush) const {
  if (coherent_ || bytes == 0) return {};
  // A part begins and ends at multiples of the alignment, and so can be widened.
  const int64_t unit = owner_->gpu().flush_alignment();
  const int64_t begin = (offset_ + at) / unit * unit, end = RoundUp(offset_ + at + bytes, unit);
  VkMappedMemoryRange range{VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE};
  range.memory = memory_;
  range.offset = static_cast<VkDeviceSize>(begin);
  range.size = static_cast<VkDeviceSize>(std::min(end, offset_ + taken_) - begin);
  const VolkDeviceTable& vk = owner_->gpu().vk();
  const VkDevice device = owner_->gpu().device();
  return flush ? StatusOf(vk.vkFlushMappedMemoryRanges(device, 1, &range), "flushing memory")
               : StatusOf(vk.vkInvalidateMappedMemoryRanges(device, 1, &range), "reading memory");
}

Allocator::~Allocator() {
  for (auto& [number, block] : blocks_) FreeBlock(block);
}

VulkanMemoryUse Allocator::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

Status Allocator::Exhausted(int64_t bytes, std::string_view why) const {
  int64_t heap = 0;
  for (const VulkanHeap& h : gpu_->info().heaps)
    if (h.device_local) heap = std::max(heap, h.bytes);
  return ResourceExhausted(
      Cat("device '", gpu_->info().name, "' has no memory for ", HumanBytes(bytes), ": ", why,
          "; in use ", HumanBytes(use_.allocated_bytes), ", largest heap ", HumanBytes(heap)));
}

int Allocator::TypeFor(MemoryKind kind, uint32_t allowed) const {
  constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                  kVisible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
                                  kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  // Best first; the last is what there must be.
  std::vector<VkMemoryPropertyFlags> wishes;
  switch (kind) {
    case MemoryKind::kDevice: wishes = {kLocal | kVisible, kLocal, 0}; break;
    case MemoryKind::kUpload: wishes = {kVisible}; break;
    case MemoryKind::kDownload: wishes = {kVisible | kCached, kVisible}; break;
  }
  // The part of a discrete device's memory that the host sees is small: leave it alone.
  if (kind == MemoryKind::kDevice && gpu_->info().type == "discrete") wishes = {kLocal, 0};
  const VkPhysicalDeviceMemoryProperties& m = gpu_->memory();
  for (const VkMemoryPropertyFlags wish : wishes)
    for (uint32_t i = 0; i < m.memoryTypeCount; ++i)
      if (allowed >> i & 1 && (m.memoryTypes[i].propertyFlags & wish) == wish)
        return static_cast<int>(i);
  return -1;
}

Status Allocator::FillBlock(Block& block) {
  const VolkDeviceTable& vk = gpu_->vk();
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = static_cast<VkDeviceSize>(block.bytes);
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (block.kind == MemoryKind::kDevice) info.usage |= VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  // Copies on a queue of their own take buffers as they are: for them no driver makes a difference
  // between sharing and handing over, but each hand-over is a barrier on both queues.
  const uint32_t families[] = {gpu_->family(QueueKind::kCompute), gpu_->family(QueueKind::kUpload)};
  if (gpu_->has_transfer_queue()) {
    info.sharingMode = VK_SHARING_MODE_CONCURRENT;
    info.queueFamilyIndexCount = 2;
    info.pQueueFamilyIndices = families;
  }
  INFER_TRY(
      StatusOf(vk.vkCreateBuffer(gpu_->device(), &info, nullptr, &block.buffer), "vkCreateBuffer"));
  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(gpu_->device(), block.buffer, &needs);
  const int type = TypeFor(block.kind, needs.memoryTypeBits);
  if (type < 0) return Unsupported("the device has no memory of the kind that buffers need");
  INFER_TRY(CheckBudget(type, static_cast<int64_t>(needs.size)));
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = static_cast<uint32_t>(type);
  const VkResult result =
      gpu_->Fails(VulkanCall::kAllocate)
          ? VK_ERROR_OUT_OF_DEVICE_MEMORY
          : vk.vkAllocateMemory(gpu_->device(), &allocate, nullptr, &block.memory);
  if (result != VK_SUCCESS) {
    const Status s = gpu_->Check(result, "vkAllocateMemory");
    return s.code() == Code::kResource ? Exhausted(block.bytes, NameOf(result)) : s;
  }
  INFER_TRY(StatusOf(vk.vkBindBufferMemory(gpu_->device(), block.buffer, block.memory, 0),
                     "vkBindBufferMemory"));
  const VkMemoryPropertyFlags flags =
      gpu_->memory().memoryTypes[static_cast<uint32_t>(type)].propertyFlags;
  block.coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
  const bool hidden = block.kind == MemoryKind::kDevice && gpu_->options().stage_all;
  if (!(flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) || hidden) return {};
  void* mapped = nullptr;
  INFER_TRY(StatusOf(vk.vkMapMemory(gpu_->device(), block.memory, 0, VK_WHOLE_SIZE, 0, &mapped),
                     "vkMapMemory"));
  block.mapped = static_cast<std::byte*>(mapped);
  return {};
}

void Allocator::FreeBlock(Block& block) {
  if (gpu_->forked()) return;
  const VolkDeviceTable& vk = gpu_->vk();
  if (block.buffer) vk.vkDestroyBuffer(gpu_->device(), block.buffer, nullptr);
  if (block.memory) vk.vkFreeMemory(gpu_->device(), block.memory, nullptr);
}

Status Allocator::CheckLimit(int64_t bytes) const {
  const int64_t limit = gpu_->options().memory_bytes;
  if (use_.allocated_bytes <= limit - bytes) return {};
  return Exhausted(bytes, Cat("the limit is ", HumanBytes(limit)));
}

Status Allocator::CheckBudget(int type, int64_t bytes) const {
  const VkMemoryType& of = gpu_->memory().memoryTypes[type];
  int64_t free = gpu_->FreeBytes(of.heapIndex);
  if (of.propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)
    free = std::min(free, gpu_->options().budget_bytes - use_.allocated_bytes);
  if (bytes <= free) return {};
  return Exhausted(bytes, Cat("the driver leaves ", HumanBytes(std::max<int64_t>(free, 0)),
                              " of it, other programs and what is in use here hold the rest"));
}

Status Allocator::CheckRoom(int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  // What is free in blocks may serve.
  const int64_t free = use_.allocated_bytes - use_.used_bytes;
  if (bytes <= free) return {};
  INFER_TRY(CheckLimit(bytes - free));
  const int type = TypeFor(MemoryKind::kDevice, ~uint32_t{0});
  return type < 0 ? Status() : CheckBudget(type, bytes - free);
}

Result<size_t> Allocator::MakeBlock(MemoryKind kind, int64_t bytes) {
  const int64_t limit = gpu_->info().max_allocation_bytes;
  if (bytes > limit) return Exhausted(bytes, Cat("one allocation holds ", HumanBytes(limit)));
  INFER_TRY(CheckLimit(bytes));
  Block block;
  block.kind = kind;
  block.bytes = bytes;
  if (Status s = FillBlock(block); !s.ok()) {
    FreeBlock(block);
    return s;
  }
  block.free[0] = bytes;
  use_.allocated_bytes += bytes;
  use_.device_allocations += 1;
  use_.peak_bytes = std::max(use_.peak_bytes, use_.allocated_bytes);
  blocks_[next_block_] = std::move(block);
  return next_block_++;
}

Result<std::shared_ptr<Memory>> Allocator::Allocate(MemoryKind kind, int64_t bytes) {
  const int64_t taken = RoundUp(std::max<int64_t>(bytes, 1), kAlignment);
  auto part = std::make_shared<Memory>();
  const std::lock_guard lock(mutex_);
  Block* block = nullptr;
  std::map<int64_t, int64_t>::iterator hole;
  if (taken < kDedicated)
    for (auto& [number, b] : blocks_) {
      if (b.kind != kind) continue;
      hole = std::find_if(b.free.begin(), b.free.end(),
                          [&](const auto& f) { return f.second >= taken; });
      if (hole == b.free.end()) continue;
      part->block_ = number;
      block = &b;
      break;
    }
  if (!block) {
    const int64_t grown = kind == MemoryKind::kDevice
                              ? std::clamp(RoundUp(use_.allocated_bytes, kSmallestBlock),
                                           kSmallestBlock, kLargestBlock)
                              : kSmallestBlock;
    int64_t size = taken >= kDedicated ? taken : std::max(grown, taken);
    auto made = MakeBlock(kind, size);
    // Where there is no room for a larger block, one of just this size may fit.
    if (!made.ok() && size > taken && made.status().code() == Code::kResource)
      made = MakeBlock(kind, taken);
    INFER_TRY(made.status());
    part->block_ = *made;
    block = &blocks_.at(*made);
    hole = block->free.begin();
  }
  const auto [offset, size] = *hole;
  block->free.erase(hole);
  if (size > taken) block->free[offset + taken] = size - taken;
  block->used += taken;
  use_.used_bytes += taken;
  use_.live += 1;
  part->owner_ = shared_from_this();
  part->kind_ = kind;
  part->buffer_ = block->buffer;
  part->memory_ = block->memory;
  part->offset_ = offset;
  part->bytes_ = bytes;
  part->taken_ = taken;
  part->mapped_ = block->mapped ? block->mapped + offset : nullptr;
  part->coherent_ = block->coherent;
  return part;
}

void Allocator::Release(Memory& part) {
  const std::lock_guard lock(mutex_);
  Block& block = blocks_.at(part.block_);
  block.used -= part.taken_;
  use_.used_bytes -= part.taken_;
  use_.live -= 1;
  auto at = block.free.emplace(part.offset_, part.taken_).first;
  if (const auto next = std::next(at);
      next != block.free.end() && at->first + at->second == next->first) {
    at->second += next->second;
    block.free.erase(next);
  }
  if (at != block.free.begin())
    if (const auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      block.free.erase(at);
    }
  if (block.used > 0) return;
  use_.allocated_bytes -= block.bytes;
  use_.device_allocations -= 1;
  FreeBlock(block);
  blocks_.erase(part.block_);
}

}  // namespace infer::vulkan
