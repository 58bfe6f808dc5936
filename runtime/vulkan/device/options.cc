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

/// `target` stays where the variable is not set. `kind` says in words what it has to be.
Status ReadNumber(const char* variable, const char* kind, int64_t least, int64_t& target,
                  int64_t most = INT64_MAX) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return {};
  const auto number = ParseInt(text);
  if (!number || *number < least || *number > most)
    return InvalidArgument(Cat(variable, "=", text, ": not ", kind));
  target = *number;
  return {};
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
       "--compute f16 rounds to f16, multiplies in f32, and saves no time"},
      {"dot", "INT8 products of four codes at once (VK_KHR_shader_integer_dot_product)",
       "INT8 products multiply code by code, in f32"},
      {"winograd",
       "3x3 convolutions with 2.25 times fewer multiplications; on GPUs where --tune says so",
       "3x3 convolutions are summed directly"},
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
  INFER_TRY(ReadNumber("INFER_VULKAN_MEMORY", "a number of bytes", 0, options.memory_bytes));
  INFER_TRY(
      ReadNumber("INFER_VULKAN_BUSY_GROUPS", "a number of workgroups", 1, options.busy_groups));
  INFER_TRY(ReadNumber("INFER_VULKAN_BUFFER", "a number of bytes", 1, options.max_buffer_bytes));
  if (const char* text = std::getenv("INFER_VULKAN_PRETEND"); text && *text) {
    if (std::string_view(text) != "discrete")
      return InvalidArgument(Cat("INFER_VULKAN_PRETEND=", text, ": discrete, or nothing"));
    options.pretend = text;
    options.transfer_bytes = 1;
  }
  INFER_TRY(
      ReadNumber("INFER_VULKAN_TRANSFER_BYTES", "a number of bytes", 1, options.transfer_bytes));
  int64_t queues = options.transfer_queues;
  INFER_TRY(ReadNumber("INFER_VULKAN_TRANSFER_QUEUES", "0, 1 or 2", 0, queues, 2));
  options.transfer_queues = static_cast<uint32_t>(queues);
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
