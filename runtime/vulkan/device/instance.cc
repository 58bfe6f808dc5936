#include "runtime/vulkan/device/instance.h"

#include <algorithm>
#include <mutex>

#include "lib/support/strings.h"
#include "runtime/plan_ir/memory_plan.h"

namespace infer::vulkan {
namespace {

constexpr uint32_t kApi = VK_API_VERSION_1_2;
constexpr const char* kLayer = "VK_LAYER_KHRONOS_validation";

std::string VersionText(uint32_t v) {
  return Cat(VK_API_VERSION_MAJOR(v), ".", VK_API_VERSION_MINOR(v), ".", VK_API_VERSION_PATCH(v));
}

/// Opens the loader, once for the process: volk keeps its functions in globals.
bool OpenLoader() {
  static const bool opened = volkInitialize() == VK_SUCCESS;
  return opened;
}

VKAPI_ATTR VkBool32 VKAPI_CALL OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                         VkDebugUtilsMessageTypeFlagsEXT,
                                         const VkDebugUtilsMessengerCallbackDataEXT* data,
                                         void* user) {
  const auto& report = *static_cast<const std::function<void(std::string_view)>*>(user);
  if (report && data->pMessage) report(data->pMessage);
  return VK_FALSE;
}

bool HasLayer(std::string_view name) {
  uint32_t n = 0;
  vkEnumerateInstanceLayerProperties(&n, nullptr);
  std::vector<VkLayerProperties> layers(n);
  vkEnumerateInstanceLayerProperties(&n, layers.data());
  return std::any_of(layers.begin(), layers.end(),
                     [&](const VkLayerProperties& l) { return name == l.layerName; });
}

std::string_view TypeName(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "cpu";
    default: return "other";
  }
}

/// Best first; a CPU comes last.
int RankOf(std::string_view type) {
  constexpr std::string_view kOrder[] = {"discrete", "integrated", "virtual", "other", "cpu"};
  return static_cast<int>(std::find(std::begin(kOrder), std::end(kOrder), type) -
                          std::begin(kOrder));
}

struct Features {
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  explicit Features(VkPhysicalDevice device) {
    core.pNext = &v11;
    v11.pNext = &v12;
    vkGetPhysicalDeviceFeatures2(device, &core);
  }
};

std::string UnfitnessOf(VkPhysicalDevice device, const PhysicalFacts& facts) {
  const VkPhysicalDeviceProperties& p = facts.properties;
  if (p.apiVersion < kApi) return Cat("Vulkan ", VersionText(p.apiVersion), ", 1.2 is needed");
  if (!Features(device).v12.timelineSemaphore) return "it has no timeline semaphores";
  // What plans of memory align to (kMemoryAlignment).
  if (p.limits.minStorageBufferOffsetAlignment > kMemoryAlignment)
    return Cat("it aligns buffers to ", p.limits.minStorageBufferOffsetAlignment, " bytes, above ",
               kMemoryAlignment);
  for (const VkQueueFamilyProperties& f : facts.families)
    if (f.queueFlags & VK_QUEUE_COMPUTE_BIT) return "";
  return "it has no queue for compute";
}

/// `free` as of FreeBytesOfHeaps.
void DescribeMemory(const VkPhysicalDeviceMemoryProperties& memory,
                    const std::vector<int64_t>& free, VulkanDeviceInfo& info) {
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i)
    info.heaps.push_back({static_cast<int64_t>(memory.memoryHeaps[i].size),
                          i < free.size() ? free[i] : -1,
                          (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0});
  constexpr VkMemoryPropertyFlags kBoth =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i)
    info.maps_device_memory |= (memory.memoryTypes[i].propertyFlags & kBoth) == kBoth;
}

bool HasExtension(VkPhysicalDevice device, std::string_view name) {
  uint32_t n = 0;
  vkEnumerateDeviceExtensionProperties(device, nullptr, &n, nullptr);
  std::vector<VkExtensionProperties> all(n);
  vkEnumerateDeviceExtensionProperties(device, nullptr, &n, all.data());
  return std::any_of(all.begin(), all.end(),
                     [&](const VkExtensionProperties& e) { return name == e.extensionName; });
}

/// Multiprocessors, by the extensions in which NVIDIA's and AMD's drivers say it; else 0.
int64_t ComputeUnitsOf(VkPhysicalDevice device) {
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
  VkPhysicalDeviceShaderCorePropertiesAMD amd{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
  VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  if (HasExtension(device, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) p.pNext = &nvidia;
  if (HasExtension(device, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) p.pNext = &amd;
  if (!p.pNext) return 0;
  vkGetPhysicalDeviceProperties2(device, &p);
  return int64_t{nvidia.shaderSMCount} + int64_t{amd.shaderEngineCount} *
                                             amd.shaderArraysPerEngineCount *
                                             amd.computeUnitsPerShaderArray;
}

/// Cooperative matrices as shaders/half.comp takes them: 16 x 16 x 16 of a subgroup of 32, f16
/// summed in f32.
bool HasMatrices(VkPhysicalDevice device, const VkPhysicalDeviceVulkan12Features& v12) {
  if (!HasExtension(device, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME) || !v12.shaderFloat16 ||
      !v12.vulkanMemoryModel || !vkGetPhysicalDeviceCooperativeMatrixPropertiesNV)
    return false;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV};
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &matrices};
  vkGetPhysicalDeviceFeatures2(device, &core);
  VkPhysicalDeviceSubgroupProperties subgroup{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &subgroup};
  vkGetPhysicalDeviceProperties2(device, &p);
  if (!matrices.cooperativeMatrix || subgroup.subgroupSize != 32) return false;
  uint32_t n = 0;
  vkGetPhysicalDeviceCooperativeMatrixPropertiesNV(device, &n, nullptr);
  std::vector<VkCooperativeMatrixPropertiesNV> all(
      n, {VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV});
  vkGetPhysicalDeviceCooperativeMatrixPropertiesNV(device, &n, all.data());
  return std::any_of(all.begin(), all.end(), [](const VkCooperativeMatrixPropertiesNV& m) {
    return m.MSize == 16 && m.NSize == 16 && m.KSize == 16 &&
           m.AType == VK_COMPONENT_TYPE_FLOAT16_NV && m.BType == VK_COMPONENT_TYPE_FLOAT16_NV &&
           m.CType == VK_COMPONENT_TYPE_FLOAT32_NV && m.DType == VK_COMPONENT_TYPE_FLOAT32_NV &&
           m.scope == VK_SCOPE_SUBGROUP_NV;
  });
}

bool HasDot(VkPhysicalDevice device) {
  if (!HasExtension(device, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) return false;
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  VkPhysicalDeviceFeatures2 f{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &dot};
  vkGetPhysicalDeviceFeatures2(device, &f);
  return dot.shaderIntegerDotProduct == VK_TRUE;
}
/// Whether the device has an instruction for it.
bool IsDotFast(VkPhysicalDevice device) {
  VkPhysicalDeviceShaderIntegerDotProductProperties dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
  VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &dot};
  vkGetPhysicalDeviceProperties2(device, &p);
  return dot.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE;
}

VulkanDeviceInfo DescribeDevice(VkPhysicalDevice device, int index, const Pretence* pretence) {
  VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceSubgroupProperties subgroup{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                              &driver};
  VkPhysicalDeviceMaintenance3Properties maintenance{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, &subgroup};
  VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &maintenance};
  vkGetPhysicalDeviceProperties2(device, &p);
  const PhysicalFacts facts = PhysicalFactsOf(device, pretence);
  const VkPhysicalDeviceLimits& limits = facts.properties.limits;
  VulkanDeviceInfo info;
  info.index = index;
  info.name = p.properties.deviceName;
  info.driver = Cat(driver.driverName, " ", driver.driverInfo);
  info.type = TypeName(facts.properties.deviceType);
  info.api = VersionText(p.properties.apiVersion);
  // lp_bld_ir_common.c: LP_MAX_TGSI_LOOP_ITERATIONS, counted over all loops of a shader.
  if (driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE) info.max_iterations = 65535;
  info.unfit = UnfitnessOf(device, facts);
  info.max_buffer_bytes = limits.maxStorageBufferRange;
  info.max_allocation_bytes =
      static_cast<int64_t>(std::min<VkDeviceSize>(maintenance.maxMemoryAllocationSize, INT64_MAX));
  info.shared_bytes = limits.maxComputeSharedMemorySize;
  info.max_invocations = limits.maxComputeWorkGroupInvocations;
  info.subgroup = subgroup.subgroupSize;
  info.compute_units = ComputeUnitsOf(device);
  info.queue_families = static_cast<int64_t>(facts.families.size());
  for (const VkQueueFamilyProperties& f : facts.families) info.has_transfer_queue |= CopiesOnly(f);
  // A pretended device has other heaps.
  DescribeMemory(facts.memory, pretence ? std::vector<int64_t>() : FreeBytesOfHeaps(device), info);
  for (const VulkanFeature& f : VulkanFeatures())
    (HasFeature(device, f.name) ? info.features : info.missing).emplace_back(f.name);
  if (HasDot(device) && !IsDotFast(device)) info.emulated.emplace_back("dot");
  return info;
}

}  // namespace

std::string_view NameOf(VkResult result) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    default: return "VkResult";
  }
}

Status StatusOf(VkResult result, std::string_view doing) {
  if (result == VK_SUCCESS) return {};
  const std::string text =
      Cat(doing, ": ", NameOf(result), " (", static_cast<int64_t>(result), ")");
  const bool resource = result == VK_ERROR_OUT_OF_HOST_MEMORY ||
                        result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
                        result == VK_ERROR_TOO_MANY_OBJECTS || result == VK_ERROR_DEVICE_LOST;
  return resource ? ResourceExhausted(text) : Internal(text);
}

Result<std::shared_ptr<const Instance>> Instance::Make(const VulkanOptions& options) {
  // volk's tables are the process's: one thread at a time fills them.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!OpenLoader()) return Unsupported("there is no Vulkan loader (libvulkan.so.1)");
  if (volkGetInstanceVersion() < kApi)
    return Unsupported(Cat("the Vulkan loader is of version ",
                           VersionText(volkGetInstanceVersion()), ", 1.2 is needed"));
  std::shared_ptr<Instance> made(new Instance);
  made->on_message_ = options.on_message;
  made->pretence_ = Pretence::Of(options);
  VkApplicationInfo app{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  app.pApplicationName = app.pEngineName = "infer-opt";
  app.apiVersion = kApi;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &app;
  constexpr VkValidationFeatureEnableEXT kSync =
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT validation{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
  validation.enabledValidationFeatureCount = 1;
  validation.pEnabledValidationFeatures = &kSync;
  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  if (options.validate) {
    if (!HasLayer(kLayer)) return Unsupported(Cat("the layer ", kLayer, " is not installed"));
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kLayer;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &extension;
    info.pNext = &validation;
  }
  const VkResult result = vkCreateInstance(&info, nullptr, &made->instance_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
    return Unsupported("no Vulkan driver is installed (the loader finds none that works)");
  INFER_TRY(StatusOf(result, "vkCreateInstance"));
  volkLoadInstanceOnly(made->instance_);
  if (options.validate) {
    VkDebugUtilsMessengerCreateInfoEXT m{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
    m.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                        VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    m.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                    VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
    m.pfnUserCallback = OnMessage;
    m.pUserData = &made->on_message_;
    INFER_TRY(
        StatusOf(vkCreateDebugUtilsMessengerEXT(made->instance_, &m, nullptr, &made->messenger_),
                 "vkCreateDebugUtilsMessengerEXT"));
  }
  INFER_TRY(made->FindDevices());
  return std::shared_ptr<const Instance>(std::move(made));
}

PhysicalFacts PhysicalFactsOf(VkPhysicalDevice device, const Pretence* pretence) {
  PhysicalFacts facts;
  vkGetPhysicalDeviceProperties(device, &facts.properties);
  vkGetPhysicalDeviceMemoryProperties(device, &facts.memory);
  uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &n, nullptr);
  facts.families.resize(n);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &n, facts.families.data());
  if (!pretence) return facts;
  pretence->Change(facts.properties);
  pretence->Change(facts.memory);
  pretence->Change(facts.families);
  return facts;
}

std::vector<int64_t> FreeBytesOfHeaps(VkPhysicalDevice device) {
  if (!HasFeature(device, "budget")) return {};
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                           &budget};
  vkGetPhysicalDeviceMemoryProperties2(device, &memory);
  std::vector<int64_t> free;
  for (uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; ++i)
    free.push_back(std::max<int64_t>(
        0, static_cast<int64_t>(budget.heapBudget[i]) - static_cast<int64_t>(budget.heapUsage[i])));
  return free;
}

bool CopiesOnly(const VkQueueFamilyProperties& family) {
  constexpr VkQueueFlags kMore = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
  return (family.queueFlags & VK_QUEUE_TRANSFER_BIT) != 0 && (family.queueFlags & kMore) == 0;
}

Instance::~Instance() {
  if (ForksSoFar() != forks_) return;  // the parent's
  if (messenger_) vkDestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  if (instance_) vkDestroyInstance(instance_, nullptr);
}

Status Instance::FindDevices() {
  uint32_t n = 0;
  INFER_TRY(
      StatusOf(vkEnumeratePhysicalDevices(instance_, &n, nullptr), "vkEnumeratePhysicalDevices"));
  devices_.resize(n);
  if (n > 0)
    INFER_TRY(StatusOf(vkEnumeratePhysicalDevices(instance_, &n, devices_.data()),
                       "vkEnumeratePhysicalDevices"));
  devices_.resize(n);
  return n > 0 ? Status() : Unsupported("the Vulkan drivers of this machine show no device");
}

std::vector<VulkanDeviceInfo> Instance::Describe() const {
  std::vector<VulkanDeviceInfo> all;
  for (size_t i = 0; i < devices_.size(); ++i)
    all.push_back(DescribeDevice(devices_[i], static_cast<int>(i), pretence()));
  VulkanDeviceInfo* best = nullptr;
  for (VulkanDeviceInfo& d : all)
    if (d.unfit.empty() && (!best || RankOf(d.type) < RankOf(best->type))) best = &d;
  if (best) best->chosen = true;
  return all;
}

Result<VulkanDeviceInfo> Instance::Choose(int wanted) const {
  std::string reasons;
  for (VulkanDeviceInfo& d : Describe()) {
    if (wanted >= 0 ? d.index != wanted : !d.chosen) {
      if (!d.unfit.empty()) reasons += Cat("; ", d.name, ": ", d.unfit);
      continue;
    }
    if (!d.unfit.empty()) return Unsupported(Cat("'", d.name, "': ", d.unfit));
    return d;
  }
  if (wanted >= 0)
    return Unsupported(Cat("there is no Vulkan device ", wanted, ": the drivers show ",
                           devices_.size(), " (infer-opt devices)"));
  return Unsupported(Cat("no Vulkan device can run the shaders", reasons));
}

bool HasFeature(VkPhysicalDevice device, std::string_view name) {
  const Features f(device);
  if (name == "int8") return f.v12.storageBuffer8BitAccess && f.v12.shaderInt8;
  if (name == "subgroup") {
    VkPhysicalDeviceSubgroupProperties s{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &s};
    vkGetPhysicalDeviceProperties2(device, &p);
    constexpr VkSubgroupFeatureFlags kNeeds =
        VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT;
    return s.subgroupSize >= 8 && (s.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
           (s.supportedOperations & kNeeds) == kNeeds;
  }
  if (name == "matrix") return HasMatrices(device, f.v12);
  if (name == "dot") return HasDot(device);
  if (name == "winograd") return true;  // every device can
  if (name == "budget") return HasExtension(device, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (name == "int16") return f.v11.storageBuffer16BitAccess && f.core.features.shaderInt16;
  return false;
}

}  // namespace infer::vulkan
