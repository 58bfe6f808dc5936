#pragma once
/// How a backend offers its kernels: KernelDef (data: which operator, why not) -> Kernel (one step
/// of one program: weights) -> Prepared (one shape signature: layouts, primitive) -> Launch.
#include <cstddef>
#include <functional>

#include "runtime/api/device.h"
#include "runtime/plan_ir/plan.h"

namespace infer {

/// How a tensor lies in memory. `code` is the backend's own description; "" is dense row-major.
struct Layout {
  std::string code;
  int64_t bytes = 0;  ///< with padding; meaningless when plain
  /// The executor sets it; kernels need not.
  MemorySpace space = MemorySpace::kHost;
  bool plain() const { return code.empty(); }
  bool operator==(const Layout& o) const { return code == o.code && space == o.space; }
};

/// An operand or result of a step under one shape signature.
struct Operand {
  const Value* value = nullptr;
  DType dtype = DType::kUndefined;
  Dims dims;
  Layout layout;                     ///< operands: how it lies now
  const Tensor* constant = nullptr;  ///< known before the run
  int64_t plain_bytes() const { return PackedBytes(dtype, NumElements(dims)); }
};

/// State of one launch in one run context (primitive arguments, ...).
class LaunchState {
 public:
  virtual ~LaunchState() = default;
};

/// What a run executes. Immutable, shared by contexts. It holds what it needs: the kernel that made
/// it, and constants that it does not take as arguments, may be gone when it runs.
class Launch {
 public:
  virtual ~Launch() = default;
  virtual std::unique_ptr<LaunchState> NewState() const { return nullptr; }
  /// Of a backend on host memory. `args`: the step's operands, its results, then scratch if asked
  /// for. Operands that the launch does not use are nullptr. Allocates nothing.
  virtual Status Run(std::byte* const* args, LaunchState* state) const;
  /// Of a backend with a device, instead of Run: adds its commands to `encoder`, which is that
  /// device's. Unused operands have no memory.
  virtual Status Record(Encoder& encoder, std::span<const BufferView> args,
                        LaunchState* state) const;
  /// Where operands are read on the host (Prepared::on_host): while the encoder hands over again
  /// what Record added, looks at them as Record did, and makes the same uploads.
  virtual Status Renew(Encoder& /*encoder*/, std::span<const BufferView> /*args*/) const {
    return {};
  }
};

struct Prepared {
  std::shared_ptr<const Launch> launch;  ///< nullptr: result 0 is operand 0 under other extents
  std::string name;                      ///< implementation, for StepInfo::kernel
  std::string precision = {};            ///< for StepInfo::precision; "": as the step's
  std::vector<Layout> in_layouts;        ///< wanted, per operand; empty: all plain
  std::vector<bool> unused;              ///< operands that the launch does not read; empty: none
  /// Operands that a launch of a device reads in host memory while it records: numbers that it
  /// looks at before anything is computed (indices, lengths); empty: none.
  std::vector<bool> on_host = {};
  std::vector<Layout> out_layouts;  ///< given, per result; empty: all plain
  int64_t scratch_bytes = 0;
  /// Result 0 must hold this operand on entry (accumulation); -1: none.
  int accumulate = -1;
  /// Result 0 may take the memory of an operand of the same size: element i of the result depends
  /// on element i of such operands only.
  bool in_place = false;
  int64_t weight_bytes = 0;  ///< constants that the launch holds
};

/// One step of one program. Thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Unsupported says why these shapes do not fit; the next kernel of the list is asked then.
  virtual Result<Prepared> Prepare(std::span<const Operand> in,
                                   std::span<const Operand> out) const = 0;
  /// The launch compares the extents of its results with what its operands come to in each run, and
  /// returns InvalidModel where they differ. Only such a kernel is asked where the extents are
  /// nothing but declared (ShapePlan::declared).
  virtual bool checks_extents() const { return false; }
  /// Of a constant operand that is read once in the step: Prepare reads its elements from its
  /// WeightSource alone, and no launch reads them.
  virtual bool packs(int /*operand*/) const { return false; }
};

/// What a kernel may know when it is chosen.
struct StepCall {
  const Plan& plan;
  const PlanStep& step;
  const CompileOptions& options;
  const Node& main() const { return *step.main; }
  const Tensor* constant(const Value* v) const { return plan.constant(v); }
  /// The elements of a constant, for a kernel that packs them. Pre: constant(v).
  std::shared_ptr<WeightSource> source(const Value* v) const {
    return plan.sources->Of(plan.id(v), *constant(v));
  }
  /// Position of `v` among the step's operands; -1 when it is not one.
  int operand(const Value* v) const;
};

struct KernelDef {
  std::string_view op, domain;  ///< op "": every operator that has one of `traits`
  std::string_view name;
  /// "" accepts; else why not, for StepInfo::refusals.
  std::function<std::string(const StepCall&)> refuse;
  /// Both may belong to one device: they know its limits.
  std::function<std::unique_ptr<Kernel>(const StepCall&)> make;
  Traits traits = {};
  bool Takes(const OpDef& def) const {
    return op.empty() ? def.traits.HasAny(traits) : def.name == op && def.domain == domain;
  }
};

/// The kernels of a backend: for one operator best first; the reference kernel is implicitly last.
using KernelList = std::vector<KernelDef>;

}  // namespace infer
