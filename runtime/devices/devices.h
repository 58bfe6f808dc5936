#pragma once
/// Backends by the names that users give them: "cpu", "reference", "vulkan", "vulkan:1".
#include <memory>
#include <string>
#include <vector>

#include "runtime/api/program.h"

namespace infer {

/// The kinds of devices: "cpu", "reference", "vulkan".
std::vector<std::string> DeviceNames();
/// "" or why no device is called `text`: one of DeviceNames(), or "vulkan:n".
std::string RefuseDevice(const std::string& text);
/// Perhaps one that this machine cannot run: for what is known without it. Pre: RefuseDevice gives
/// "".
Result<std::unique_ptr<Backend>> UncheckedBackend(const std::string& device);
/// InvalidArgument: RefuseDevice. Unsupported when the machine cannot run it.
Result<std::unique_ptr<Backend>> MakeBackend(const std::string& device);

}  // namespace infer
