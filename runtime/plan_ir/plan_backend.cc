#include "runtime/plan_ir/plan_backend.h"

#include <cstring>

namespace infer {
namespace {

/// Rates of one core on data in its caches, near enough where two backends differ by factors.
constexpr double kFlopsPerMicrosecond = 20e3, kBytesPerMicrosecond = 10e3;

class CopyBytes final : public Launch {
 public:
  explicit CopyBytes(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {}
  Status Run(std::byte* const* args, LaunchState*) const override {
    if (bytes_ > 0) std::memcpy(args[1], args[0], bytes_);
    return {};
  }

 private:
  size_t bytes_;
};

class Reference final : public PlanBackend {
 public:
  std::string_view name() const override { return "reference"; }
  const KernelList& kernels() const override { return none_; }
  Result<Prepared> Reorder(DType dtype, const Dims& dims, const Layout&,
                           const Layout&) const override {
    return Prepared{.launch = std::make_shared<CopyBytes>(PackedBytes(dtype, NumElements(dims))),
                    .name = "copy"};
  }

 private:
  KernelList none_;
};

}  // namespace

double PlanBackend::StepMicroseconds(const Cost& cost) const {
  return static_cast<double>(cost.flops) / kFlopsPerMicrosecond +
         static_cast<double>(cost.bytes_read + cost.bytes_written) / kBytesPerMicrosecond;
}

double PlanBackend::TransferMicroseconds(int64_t bytes) const {
  return static_cast<double>(bytes) / kBytesPerMicrosecond;
}

std::shared_ptr<const PlanBackend> ReferenceHost() {
  static const auto host = std::make_shared<const Reference>();
  return host;
}

Status Launch::Run(std::byte* const*, LaunchState*) const {
  return Internal("a launch for memory of a device was called on host memory");
}

Status Launch::Record(Encoder&, std::span<const BufferView>, LaunchState*) const {
  return Internal("a launch for host memory was recorded for a device");
}

}  // namespace infer
