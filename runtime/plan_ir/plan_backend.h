#pragma once
/// PlanBackend: what a backend gives the executor: kernels, copies between its layouts, its device,
/// and what its time hangs on.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/plan_ir/kernel.h"

namespace infer {

class KernelChooser;

/// Immutable, shared by programs.
class PlanBackend {
 public:
  virtual ~PlanBackend() = default;
  virtual std::string_view name() const = 0;
  virtual const KernelList& kernels() const = 0;
  /// nullptr: launches work on host memory (Launch::Run). Else they record (Launch::Record) on
  /// memory of this device.
  virtual Device* device() const { return nullptr; }
  /// Of a backend with shaders: what its driver made of them so far.
  virtual std::optional<PipelineInfo> pipelines() const { return std::nullopt; }
  /// Unsupported where no kernel multiplies in it.
  virtual Status RefuseCompute(Compute compute) const {
    return infer::RefuseCompute(name(), compute);
  }
  MemorySpace space() const { return device() ? MemorySpace::kDevice : MemorySpace::kHost; }

  /// The launch that copies a tensor into another layout of this backend, or into the same one
  /// (operand 0 -> result 0).
  virtual Result<Prepared> Reorder(DType dtype, const Dims& dims, const Layout& from,
                                   const Layout& to) const = 0;
  /// As messages and `inspect --plan` name it.
  virtual std::string NameOf(const Layout& layout) const { return layout.code; }
  /// RawValue::channel_block of a layout of host memory; nullopt: it is none of these.
  virtual std::optional<int64_t> ChannelBlock(DType /*dtype*/, const Dims& /*dims*/,
                                              const Layout& layout) const {
    return layout.plain() ? std::optional<int64_t>(0) : std::nullopt;
  }

  /// Libraries with threads of their own keep to as many as the calling thread has lanes. Returns
  /// how many they used before.
  virtual int UseThreads(int lanes) const { return lanes; }
  /// Whether a step runs on the calling thread alone, asked step by step while a shape plan is
  /// made; until the next question the thread has the lanes of the answer. Empty: none does.
  using AloneFn = std::function<bool(const Cost& cost, bool on_reference)>;
  virtual AloneFn ChooseLanes(int /*lanes*/) const { return {}; }

  /// Of the first backend: who chooses among its kernels by measured times (`--tune`); nullptr:
  /// nobody, the first that accepts is taken.
  virtual Result<std::shared_ptr<KernelChooser>> ChooserFor(
      const CompileOptions& /*options*/) const {
    return std::shared_ptr<KernelChooser>();
  }

  /// Of a backend with a device: whether the one behind it shall rewrite graphs and group steps for
  /// its kernels.
  virtual bool wants_groups() const { return false; }
  /// Of the last backend, before kernels are chosen: rewrites of the graph for `kernels`, which are
  /// those of all backends; and groups of steps that one of `kernels`, which are the device's,
  /// takes whole.
  virtual Status RewriteGraph(Graph& /*graph*/, const KernelList& /*kernels*/,
                              const CompileOptions& /*options*/) const {
    return {};
  }
  virtual Status GroupSteps(Plan& /*plan*/, const KernelList& /*kernels*/,
                            const CompileOptions& /*options*/) const {
    return {};
  }

  /// Roughly, for the choice between backends: of a step, and of bytes that come from host memory
  /// or go there.
  virtual double StepMicroseconds(const Cost& cost) const;
  virtual double TransferMicroseconds(int64_t bytes) const;
};

/// The backends of a program, in order of preference; the last one works on host memory.
using PlanBackends = std::vector<std::shared_ptr<const PlanBackend>>;

/// Host memory without kernels: every step runs on its reference kernels.
std::shared_ptr<const PlanBackend> ReferenceHost();

}  // namespace infer
