#pragma once
/// Kernels of the cpu backend, timed on memory of their own with the reorders that they need.
#include "runtime/plan_ir/tuner.h"

namespace infer {

class CpuTuner final : public Tuner {
 public:
  /// nullptr where the options ask for none. Io when the file is there and cannot be read.
  static Result<std::shared_ptr<CpuTuner>> For(const CompileOptions& options, int lanes);

 protected:
  std::vector<double> Time(std::span<const Operand> in, std::span<const Operand> out,
                           std::span<const Prepared* const> kernels) override;
  std::string NameOf(const Layout& layout) const override;

 private:
  class Trial;
  CpuTuner(const CompileOptions& options, int lanes);
};

}  // namespace infer
