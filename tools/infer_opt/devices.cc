/// infer-opt devices: where models can run on this machine, and what our kernels use of it.
#include <algorithm>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/options.h"
#include "tools/common/host.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"
#include "tools/infer_opt/commands.h"

namespace infer {
namespace {

bool IsAmong(const std::vector<std::string>& names, std::string_view feature) {
  return std::find(names.begin(), names.end(), feature) != names.end();
}

/// "used", "switched off", "emulated", "missing".
std::string StateOf(const VulkanFeature& f, const VulkanDeviceInfo& d,
                    const VulkanOptions& options) {
  if (!IsAmong(d.features, f.name)) return "missing";
  if (IsAmong(options.disable, f.name)) return "switched off";
  return IsAmong(d.emulated, f.name) && !IsAmong(options.enable, f.name) ? "emulated" : "used";
}

/// Name, state and use of each feature.
std::vector<std::vector<std::string>> FeatureRows(const VulkanDeviceInfo& d,
                                                  const VulkanOptions& options) {
  std::vector<std::vector<std::string>> rows;
  for (const VulkanFeature& f : VulkanFeatures()) {
    const std::string state = StateOf(f, d, options);
    rows.push_back({std::string(f.name), state, std::string(state == "used" ? f.use : f.loss)});
  }
  return rows;
}

Json DeviceJson(const VulkanDeviceInfo& d, const VulkanOptions& options) {
  Json heaps = Json::array(), features = Json::array();
  for (const VulkanHeap& h : d.heaps)
    heaps.push_back({{"bytes", h.bytes},
                     {"free_bytes", h.free_bytes < 0 ? Json() : Json(h.free_bytes)},
                     {"device_local", h.device_local}});
  for (const auto& row : FeatureRows(d, options))
    features.push_back({{"name", row[0]}, {"state", row[1]}, {"effect", row[2]}});
  return {{"device", Cat("vulkan:", d.index)},
          {"name", d.name},
          {"driver", d.driver},
          {"type", d.type},
          {"api", d.api},
          {"default", d.chosen},
          {"unfit", d.unfit},
          {"heaps", heaps},
          {"max_buffer_bytes", d.max_buffer_bytes},
          {"max_allocation_bytes", d.max_allocation_bytes},
          {"shared_bytes", d.shared_bytes},
          {"max_invocations", d.max_invocations},
          {"subgroup", d.subgroup},
          {"max_iterations", d.max_iterations},
          {"compute_units", d.compute_units},
          {"queue_families", d.queue_families},
          {"has_transfer_queue", d.has_transfer_queue},
          {"maps_device_memory", d.maps_device_memory},
          {"features", features}};
}

class DevicesCommand : public Command {
 public:
  std::string_view name() const override { return "devices"; }
  std::string_view help() const override { return "List the devices that --device can name"; }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt devices\n"
           "  infer-opt devices --json -\n"
           "  INFER_VULKAN_DISABLE=int8 infer-opt devices\n";
  }
  void Declare(Options&) override {}

  Result<ExitCode> Run(Context& context) override {
    INFER_ASSIGN(const VulkanOptions options, VulkanOptionsFromEnvironment());
    const HostFacts host = GetHostFacts();
    context.PrintLine(Cat("cpu  ", host.cpu_model, ", ", host.isa, ", ", host.usable_cores,
                          " cores, ", HumanBytes(host.memory_bytes), "  (default)"));
    Json report = NewReport(context, "infer-opt/devices@1");
    report["cpu"] = {{"cores", host.usable_cores}, {"memory_bytes", host.memory_bytes}};
    report["vulkan"] = Json::array();
    report["vulkan_missing"] = "";
    // A machine without Vulkan is no failure of the list.
    const auto devices = ListVulkanDevices(options);
    if (!devices.ok()) {
      context.PrintLine(Cat("vulkan  ", devices.status().message()));
      report["vulkan_missing"] = devices.status().message();
    } else {
      for (const VulkanDeviceInfo& d : *devices) {
        Show(context, d, options);
        report["vulkan"].push_back(DeviceJson(d, options));
      }
    }
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  static void Show(Context& context, const VulkanDeviceInfo& d, const VulkanOptions& options) {
    context.PrintLine(Cat("vulkan:", d.index, "  ", d.name, "  (", d.type, ")",
                          d.chosen ? "  (--device vulkan)" : ""));
    if (!d.unfit.empty()) context.PrintLine(Cat("  cannot run our shaders: ", d.unfit));
    context.PrintLine(Cat("  driver      ", d.driver, ", Vulkan ", d.api));
    std::vector<std::string> heaps;
    for (const VulkanHeap& h : d.heaps)
      heaps.push_back(Cat(HumanBytes(h.bytes), h.device_local ? " of the device" : " of the host",
                          h.free_bytes < 0 ? "" : Cat(" (", HumanBytes(h.free_bytes), " free)")));
    context.PrintLine(Cat("  memory      ", Join(heaps, ", "), "; ",
                          d.maps_device_memory ? "the host reaches the device's"
                                               : "the host does not reach the device's"));
    context.PrintLine(
        Cat("  limits      a buffer of ", HumanBytes(d.max_buffer_bytes), ", an allocation of ",
            HumanBytes(d.max_allocation_bytes), ", ", HumanBytes(d.shared_bytes), " shared by ",
            d.max_invocations, " invocations, subgroups of ", d.subgroup, ", ",
            d.compute_units > 0 ? Cat(d.compute_units, " compute units, ") : "", d.queue_families,
            d.queue_families == 1 ? " queue family" : " queue families",
            d.has_transfer_queue ? ", one for copies" : ""));
    for (const auto& row : FeatureRows(d, options))
      context.PrintLine(
          Cat("  ", row[0], std::string(12 - row[0].size(), ' '), row[1], ": ", row[2]));
  }
};

}  // namespace

std::unique_ptr<Command> MakeDevicesCommand() { return std::make_unique<DevicesCommand>(); }

}  // namespace infer
