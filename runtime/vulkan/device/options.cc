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

}  // namespace

const std::vector<VulkanFeature>& VulkanFeatures() {
  static const std::vector<VulkanFeature> features = {
      {"int8", "bool and 8-bit values: comparisons, Where, logic, casts, moves",
       "steps on bool and 8-bit values run on the CPU"},
      {"int16", "moves of 16-bit values", "moves of 16-bit values run on the CPU"},
      {"subgroup", "convolutions without shared memory, on drivers for a processor",
       "convolutions go by shared memory, as on GPUs"},
      {"dot", "INT8 products of four codes at once, where they are an instruction of a GPU",
       "INT8 products multiply code by code, in f32"},
      {"budget", "refuses what other programs leave no memory for, before it is allocated",
       "only an allocation that fails tells that other programs hold the memory"},
  };
  return features;
}

Result<VulkanOptions> VulkanOptionsFromEnvironment() {
  VulkanOptions options;
  options.pipeline_cache = PipelineFolder();
  if (const char* text = std::getenv("INFER_VULKAN_DISABLE"); text && *text) {
    options.disable = Split(text, ',');
    for (const std::string& name : options.disable)
      if (std::none_of(VulkanFeatures().begin(), VulkanFeatures().end(),
                       [&](const VulkanFeature& f) { return f.name == name; }))
        return InvalidArgument(
            Cat("INFER_VULKAN_DISABLE: '", name, "' is no feature (infer-opt devices)"));
  }
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
  INFER_ASSIGN(options.stage_all, Switch("INFER_VULKAN_STAGE_ALL"));
  INFER_ASSIGN(options.dot_anywhere, Switch("INFER_VULKAN_DOT_ANYWHERE"));
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
