#include "runtime/vulkan/device/pretended_device.h"

#include <algorithm>
#include <cstring>

#include "runtime/vulkan/device/pretend.h"

namespace infer::vulkan {
namespace {

/// How often a counter is asked in vain before what it counts runs after all.
constexpr int kPolls = 64;
/// What the host reads of memory that was not invalidated.
constexpr std::byte kStale{0xCD};

/// All pretended devices, and whose each command buffer is.
struct Registry {
  std::mutex mutex;
  std::map<VkDevice, std::unique_ptr<PretendedDevice>> devices;
  struct Owner {
    PretendedDevice* device;
    uint32_t family;
  };
  std::map<VkCommandBuffer, Owner> commands;

  static Registry& Get() {
    static Registry registry;
    return registry;
  }
  Owner OwnerOf(VkCommandBuffer buffer) {
    const std::lock_guard lock(mutex);
    return commands.at(buffer);
  }
};

uint32_t RealType(const VkPhysicalDeviceMemoryProperties& memory, VkMemoryPropertyFlags wish) {
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i)
    if ((memory.memoryTypes[i].propertyFlags & wish) == wish) return i;
  return 0;
}

}  // namespace

PretendedDevice::PretendedDevice(RealDevice real, const VolkDeviceTable& table)
    : facts_(std::move(real)), real_(table) {
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(facts_.physical, &memory);
  constexpr VkMemoryPropertyFlags kSeen =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  real_types_[kLocal] = RealType(memory, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  real_types_[kHost] = real_types_[kCached] = RealType(memory, kSeen);
  for (const uint32_t family :
       {Pretence::kComputeFamily, Pretence::kTransferFamily, Pretence::kTransferFamily})
    queues_.push_back(std::make_unique<FakeQueue>(FakeQueue{this, family, {}}));
}

PretendedDevice& PretendedDevice::Of(VkDevice device) {
  Registry& all = Registry::Get();
  const std::lock_guard lock(all.mutex);
  return *all.devices.at(device);
}

PretendedDevice& PretendedDevice::Of(VkCommandBuffer commands) {
  return *Registry::Get().OwnerOf(commands).device;
}

void PretendedDevice::Release(VkDevice device) {
  Registry& all = Registry::Get();
  const std::lock_guard lock(all.mutex);
  all.devices.erase(device);
}

// ---- Queues ----------------------------------------------------------------------------------

VkQueue PretendedDevice::Queue(uint32_t family, uint32_t index) {
  return reinterpret_cast<VkQueue>(queues_[family + index].get());
}

PretendedDevice::Pending PretendedDevice::CopyOf(const VkSubmitInfo& info) {
  Pending p;
  const auto* values = static_cast<const VkTimelineSemaphoreSubmitInfo*>(info.pNext);
  p.commands.assign(info.pCommandBuffers, info.pCommandBuffers + info.commandBufferCount);
  for (uint32_t i = 0; i < info.waitSemaphoreCount; ++i) {
    p.waits.emplace_back(info.pWaitSemaphores[i], values->pWaitSemaphoreValues[i]);
    p.stages.push_back(info.pWaitDstStageMask[i]);
  }
  for (uint32_t i = 0; i < info.signalSemaphoreCount; ++i)
    p.signals.emplace_back(info.pSignalSemaphores[i], values->pSignalSemaphoreValues[i]);
  return p;
}

VkResult PretendedDevice::Submit(FakeQueue& queue, const VkSubmitInfo& info) {
  PretendedDevice& device = *queue.device;
  const std::lock_guard lock(device.mutex_);
  for (uint32_t i = 0; i < info.commandBufferCount; ++i)
    if (Registry::Get().OwnerOf(info.pCommandBuffers[i]).family != queue.family)
      device.Report("pretend: commands of one family are handed to another's queue");
  queue.pending.push_back(CopyOf(info));
  return VK_SUCCESS;
}

VkResult PretendedDevice::Run(const Pending& p) {
  for (const auto& [semaphore, value] : p.waits)
    if (const VkResult r = Need(semaphore, value); r != VK_SUCCESS) return r;
  std::vector<VkSemaphore> waits, signals;
  std::vector<uint64_t> wait_values, signal_values;
  for (const auto& [semaphore, value] : p.waits) {
    waits.push_back(semaphore);
    wait_values.push_back(value);
  }
  for (const auto& [semaphore, value] : p.signals) {
    signals.push_back(semaphore);
    signal_values.push_back(value);
  }
  VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  values.waitSemaphoreValueCount = static_cast<uint32_t>(waits.size());
  values.pWaitSemaphoreValues = wait_values.data();
  values.signalSemaphoreValueCount = static_cast<uint32_t>(signals.size());
  values.pSignalSemaphoreValues = signal_values.data();
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
  info.waitSemaphoreCount = values.waitSemaphoreValueCount;
  info.pWaitSemaphores = waits.data();
  info.pWaitDstStageMask = p.stages.data();
  info.commandBufferCount = static_cast<uint32_t>(p.commands.size());
  info.pCommandBuffers = p.commands.data();
  info.signalSemaphoreCount = values.signalSemaphoreValueCount;
  info.pSignalSemaphores = signals.data();
  return real_.vkQueueSubmit(facts_.queue, 1, &info, VK_NULL_HANDLE);
}

VkResult PretendedDevice::Need(VkSemaphore semaphore, uint64_t value) {
  for (const auto& queue : queues_) {
    const auto needed = [&](const Pending& p) {
      return std::any_of(p.signals.begin(), p.signals.end(),
                         [&](const auto& s) { return s.first == semaphore && s.second <= value; });
    };
    // A queue begins its submissions in their order.
    while (std::any_of(queue->pending.begin(), queue->pending.end(), needed)) {
      const Pending first = std::move(queue->pending.front());
      queue->pending.pop_front();
      if (const VkResult r = Run(first); r != VK_SUCCESS) return r;
    }
  }
  return VK_SUCCESS;
}

VkResult PretendedDevice::NeedAll() {
  for (const auto& queue : queues_)
    while (!queue->pending.empty()) {
      const Pending first = std::move(queue->pending.front());
      queue->pending.pop_front();
      if (const VkResult r = Run(first); r != VK_SUCCESS) return r;
    }
  return VK_SUCCESS;
}

VkResult PretendedDevice::Wait(const VkSemaphoreWaitInfo& info, uint64_t timeout) {
  {
    const std::lock_guard lock(mutex_);
    for (uint32_t i = 0; i < info.semaphoreCount; ++i)
      if (const VkResult r = Need(info.pSemaphores[i], info.pValues[i]); r != VK_SUCCESS) return r;
  }
  return real_.vkWaitSemaphores(facts_.device, &info, timeout);
}

VkResult PretendedDevice::Counter(VkSemaphore semaphore, uint64_t* value) {
  {
    const std::lock_guard lock(mutex_);
    if (++polls_ % kPolls == 0)
      if (const VkResult r = NeedAll(); r != VK_SUCCESS) return r;
  }
  return real_.vkGetSemaphoreCounterValue(facts_.device, semaphore, value);
}

VkResult PretendedDevice::WaitIdle() {
  const std::lock_guard lock(mutex_);
  if (const VkResult r = NeedAll(); r != VK_SUCCESS) return r;
  return real_.vkDeviceWaitIdle(facts_.device);
}

VkResult PretendedDevice::CreatePool(VkCommandPoolCreateInfo info, VkCommandPool* pool) {
  const uint32_t family = info.queueFamilyIndex;
  info.queueFamilyIndex = facts_.family;
  const VkResult r = real_.vkCreateCommandPool(facts_.device, &info, nullptr, pool);
  const std::lock_guard lock(mutex_);
  if (r == VK_SUCCESS) pools_[*pool] = family;
  return r;
}

void PretendedDevice::DestroyPool(VkCommandPool pool) {
  std::vector<VkCommandBuffer> gone;
  {
    const std::lock_guard lock(mutex_);
    pools_.erase(pool);
    gone = std::move(buffers_of_[pool]);
    buffers_of_.erase(pool);
  }
  {
    const std::lock_guard lock(Registry::Get().mutex);
    for (const VkCommandBuffer c : gone) Registry::Get().commands.erase(c);
  }
  real_.vkDestroyCommandPool(facts_.device, pool, nullptr);
}

VkResult PretendedDevice::AllocateCommands(const VkCommandBufferAllocateInfo& info,
                                           VkCommandBuffer* commands) {
  const VkResult r = real_.vkAllocateCommandBuffers(facts_.device, &info, commands);
  if (r != VK_SUCCESS) return r;
  const std::lock_guard lock(mutex_);
  const std::lock_guard all(Registry::Get().mutex);
  for (uint32_t i = 0; i < info.commandBufferCount; ++i) {
    Registry::Get().commands[commands[i]] = {this, pools_.at(info.commandPool)};
    buffers_of_[info.commandPool].push_back(commands[i]);
  }
  return r;
}

void PretendedDevice::CheckCompute(VkCommandBuffer commands, VkPipelineStageFlags stages) {
  constexpr VkPipelineStageFlags kTransfers =
      VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT |
      VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT | VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT |
      VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  if (Registry::Get().OwnerOf(commands).family == Pretence::kTransferFamily &&
      (stages & ~kTransfers) != 0)
    Report("pretend: the queue for transfers was given commands of shaders");
}

void PretendedDevice::CheckCopy(VkCommandBuffer commands, VkBuffer from, VkBuffer to) {
  if (Registry::Get().OwnerOf(commands).family != Pretence::kTransferFamily) return;
  const std::lock_guard lock(mutex_);
  if (exclusive_.contains(from) || exclusive_.contains(to))
    Report("pretend: a copy between families of a buffer that they do not share");
}

// ---- Memory ----------------------------------------------------------------------------------

VkResult PretendedDevice::CreateBuffer(VkBufferCreateInfo info, VkBuffer* buffer) {
  const bool shared = info.sharingMode == VK_SHARING_MODE_CONCURRENT;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  info.queueFamilyIndexCount = 0;
  const VkResult r = real_.vkCreateBuffer(facts_.device, &info, nullptr, buffer);
  const std::lock_guard lock(mutex_);
  if (r == VK_SUCCESS && !shared) exclusive_.insert(*buffer);
  return r;
}

void PretendedDevice::DestroyBuffer(VkBuffer buffer) {
  {
    const std::lock_guard lock(mutex_);
    exclusive_.erase(buffer);
  }
  real_.vkDestroyBuffer(facts_.device, buffer, nullptr);
}

VkResult PretendedDevice::Allocate(VkMemoryAllocateInfo info, VkDeviceMemory* memory) {
  const std::lock_guard lock(mutex_);
  const uint32_t type = info.memoryTypeIndex;
  const auto bytes = static_cast<int64_t>(info.allocationSize);
  if (type == kLocal && bytes > facts_.local_bytes - local_bytes_)
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  info.memoryTypeIndex = real_types_[type];
  const VkResult r = real_.vkAllocateMemory(facts_.device, &info, nullptr, memory);
  if (r != VK_SUCCESS) return r;
  if (type == kLocal) local_bytes_ += bytes;
  blocks_[*memory] = {.type = type, .bytes = info.allocationSize};
  return r;
}

void PretendedDevice::Free(VkDeviceMemory memory) {
  {
    const std::lock_guard lock(mutex_);
    const Block& block = blocks_.at(memory);
    if (block.type == kLocal) local_bytes_ -= static_cast<int64_t>(block.bytes);
    blocks_.erase(memory);
  }
  real_.vkFreeMemory(facts_.device, memory, nullptr);
}

VkResult PretendedDevice::Map(VkDeviceMemory memory, void** data) {
  const std::lock_guard lock(mutex_);
  Block& block = blocks_.at(memory);
  if (block.type == kLocal) return VK_ERROR_MEMORY_MAP_FAILED;
  void* mapped = nullptr;
  const VkResult r = real_.vkMapMemory(facts_.device, memory, 0, VK_WHOLE_SIZE, 0, &mapped);
  if (r != VK_SUCCESS) return r;
  block.mapped = static_cast<std::byte*>(mapped);
  block.host.assign(block.bytes, kStale);
  *data = block.host.data();
  return r;
}

VkResult PretendedDevice::Sync(const VkMappedMemoryRange& range, bool flush) {
  const std::lock_guard lock(mutex_);
  Block& block = blocks_.at(range.memory);
  const VkDeviceSize end = range.offset + range.size;
  if (range.offset % kAtom != 0 || (end % kAtom != 0 && end != block.bytes) || end > block.bytes) {
    Report("pretend: a range of memory is made visible that is not aligned");
    return VK_ERROR_MEMORY_MAP_FAILED;
  }
  std::byte *device = block.mapped + range.offset, *host = block.host.data() + range.offset;
  std::memcpy(flush ? device : host, flush ? host : device, range.size);
  return VK_SUCCESS;
}

// ---- The table -------------------------------------------------------------------------------

namespace {

PretendedDevice& In(VkDevice device) { return PretendedDevice::Of(device); }
PretendedDevice& In(VkCommandBuffer commands) { return PretendedDevice::Of(commands); }

void InstallQueues(VolkDeviceTable& t) {
  t.vkGetDeviceQueue = [](VkDevice d, uint32_t family, uint32_t index, VkQueue* queue) {
    *queue = In(d).Queue(family, index);
  };
  t.vkQueueSubmit = [](VkQueue queue, uint32_t n, const VkSubmitInfo* infos, VkFence) {
    auto& fake = *reinterpret_cast<PretendedDevice::FakeQueue*>(queue);
    for (uint32_t i = 0; i < n; ++i)
      if (const VkResult r = PretendedDevice::Submit(fake, infos[i]); r != VK_SUCCESS) return r;
    return VK_SUCCESS;
  };
  t.vkWaitSemaphores = [](VkDevice d, const VkSemaphoreWaitInfo* info, uint64_t timeout) {
    return In(d).Wait(*info, timeout);
  };
  t.vkGetSemaphoreCounterValue = [](VkDevice d, VkSemaphore semaphore, uint64_t* value) {
    return In(d).Counter(semaphore, value);
  };
  t.vkDeviceWaitIdle = [](VkDevice d) { return In(d).WaitIdle(); };
  t.vkCreateCommandPool = [](VkDevice d, const VkCommandPoolCreateInfo* info,
                             const VkAllocationCallbacks*,
                             VkCommandPool* pool) { return In(d).CreatePool(*info, pool); };
  t.vkDestroyCommandPool = [](VkDevice d, VkCommandPool pool, const VkAllocationCallbacks*) {
    In(d).DestroyPool(pool);
  };
  t.vkAllocateCommandBuffers = [](VkDevice d, const VkCommandBufferAllocateInfo* info,
                                  VkCommandBuffer* commands) {
    return In(d).AllocateCommands(*info, commands);
  };
}

void InstallCommands(VolkDeviceTable& t) {
  t.vkCmdCopyBuffer = [](VkCommandBuffer c, VkBuffer from, VkBuffer to, uint32_t n,
                         const VkBufferCopy* regions) {
    In(c).CheckCopy(c, from, to);
    In(c).real().vkCmdCopyBuffer(c, from, to, n, regions);
  };
  t.vkCmdDispatch = [](VkCommandBuffer c, uint32_t x, uint32_t y, uint32_t z) {
    In(c).CheckCompute(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
    In(c).real().vkCmdDispatch(c, x, y, z);
  };
  t.vkCmdPipelineBarrier = [](VkCommandBuffer c, VkPipelineStageFlags from, VkPipelineStageFlags to,
                              VkDependencyFlags flags, uint32_t n, const VkMemoryBarrier* barriers,
                              uint32_t buffers, const VkBufferMemoryBarrier* of_buffers,
                              uint32_t images, const VkImageMemoryBarrier* of_images) {
    In(c).CheckCompute(c, from | to);
    In(c).real().vkCmdPipelineBarrier(c, from, to, flags, n, barriers, buffers, of_buffers, images,
                                      of_images);
  };
}

void InstallMemory(VolkDeviceTable& t) {
  t.vkCreateBuffer = [](VkDevice d, const VkBufferCreateInfo* info, const VkAllocationCallbacks*,
                        VkBuffer* buffer) { return In(d).CreateBuffer(*info, buffer); };
  t.vkDestroyBuffer = [](VkDevice d, VkBuffer buffer, const VkAllocationCallbacks*) {
    In(d).DestroyBuffer(buffer);
  };
  t.vkGetBufferMemoryRequirements = [](VkDevice d, VkBuffer buffer, VkMemoryRequirements* needs) {
    In(d).real().vkGetBufferMemoryRequirements(d, buffer, needs);
    needs->memoryTypeBits = (1U << PretendedDevice::kTypes) - 1;
  };
  t.vkAllocateMemory = [](VkDevice d, const VkMemoryAllocateInfo* info,
                          const VkAllocationCallbacks*,
                          VkDeviceMemory* memory) { return In(d).Allocate(*info, memory); };
  t.vkFreeMemory = [](VkDevice d, VkDeviceMemory memory, const VkAllocationCallbacks*) {
    In(d).Free(memory);
  };
  t.vkMapMemory = [](VkDevice d, VkDeviceMemory memory, VkDeviceSize, VkDeviceSize,
                     VkMemoryMapFlags, void** data) { return In(d).Map(memory, data); };
  t.vkFlushMappedMemoryRanges = [](VkDevice d, uint32_t, const VkMappedMemoryRange* range) {
    return In(d).Sync(*range, true);
  };
  t.vkInvalidateMappedMemoryRanges = [](VkDevice d, uint32_t, const VkMappedMemoryRange* range) {
    return In(d).Sync(*range, false);
  };
}

}  // namespace

void PretendedDevice::Install(VolkDeviceTable& table, RealDevice real) {
  const VkDevice device = real.device;
  {
    Registry& all = Registry::Get();
    const std::lock_guard lock(all.mutex);
    all.devices[device] = std::make_unique<PretendedDevice>(std::move(real), table);
  }
  InstallQueues(table);
  InstallCommands(table);
  InstallMemory(table);
}

}  // namespace infer::vulkan
