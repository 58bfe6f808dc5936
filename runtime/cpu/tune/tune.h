#pragma once
/// Which of a step's kernels is fastest on its real shapes: measured when a program is compiled
/// with `tune`, kept in a text file, and taken from there next time.
///
/// A line is KEY <tab> INDEX <tab> NAME <tab> MILLISECONDS. The key holds what the time hangs on:
/// build, processor, instruction set, lanes, operators with their attributes, types, extents,
/// layouts and the names of the candidates. Lines that are damaged, or of another build or machine,
/// fit no step. Processes that tune at once keep each other's lines.
#include <map>
#include <mutex>
#include <set>

#include "runtime/plan_ir/shape_plan.h"

namespace infer {

class Tuner final : public KernelChooser {
 public:
  /// nullptr where the options ask for none. Io when the file is there and cannot be read.
  static Result<std::shared_ptr<Tuner>> For(const CompileOptions& options, int lanes);

  std::optional<size_t> Known(const PlanStep& step, std::span<const Operand> in,
                              std::span<const Operand> out, const StepKernels& candidates) override;
  bool measures() const override { return measures_; }
  std::optional<size_t> Fastest(const PlanStep& step, std::span<const Operand> in,
                                std::span<const Operand> out, const StepKernels& candidates,
                                std::span<const std::optional<Prepared>> prepared) override;
  /// Writes what was measured to the file, with what stands there; runs measure nothing after it.
  Status Save() override;

 private:
  struct Choice {
    size_t index;
    std::string name;
    double ms;
  };
  Tuner(std::string path, bool measures, int lanes);
  using Choices = std::map<std::string, Choice>;
  Result<Choices> InFile() const;
  std::string KeyOf(const PlanStep& step, std::span<const Operand> in, std::span<const Operand> out,
                    const StepKernels& candidates) const;

  std::string path_, machine_;
  bool measures_;
  mutable std::mutex mutex_;
  Choices choices_;
  std::set<std::string> measured_;  // keys of choices_ that the file may lack
};

}  // namespace infer
