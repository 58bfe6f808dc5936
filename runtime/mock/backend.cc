#include "runtime/mock/backend.h"

#include "runtime/mock/kernels.h"
#include "runtime/plan_ir/compile_over.h"

namespace infer {
namespace {

class MockDevice final : public PlanBackend {
 public:
  explicit MockDevice(mock::DeviceOptions options) : device_(std::move(options)) {}
  std::string_view name() const override { return "mock"; }
  const KernelList& kernels() const override { return kernels_; }
  Device* device() const override { return &device_; }
  Result<Prepared> Reorder(DType dtype, const Dims& dims, const Layout& from,
                           const Layout& to) const override {
    return mock::Reorder(dtype, dims, from, to);
  }
  /// Whatever it has a kernel for runs on it: tests count on that.
  double StepMicroseconds(const Cost&) const override { return 0; }
  double TransferMicroseconds(int64_t) const override { return 0; }

 private:
  KernelList kernels_ = mock::Kernels();
  mutable mock::Device device_;
};

class MockBackend final : public Backend {
 public:
  explicit MockBackend(MockOptions options)
      : backends_{std::make_shared<const MockDevice>(std::move(options.device)),
                  std::move(options.behind)} {}
  std::string_view name() const override { return "mock"; }
  std::string Unavailable() const override { return ""; }
  bool HasKernelFor(const OpDef& def) const override {
    for (const KernelDef& k : backends_.front()->kernels())
      if (k.Takes(def)) return true;
    return false;
  }
  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    INFER_ASSIGN(std::shared_ptr<const Program> program,
                 CompileOver(graph.Clone(), options, backends_));
    return program;
  }

 private:
  PlanBackends backends_;
};

}  // namespace

std::unique_ptr<Backend> MakeMockBackend(MockOptions options) {
  return std::make_unique<MockBackend>(std::move(options));
}

}  // namespace infer
