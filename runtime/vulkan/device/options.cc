#include "runtime/vulkan/options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "lib/support/strings.h"
#include "runtime/vulkan/device/instance.h"

namespace infer {
namespace {

/// Where pipelines are kept: beside the choices of --tune.
std::string PipelineFolder() {
  if (const char* text = std::getenv("INFER_VULKAN_CACHE")) return text;
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache == '/') return Cat(cache, "/infer-opt/vulkan");
  return home && *home == '/' ? Cat(home, "/.cache/infer-opt/vulkan") : "";
}

/// 0 or 1; not set: 0.
Result<bool> Switch(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return false;
  if (std::string_view(text) != "0" && std::string_view(text) != "1")
    return InvalidArgument(Cat(name, "=", text, ": 0 or 1"));
  return *text == '1';
}

/// Names between commas.
Result<std::vector<std::string>> FeaturesOf(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return std::vector<std::string>();
  std::vector<std::string> names = Split(text, ',');
  for (const std::string& name : names)
    if (std::none_of(VulkanFeatures().begin(), VulkanFeatures().end(),
                     [&](const VulkanFeature& f) { return f.name == name; }))
      return InvalidArgument(Cat(variable, ": '", name, "' is no feature (infer-opt devices)"));
  return names;
}

}  // namespace

const std::vector<VulkanFeature>& VulkanFeatures() {
  static const std::vector<VulkanFeature> features = {
      {"int8", "bool and 8-bit values: comparisons, Where, logic, casts, moves",
       "steps on bool and 8-bit values run on the CPU"},
      {"int16", "moves of 16-bit values", "moves of 16-bit values run on the CPU"},
      {"subgroup", "convolutions without shared memory, on drivers for a processor",
       "convolutions go by shared memory, as on GPUs"},
      {"matrix",
       "products of --compute f16, by cooperative matrices of 16 x 16 (VK_NV_cooperative_matrix)",
       "--compute f16 rounds to f16, multiplies in f32, and saves no time", true},
      {"dot", "INT8 products of four codes at once (VK_KHR_shader_integer_dot_product)",
       "INT8 products multiply code by code, in f32", true},
      {"budget", "refuses what other programs leave no memory for, before it is allocated",
       "only an allocation that fails tells that other programs hold the memory"},
  };
  return features;
}

Result<VulkanOptions> VulkanOptionsFromEnvironment() {
  VulkanOptions options;
  options.pipeline_cache = PipelineFolder();
  INFER_ASSIGN(options.disable, FeaturesOf("INFER_VULKAN_DISABLE"));
  INFER_ASSIGN(options.enable, FeaturesOf("INFER_VULKAN_ENABLE"));
  if (const char* text = std::getenv("INFER_VULKAN_MEMORY"); text && *text) {
    const auto bytes = ParseInt(text);
    if (!bytes || *bytes < 0)
      return InvalidArgument(Cat("INFER_VULKAN_MEMORY=", text, ": not a number of bytes"));
    options.memory_bytes = *bytes;
  }
  if (const char* text = std::getenv("INFER_VULKAN_BUSY_GROUPS"); text && *text) {
    const auto groups = ParseInt(text);
    if (!groups || *groups < 1)
      return InvalidArgument(
          Cat("INFER_VULKAN_BUSY_GROUPS=", text, ": not a number of workgroups"));
    options.busy_groups = *groups;
  }
  if (const char* text = std::getenv("INFER_VULKAN_BUFFER"); text && *text) {
    const auto bytes = ParseInt(text);
    if (!bytes || *bytes < 1)
      return InvalidArgument(Cat("INFER_VULKAN_BUFFER=", text, ": not a number of bytes"));
    options.max_buffer_bytes = *bytes;
  }
  if (const char* text = std::getenv("INFER_VULKAN_PRETEND"); text && *text) {
    if (std::string_view(text) != "discrete")
      return InvalidArgument(Cat("INFER_VULKAN_PRETEND=", text, ": discrete, or nothing"));
    options.pretend = text;
    options.transfer_bytes = 1;
  }
  if (const char* text = std::getenv("INFER_VULKAN_TRANSFER_BYTES"); text && *text) {
    const auto bytes = ParseInt(text);
    if (!bytes || *bytes < 1)
      return InvalidArgument(Cat("INFER_VULKAN_TRANSFER_BYTES=", text, ": not a number of bytes"));
    options.transfer_bytes = *bytes;
  }
  if (const char* text = std::getenv("INFER_VULKAN_TRANSFER_QUEUES"); text && *text) {
    const auto queues = ParseInt(text);
    if (!queues || *queues < 0 || *queues > 2)
      return InvalidArgument(Cat("INFER_VULKAN_TRANSFER_QUEUES=", text, ": 0, 1 or 2"));
    options.transfer_queues = static_cast<uint32_t>(*queues);
  }
  INFER_ASSIGN(options.stage_all, Switch("INFER_VULKAN_STAGE_ALL"));
  INFER_ASSIGN(options.validate, Switch("INFER_VULKAN_VALIDATE"));
  if (options.validate || !options.pretend.empty())
    options.on_message = [](std::string_view m) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(m.size()), m.data());
    };
  return options;
}

Result<std::vector<VulkanDeviceInfo>> ListVulkanDevices(const VulkanOptions& options) {
  INFER_ASSIGN(const auto instance, vulkan::Instance::Make(options));
  return instance->Describe();
}

}  // namespace infer
