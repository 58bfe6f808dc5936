#pragma once
/// The smallest backend with a device of its own, as docs/adding-a-backend.md shows it:
/// convolutions and Relu run on it, everything else on whatever stands behind.
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "lib/ir/eval.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/compile_over.h"

namespace infer {

/// Record of the device's work, for tests.
struct ToyCounts {
  int uploads = 0, downloads = 0, launches = 0, submits = 0;
};

namespace toy {

// ---- Device: memory, commands, their end --------------------------------------------------------

class ToyMemory final : public DeviceMemory {
 public:
  explicit ToyMemory(int64_t bytes) : data(static_cast<size_t>(bytes)) {}
  int64_t bytes() const override { return static_cast<int64_t>(data.size()); }
  std::vector<std::byte> data;
};

inline std::byte* At(const BufferView& v) {
  return static_cast<ToyMemory*>(v.memory)->data.data() + v.offset;
}

class ToyCompletion final : public Completion {
 public:
  explicit ToyCompletion(std::shared_future<Status> end) : end_(std::move(end)) {}
  bool done() const override {
    return end_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  Status Wait() override { return end_.get(); }

 private:
  std::shared_future<Status> end_;
};

/// Commands are collected, and each Submit runs them on a thread of its own behind the one before.
class ToyEncoder final : public Encoder {
 public:
  using Command = std::function<Status()>;
  explicit ToyEncoder(std::shared_ptr<ToyCounts> counts) : counts_(std::move(counts)) {}

  Status Upload(const BufferView& to, const std::byte* from) override {
    ++counts_->uploads;
    commands_.push_back([to, bytes = std::vector<std::byte>(from, from + to.bytes)] {
      std::memcpy(At(to), bytes.data(), bytes.size());
      return Status();
    });
    return {};
  }
  Status Download(std::byte* to, const BufferView& from) override {
    ++counts_->downloads;
    commands_.push_back([to, from] {
      std::memcpy(to, At(from), static_cast<size_t>(from.bytes));
      return Status();
    });
    return {};
  }
  Status Copy(const BufferView& to, const BufferView& from) override {
    commands_.push_back([to, from] {
      std::memmove(At(to), At(from), static_cast<size_t>(from.bytes));
      return Status();
    });
    return {};
  }
  Result<std::shared_ptr<Completion>> Submit() override {
    ++counts_->submits;
    last_ = std::async(std::launch::async,
                       [commands = std::exchange(commands_, {}), before = last_]() -> Status {
                         if (before.valid()) INFER_TRY(before.get());
                         for (const Command& c : commands) INFER_TRY(c());
                         return {};
                       })
                .share();
    return std::shared_ptr<Completion>(std::make_shared<ToyCompletion>(last_));
  }
  void Launch(Command command) {
    ++counts_->launches;
    commands_.push_back(std::move(command));
  }

 private:
  std::shared_ptr<ToyCounts> counts_;
  std::vector<Command> commands_;
  std::shared_future<Status> last_;
};

class ToyDevice final : public Device {
 public:
  explicit ToyDevice(std::shared_ptr<ToyCounts> counts) : counts_(std::move(counts)) {}
  std::string_view name() const override { return "toy"; }
  Result<std::shared_ptr<DeviceMemory>> Allocate(int64_t bytes) override {
    return std::shared_ptr<DeviceMemory>(std::make_shared<ToyMemory>(bytes));
  }
  Result<std::unique_ptr<Encoder>> NewEncoder() override {
    return std::unique_ptr<Encoder>(std::make_unique<ToyEncoder>(counts_));
  }

 private:
  std::shared_ptr<ToyCounts> counts_;
};

// ---- Kernels: what the device computes ------------------------------------------------------

class ToyLaunch final : public Launch {
 public:
  using Work = std::function<Status(std::span<const BufferView>)>;
  explicit ToyLaunch(Work work) : work_(std::make_shared<const Work>(std::move(work))) {}
  Status Record(Encoder& encoder, std::span<const BufferView> args, LaunchState*) const override {
    static_cast<ToyEncoder&>(encoder).Launch(
        [work = work_, views = std::vector<BufferView>(args.begin(), args.end())] {
          return (*work)(views);
        });
    return {};
  }

 private:
  std::shared_ptr<const Work> work_;
};

inline Tensor TensorOf(const BufferView& v, const Dims& dims) {
  return Tensor(
      DType::kF32, dims,
      Buffer::Borrow(At(v), static_cast<size_t>(PackedBytes(DType::kF32, NumElements(dims))),
                     nullptr));
}

/// Any operator with one f32 result, by its reference kernel. Constants stay with the kernel.
class NodeKernel final : public Kernel {
 public:
  explicit NodeKernel(const StepCall& call) : node_(call.main()), ops_(call.plan.graph.ops()) {
    for (const Value* v : node_.inputs()) {
      const Tensor* c = v ? call.constant(v) : nullptr;
      constants_.push_back(c ? Datum(*c) : Datum());
      args_.push_back(v && !c ? call.operand(v) : -1);
    }
  }

  Result<Prepared> Prepare(std::span<const Operand> in, std::span<const Operand>) const override {
    Prepared p;
    p.name = Cat("toy:", node_.op());
    p.unused.assign(in.size(), true);
    std::vector<Dims> dims;
    for (const int arg : args_) {
      dims.push_back(arg < 0 ? Dims() : in[static_cast<size_t>(arg)].dims);
      if (arg >= 0) p.unused[static_cast<size_t>(arg)] = false;
    }
    // The plan outlives the launches of its program.
    p.launch = std::make_shared<ToyLaunch>(
        [this_node = &node_, ops = &ops_, given = constants_, args = args_, dims,
         result = in.size()](std::span<const BufferView> views) -> Status {
          std::vector<Datum> operands = given;
          std::vector<const Datum*> pointers;
          for (size_t i = 0; i < operands.size(); ++i) {
            if (args[i] >= 0) operands[i] = TensorOf(views[static_cast<size_t>(args[i])], dims[i]);
            pointers.push_back(this_node->input(i) ? &operands[i] : nullptr);
          }
          INFER_ASSIGN(const auto made, EvaluateNode(*this_node, pointers, *ops));
          const Tensor& y = made[0].tensor();
          std::memcpy(At(views[result]), y.raw(), static_cast<size_t>(y.byte_size()));
          return {};
        });
    return p;
  }

 private:
  const Node& node_;
  const OpRegistry& ops_;
  std::vector<Datum> constants_;
  std::vector<int> args_;  // by operand of the node: of the step; -1: constant or omitted
};

inline std::string RefuseNode(const StepCall& call) {
  for (const Value* v : call.main().inputs())
    if (v && !call.constant(v) && !IsF32(v)) return Cat("operand '", v->name(), "' is not f32");
  return IsF32(call.main().output(0)) && call.step.outputs.size() == 1 ? "" : "not one f32 result";
}

// ---- Backend: what the executor asks --------------------------------------------------------

class ToyPlanBackend final : public PlanBackend {
 public:
  ToyPlanBackend(const std::vector<std::string_view>& operators, std::shared_ptr<ToyCounts> counts)
      : device_(std::move(counts)) {
    for (const std::string_view op : operators)
      kernels_.push_back({op, "", "node", RefuseNode, [](const StepCall& call) {
                            return std::unique_ptr<Kernel>(std::make_unique<NodeKernel>(call));
                          }});
  }
  std::string_view name() const override { return "toy"; }
  const KernelList& kernels() const override { return kernels_; }
  Device* device() const override { return &device_; }
  /// It has the row-major layout only.
  Result<Prepared> Reorder(DType dtype, const Dims& dims, const Layout&,
                           const Layout&) const override {
    return Prepared{.launch = std::make_shared<ToyLaunch>(
                        [bytes = PackedBytes(dtype, NumElements(dims))](auto args) {
                          std::memmove(At(args[1]), At(args[0]), static_cast<size_t>(bytes));
                          return Status();
                        })};
  }
  double StepMicroseconds(const Cost&) const override { return 0; }

 private:
  mutable ToyDevice device_;
  KernelList kernels_;
};

class ToyBackend final : public Backend {
 public:
  explicit ToyBackend(PlanBackends backends) : backends_(std::move(backends)) {}
  std::string_view name() const override { return "toy"; }
  std::string Unavailable() const override { return ""; }
  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    INFER_ASSIGN(std::shared_ptr<const Program> program,
                 CompileOver(graph.Clone(), options, backends_));
    return program;
  }

 private:
  PlanBackends backends_;
};

}  // namespace toy

/// `operators` of ai.onnx run on the device, all others behind it.
inline std::unique_ptr<Backend> MakeToyBackend(const std::vector<std::string_view>& operators,
                                               std::shared_ptr<const PlanBackend> behind,
                                               std::shared_ptr<ToyCounts> counts) {
  return std::make_unique<toy::ToyBackend>(
      PlanBackends{std::make_shared<const toy::ToyPlanBackend>(operators, std::move(counts)),
                   std::move(behind)});
}

}  // namespace infer
