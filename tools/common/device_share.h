#pragma once
/// Which share of a model runs on a device, and what crosses between it and the host: what
/// `inspect --kernels` tells, and tools/ci/vulkan_coverage.py judges.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/api/plan_view.h"
#include "tools/common/report.h"

namespace infer {

struct DeviceShare {
  /// Nodes that run; what is known before the run, and views, are none.
  int64_t nodes = 0, on_device = 0;
  /// Values that move: inputs and outputs of the model, which lie on the host, and those between
  /// its steps. A value that moves twice counts twice.
  int64_t ends = 0, between = 0;
  int64_t bytes = 0;                       ///< that move
  std::map<std::string, int64_t> without;  ///< by operators of a step: its nodes off the device
};

/// Of what a compilation shows; `device` is the backend's name. nullopt: it shows no launches,
/// since extents are not known.
std::optional<DeviceShare> ShareOf(std::span<const PlanView> views, std::string_view device);

/// "113 of 118 nodes on vulkan, 8 values cross (6 inputs and outputs, 2 between steps), 0.031 MB".
std::string ToText(const DeviceShare& share, std::string_view device);
Json ToJson(const DeviceShare& share);

}  // namespace infer
