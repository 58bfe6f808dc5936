#include "runtime/vulkan/backend.h"

#include <algorithm>
#include <mutex>

#include "lib/support/strings.h"
#include "runtime/plan_ir/compile_over.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/tune/vulkan_tuner.h"

namespace infer {
namespace {

using vulkan::DeviceFacts;
using vulkan::DeviceParts;
using vulkan::Gpu;

class VulkanDevice final : public Device {
 public:
  explicit VulkanDevice(std::shared_ptr<DeviceParts> parts) : parts_(std::move(parts)) {}
  std::string_view name() const override { return parts_->gpu->info().name; }
  Status CheckThere() const override { return parts_->gpu->CheckThere(); }
  Result<std::shared_ptr<DeviceMemory>> Allocate(int64_t bytes) override {
    INFER_ASSIGN(std::shared_ptr<DeviceMemory> memory,
                 parts_->allocator->Allocate(vulkan::MemoryKind::kDevice, bytes));
    return memory;
  }
  Result<std::unique_ptr<Encoder>> NewEncoder() override {
    return vulkan::VulkanEncoder::Make(parts_);
  }
  Status CheckRoom(int64_t bytes) const override { return parts_->allocator->CheckRoom(bytes); }
  Status StartActivity() override { return parts_->activity->Start(); }
  Result<DeviceActivity> TakeActivity() override { return parts_->activity->Take(); }

 private:
  std::shared_ptr<DeviceParts> parts_;
};

/// One open device, shared by the programs that run on it.
class VulkanPlanBackend final : public PlanBackend {
 public:
  VulkanPlanBackend(std::shared_ptr<DeviceParts> parts, bool keep_all, bool measures = false)
      : parts_(std::move(parts)),
        device_(parts_),
        kernels_(vulkan::AllKernels(FactsOf(parts_))),
        keep_all_(keep_all) {
    if (!measures) return;
    KernelList variants = vulkan::ProductVariants(FactsOf(parts_));
    std::move(variants.begin(), variants.end(), std::back_inserter(kernels_));
  }
  std::string_view name() const override { return "vulkan"; }
  const KernelList& kernels() const override { return kernels_; }
  Device* device() const override { return &device_; }
  std::optional<PipelineInfo> pipelines() const override { return parts_->pipelines.info(); }
  Result<std::shared_ptr<KernelChooser>> ChooserFor(const CompileOptions& options) const override {
    return vulkan::VulkanTuner::For(options, *parts_->gpu, device_);
  }
  bool wants_groups() const override { return true; }
  Status RefuseCompute(Compute compute) const override {
    return compute == Compute::kF16 ? Status() : infer::RefuseCompute(name(), compute);
  }
  Result<Prepared> Reorder(DType, const Dims&, const Layout&, const Layout&) const override {
    return vulkan::MakeCopy();  // there is one layout
  }
  /// Whoever asks for the device wants the work there: what a step costs on it is not weighed
  /// against the host, and being there is worth something. A step whose bytes would come and go
  /// for it alone is then the host's; a part of a model, however small, stays.
  double StepMicroseconds(const Cost&) const override {
    constexpr double kWorth = 1;
    return -kWorth;
  }
  double TransferMicroseconds(int64_t bytes) const override {
    constexpr double kLatency = 2, kBytesPerMicrosecond = 5e3;
    return keep_all_ ? 0 : kLatency + static_cast<double>(bytes) / kBytesPerMicrosecond;
  }
  DeviceParts& parts() const { return *parts_; }
  const std::shared_ptr<DeviceParts>& shared_parts() const { return parts_; }

 private:
  /// Twice as many as the device has multiprocessors; a CPU is busy with any number.
  static int64_t BusyGroupsOf(const vulkan::Gpu& gpu) {
    constexpr int64_t kUnknownUnits = 32;
    const VulkanDeviceInfo& info = gpu.info();
    if (gpu.options().busy_groups > 0) return gpu.options().busy_groups;
    if (info.type == "cpu") return 1;
    return 2 * (info.compute_units > 0 ? info.compute_units : kUnknownUnits);
  }
  /// It was measured on drivers for a processor alone.
  static vulkan::WinogradUse WinogradOf(const vulkan::Gpu& gpu) {
    using vulkan::WinogradUse;
    if (!gpu.Has("winograd")) return WinogradUse::kOff;
    if (gpu.options().winograd_anywhere) return WinogradUse::kAlways;
    const std::vector<std::string>& enabled = gpu.options().enable;
    const bool asked_for = std::find(enabled.begin(), enabled.end(), "winograd") != enabled.end();
    return asked_for || gpu.info().type == "cpu" ? WinogradUse::kByRule : WinogradUse::kUnmeasured;
  }
  static vulkan::Facts FactsOf(const std::shared_ptr<DeviceParts>& parts) {
    auto facts = std::make_shared<DeviceFacts>();
    facts->parts = parts;
    facts->max_buffer_bytes = parts->gpu->info().max_buffer_bytes;
    if (parts->gpu->info().max_iterations > 0)
      facts->max_iterations = parts->gpu->info().max_iterations;
    facts->int8 = parts->gpu->Has("int8");
    facts->int16 = parts->gpu->Has("int16");
    // 8 lanes are a whole subgroup of llvmpipe; they would leave most of a GPU's idle.
    const VulkanDeviceInfo& info = parts->gpu->info();
    const bool pays = info.type == "cpu" && info.subgroup == 8;
    facts->subgroup =
        parts->gpu->Has("subgroup") && (pays || parts->gpu->options().subgroups_anywhere);
    facts->winograd = WinogradOf(*parts->gpu);
    facts->dot = parts->gpu->Has("dot");
    facts->max_invocations = parts->gpu->info().max_invocations;
    facts->shared_bytes = info.shared_bytes;
    facts->matrix = parts->gpu->Has("matrix");
    facts->busy_groups = BusyGroupsOf(*parts->gpu);
    return facts;
  }
  std::shared_ptr<DeviceParts> parts_;
  mutable VulkanDevice device_;
  KernelList kernels_;
  bool keep_all_;
};

class VulkanBackend final : public Backend {
 public:
  explicit VulkanBackend(VulkanBackendOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "vulkan"; }
  std::string Unavailable() const override {
    const auto open = Open();
    return open.ok() ? "" : open.status().message();
  }
  bool HasKernelFor(const OpDef& def) const override {
    static const KernelList list = vulkan::AllKernels(std::make_shared<const DeviceFacts>());
    return std::any_of(list.begin(), list.end(), [&](const KernelDef& k) {
      // A table of codes, which any unary operator has, is no kernel for its numbers.
      return k.Takes(def) && !(k.op.empty() && k.name.starts_with("int8:"));
    });
  }
  Result<std::string> HowComputes(Compute compute) const override {
    if (compute != Compute::kF16) return Backend::HowComputes(compute);
    INFER_ASSIGN(const auto device, Open());
    if (device->parts().gpu->Has("matrix")) return std::string();
    return std::string(
        "no cooperative matrices on this device: operands are rounded to f16 and multiplied in "
        "f32, "
        "which saves no time");
  }
  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    return CompileOwned(graph.Clone(), options);
  }
  Result<std::shared_ptr<const Program>> CompileOwned(
      Graph graph, const CompileOptions& options) const override {
    INFER_ASSIGN(auto device, Open());
    if (options.tune || !options.tune_cache.empty())
      device = std::make_shared<const VulkanPlanBackend>(device->shared_parts(), options_.keep_all,
                                                         true);
    INFER_ASSIGN(std::shared_ptr<const Program> program,
                 CompileOver(std::move(graph), options, {device, options_.behind}));
    device->parts().pipelines.Save();
    return program;
  }
  VulkanMemoryUse memory() const {
    const std::lock_guard lock(mutex_);
    return device_ ? device_->parts().allocator->use() : VulkanMemoryUse();
  }

 private:
  /// The device, opened when it is first needed, and again when it was lost or is a parent's.
  Result<std::shared_ptr<const VulkanPlanBackend>> Open() const {
    const std::lock_guard lock(mutex_);
    if (device_ && !device_->parts().gpu->lost()) return device_;
    INFER_ASSIGN(auto gpu, Gpu::Make(options_.device));
    device_ = std::make_shared<const VulkanPlanBackend>(
        std::make_shared<DeviceParts>(std::move(gpu)), options_.keep_all);
    return device_;
  }

  VulkanBackendOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const VulkanPlanBackend> device_;
};

}  // namespace

std::unique_ptr<Backend> MakeVulkanBackend(VulkanBackendOptions options) {
  return std::make_unique<VulkanBackend>(std::move(options));
}

VulkanMemoryUse VulkanMemoryOf(const Backend& backend) {
  const auto* vulkan = dynamic_cast<const VulkanBackend*>(&backend);
  return vulkan ? vulkan->memory() : VulkanMemoryUse();
}

}  // namespace infer
