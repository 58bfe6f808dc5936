#include "runtime/devices/devices.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/reference/backend.h"
#include "runtime/vulkan/backend.h"

namespace infer {
namespace {

constexpr std::string_view kVulkan = "vulkan";

/// The n of "vulkan:n"; -1 for "vulkan"; nullopt for anything else.
std::optional<int> VulkanIndex(std::string_view device) {
  if (device == kVulkan) return -1;
  if (!device.starts_with("vulkan:")) return std::nullopt;
  const auto n = ParseInt(device.substr(kVulkan.size() + 1));
  return n && *n >= 0 && *n < 1000 ? std::optional(static_cast<int>(*n)) : std::nullopt;
}

}  // namespace

std::vector<std::string> DeviceNames() { return {"cpu", "reference", "vulkan"}; }

std::string RefuseDevice(const std::string& text) {
  const auto names = DeviceNames();
  if (std::find(names.begin(), names.end(), text) != names.end() || VulkanIndex(text)) return "";
  return Cat("'", text, "' is no device: ", Join(names, ", "),
             ", or vulkan:N of infer-opt devices");
}

Result<std::unique_ptr<Backend>> UncheckedBackend(const std::string& device) {
  if (device == "reference") return MakeReferenceBackend();
  const auto index = VulkanIndex(device);
  if (!index) return MakeCpuBackend();
  VulkanBackendOptions options{.behind = CpuHost()};
  INFER_ASSIGN(options.device, VulkanOptionsFromEnvironment());
  options.device.device = *index;
  return MakeVulkanBackend(std::move(options));
}

Result<std::unique_ptr<Backend>> MakeBackend(const std::string& device) {
  if (std::string why = RefuseDevice(device); !why.empty()) return InvalidArgument(std::move(why));
  INFER_ASSIGN(std::unique_ptr<Backend> backend, UncheckedBackend(device));
  const std::string why = backend->Unavailable();
  if (!why.empty()) return Unsupported(Cat("device ", device, ": ", why));
  return backend;
}

}  // namespace infer
