#pragma once
/// Kernels of the vulkan backend, timed by the device's clock on memory of their own.
#include "runtime/api/device.h"
#include "runtime/plan_ir/tuner.h"
#include "runtime/vulkan/device/gpu.h"

namespace infer::vulkan {

class VulkanTuner final : public Tuner {
 public:
  /// nullptr where the options ask for none. Io when the file is there and cannot be read. `device`
  /// outlives it.
  static Result<std::shared_ptr<KernelChooser>> For(const CompileOptions& options, const Gpu& gpu,
                                                    Device& device);

 protected:
  std::vector<double> Time(std::span<const Operand> in, std::span<const Operand> out,
                           std::span<const Prepared* const> kernels) override;

 private:
  VulkanTuner(const CompileOptions& options, const Gpu& gpu, Device& device);
  Device& device_;
};

}  // namespace infer::vulkan
