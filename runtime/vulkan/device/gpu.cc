#include "runtime/vulkan/device/gpu.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer::vulkan {
namespace {

bool Contains(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// A family of compute queues, one without graphics if there is one.
uint32_t ComputeFamily(const std::vector<VkQueueFamilyProperties>& families) {
  uint32_t best = 0;
  bool found = false;
  for (uint32_t i = 0; i < families.size(); ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if (!(flags & VK_QUEUE_COMPUTE_BIT)) continue;
    if (!found || !(flags & VK_QUEUE_GRAPHICS_BIT)) best = i;
    found = true;
    if (!(flags & VK_QUEUE_GRAPHICS_BIT)) break;
  }
  return best;
}

/// A family whose queues copy and do nothing else.
std::optional<uint32_t> TransferFamily(const std::vector<VkQueueFamilyProperties>& families) {
  const auto found = std::find_if(families.begin(), families.end(), CopiesOnly);
  if (found == families.end()) return std::nullopt;
  return static_cast<uint32_t>(found - families.begin());
}

}  // namespace

Result<std::shared_ptr<Gpu>> Gpu::Make(const VulkanOptions& options) {
  std::shared_ptr<Gpu> gpu(new Gpu);
  gpu->options_ = options;
  INFER_ASSIGN(gpu->instance_, Instance::Make(options));
  INFER_ASSIGN(gpu->info_, gpu->instance_->Choose(options.device));
  if (options.max_buffer_bytes > 0)
    gpu->info_.max_buffer_bytes = std::min(gpu->info_.max_buffer_bytes, options.max_buffer_bytes);
  gpu->physical_ = gpu->instance_->devices()[static_cast<size_t>(gpu->info_.index)];
  gpu->facts_ = PhysicalFactsOf(gpu->physical_, gpu->instance_->pretence());
  const Families families = gpu->ChooseFamilies();
  const VkPhysicalDeviceLimits& limits = gpu->facts_.properties.limits;
  gpu->flush_alignment_ = static_cast<int64_t>(limits.nonCoherentAtomSize);
  gpu->tick_ns_ = static_cast<double>(limits.timestampPeriod);
  if (const Pretence* const pretence = gpu->instance_->pretence()) {
    // The device has the queue that is there; two are pretended of it.
    const uint32_t real = ComputeFamily(PhysicalFactsOf(gpu->physical_, nullptr).families);
    INFER_TRY(gpu->MakeDevice({.compute = real}));
    VkQueue queue = VK_NULL_HANDLE;
    gpu->vk_.vkGetDeviceQueue(gpu->device_, real, 0, &queue);
    pretence->Install(gpu->vk_, gpu->physical_, gpu->device_, queue, real);
  } else {
    INFER_TRY(gpu->MakeDevice(families));
  }
  gpu->OpenQueues(families);
  return gpu;
}

Gpu::Families Gpu::ChooseFamilies() const {
  Families chosen{.compute = ComputeFamily(facts_.families)};
  if (const auto transfer = TransferFamily(facts_.families)) {
    chosen.transfer = *transfer;
    chosen.transfer_queues =
        std::min(options_.transfer_queues, facts_.families[*transfer].queueCount);
  }
  return chosen;
}

Status Gpu::MakeDevice(const Families& families) {
  const std::array<float, kQueueKinds> priorities = {1, 1, 1};
  std::vector<VkDeviceQueueCreateInfo> queues(families.transfer_queues > 0 ? 2 : 1);
  for (size_t i = 0; i < queues.size(); ++i) {
    queues[i] = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queues[i].queueFamilyIndex = i == 0 ? families.compute : families.transfer;
    queues[i].queueCount = i == 0 ? 1 : families.transfer_queues;
    queues[i].pQueuePriorities = priorities.data();
  }
  VkPhysicalDeviceVulkan12Features has{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 asked{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &has};
  vkGetPhysicalDeviceFeatures2(physical_, &asked);
  resets_queries_ = has.hostQueryReset == VK_TRUE;
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  v12.timelineSemaphore = VK_TRUE;
  v12.hostQueryReset = has.hostQueryReset;
  v12.storageBuffer8BitAccess = v12.shaderInt8 = Has("int8") ? VK_TRUE : VK_FALSE;
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12};
  v11.storageBuffer16BitAccess = Has("int16") ? VK_TRUE : VK_FALSE;
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11};
  core.features.shaderInt16 = Has("int16") ? VK_TRUE : VK_FALSE;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV};
  std::vector<const char*> extensions;
  if (Has("matrix")) {
    matrices.cooperativeMatrix = v12.shaderFloat16 = v12.vulkanMemoryModel = VK_TRUE;
    matrices.pNext = core.pNext;
    core.pNext = &matrices;
    extensions.push_back(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
  }
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &core};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES, v12.pNext, VK_TRUE};
  if (Has("dot")) {
    extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    v12.pNext = &dot;
  }
  info.queueCreateInfoCount = static_cast<uint32_t>(queues.size());
  info.pQueueCreateInfos = queues.data();
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  INFER_TRY(StatusOf(vkCreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice"));
  volkLoadDeviceTable(&vk_, device_);
  return {};
}

void Gpu::OpenQueues(const Families& families) {
  const auto open = [&](QueueKind kind, uint32_t family, uint32_t index) {
    Queue& queue = queues_[static_cast<size_t>(kind)];
    queue.family = family;
    vk_.vkGetDeviceQueue(device_, family, index, &queue.queue);
  };
  open(QueueKind::kCompute, families.compute, 0);
  if (families.transfer_queues > 0) open(QueueKind::kUpload, families.transfer, 0);
  if (families.transfer_queues > 1) open(QueueKind::kDownload, families.transfer, 1);
}

Gpu::~Gpu() {
  if (!device_ || forked()) return;
  vk_.vkDeviceWaitIdle(device_);
  for (const auto* list : {&counters_, &unfinished_})
    for (const Counter& c : *list) vk_.vkDestroySemaphore(device_, c.semaphore, nullptr);
  vk_.vkDestroyDevice(device_, nullptr);
  if (instance_->pretence()) Pretence::Release(device_);
}

Result<Gpu::Counter> Gpu::TakeCounter() {
  {
    const std::lock_guard lock(counters_mutex_);
    if (!counters_.empty()) {
      const Counter counter = counters_.back();
      counters_.pop_back();
      return counter;
    }
  }
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  const VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type};
  Counter counter;
  INFER_TRY(Check(vk_.vkCreateSemaphore(device_, &info, nullptr, &counter.semaphore),
                  "vkCreateSemaphore"));
  return counter;
}

void Gpu::GiveBack(Counter counter, bool reached) {
  const std::lock_guard lock(counters_mutex_);
  (reached ? counters_ : unfinished_).push_back(counter);
}

int64_t Gpu::FreeBytes(uint32_t heap) const {
  if (!Has("budget") || instance_->pretence()) return INT64_MAX;
  const std::vector<int64_t> free = FreeBytesOfHeaps(physical_);
  return heap < free.size() ? free[heap] : INT64_MAX;
}

bool Gpu::Has(std::string_view feature) const {
  if (Contains(info_.emulated, feature) && !Contains(options_.enable, feature)) return false;
  return Contains(info_.features, feature) && !Contains(options_.disable, feature);
}

VkResult Gpu::Submit(QueueKind kind, const VkSubmitInfo& submit) {
  if (Fails(VulkanCall::kSubmit)) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (lost() || Fails(VulkanCall::kLose)) return VK_ERROR_DEVICE_LOST;
  Queue& queue = queues_[HasQueue(kind) ? static_cast<size_t>(kind) : 0];
  const std::lock_guard lock(queue.mutex);
  return vk_.vkQueueSubmit(queue.queue, 1, &submit, VK_NULL_HANDLE);
}

Status Gpu::Check(VkResult result, std::string_view doing) {
  if (result == VK_ERROR_DEVICE_LOST) lost_ = true;
  return StatusOf(result, doing);
}

Status Gpu::CheckThere() const {
  if (forked())
    return ResourceExhausted(Cat("device '", info_.name,
                                 "' was opened by the parent of this process: a child must compile "
                                 "its programs itself"));
  return lost_ ? ResourceExhausted(Cat("device '", info_.name, "' was lost")) : Status();
}

}  // namespace infer::vulkan
