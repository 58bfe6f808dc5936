#pragma once
/// Which of a step's kernels is fastest on its real shapes: measured when a program is compiled
/// with `tune`, kept in a text file, and taken from there next time. A backend says how a kernel is
/// timed.
///
/// A line is KEY <tab> INDEX <tab> NAME <tab> MILLISECONDS. The key holds what the time hangs on:
/// build, machine, operators with their attributes, types, extents, layouts and the names of the
/// candidates. Lines that are damaged, or of another build or machine, fit no step. Processes that
/// tune at once keep each other's lines.
#include <map>
#include <mutex>
#include <set>

#include "lib/support/random.h"
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

class Tuner : public KernelChooser {
 public:
  std::optional<size_t> Known(const PlanStep& step, std::span<const Operand> in,
                              std::span<const Operand> out, const StepKernels& candidates) override;
  bool measures() const override { return measures_; }
  std::optional<size_t> Fastest(const PlanStep& step, std::span<const Operand> in,
                                std::span<const Operand> out, const StepKernels& candidates,
                                std::span<const std::optional<Prepared>> prepared) override;
  /// Writes what was measured to the file, with what stands there; runs measure nothing after it.
  Status Save() override;

  /// Floats in [0, 1), or any bytes.
  static void FillRandom(DType dtype, std::span<std::byte> bytes, Random& random);

 protected:
  /// `machine`: what times hang on beside the build. No path: nothing is kept.
  Tuner(std::string path, bool measures, std::string_view machine);
  /// Takes what the file has. Io when it is there and cannot be read.
  Status Read();

  /// Milliseconds of each, infinity where it fails. Empty: they cannot be timed.
  virtual std::vector<double> Time(std::span<const Operand> in, std::span<const Operand> out,
                                   std::span<const Prepared* const> kernels) = 0;
  virtual std::string NameOf(const Layout& layout) const { return layout.code; }

  /// Calls each `round` by round until `most_ms` were spent on one, and takes the medians: what
  /// disturbs the machine disturbs all.
  static std::vector<double> Medians(size_t count, double most_ms,
                                     const std::function<double(size_t)>& time);

 private:
  struct Choice {
    size_t index;
    std::string name;
    double ms;
  };
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
