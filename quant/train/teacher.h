#pragma once
/// The golden model as a teacher: run on stacked samples, with the losses by which a student is
/// compared with it.
#include <memory>

#include "quant/train/loss.h"
#include "runtime/api/program.h"

namespace infer {

struct TeacherOptions {
  size_t outputs = 0;  ///< of the model itself; those behind are inner values
  /// Outputs that count, in order; those that do not are caches (JudgedOutputs).
  std::vector<size_t> judged = {};
  std::optional<size_t> token_scores = {};  ///< the output of NextTokenOf
  double temperature = 2, label_weight = 0.1;
  double activation_weight = 0;  ///< of all inner values together
  bool labels = false;           ///< there are some
  int threads = 0;
  std::stop_token stop = {};
};

class Teacher {
 public:
  /// `golden` takes inputs of the extents of `inputs`, which choose how each output is compared.
  /// Unsupported: no output is a tensor of f32.
  static Result<Teacher> Make(Graph golden, const std::vector<Datum>& inputs,
                              const Backend& backend, const TeacherOptions& options);

  /// Outputs that the loss compares, in its order; valid until the next run.
  Result<std::vector<Datum>> Run(const std::vector<Datum>& inputs);
  const LossOptions& loss() const { return loss_; }
  /// [..., classes] of labels; empty: none count.
  const Dims& label_dims() const { return label_dims_; }

 private:
  Status ChooseLosses(const std::vector<Datum>& outputs, const TeacherOptions& options);
  Result<std::vector<Datum>> Outputs(const std::vector<Datum>& inputs);

  std::shared_ptr<const Program> program_;
  std::unique_ptr<RunContext> context_;
  size_t num_outputs_ = 0;
  std::stop_token stop_;
  LossOptions loss_;
  Dims label_dims_;
};

}  // namespace infer
