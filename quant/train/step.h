#pragma once
/// A model as a training step: inputs, golden outputs and weights in, the loss and its gradients
/// out. One program that is compiled once; weights are inputs of it and change between runs.
#include <memory>

#include "quant/train/loss.h"
#include "runtime/api/program.h"

namespace infer {

struct StepOptions {
  LossOptions loss;
  std::vector<Dims> input_dims;  ///< of the model's inputs, stacked
  bool gradients = true;         ///< false: the loss alone
  int threads = 0;
};

class TrainingStep {
 public:
  /// `parameters`: f32 constants of `model`, which become inputs. Unsupported: an operator on their
  /// way to the loss has no gradient; the message names it.
  static Result<TrainingStep> Make(const Graph& model, const std::vector<std::string>& parameters,
                                   const Backend& backend, const StepOptions& options);

  /// The weights to run with, in the order of `parameters`; kept until set again, and read at each
  /// run, so that they may be changed in place between runs.
  Status SetParameters(const std::vector<Tensor>& weights);
  /// The loss. `golden`: the outputs that the loss compares, then labels, where it has some.
  Result<double> Run(std::vector<Datum> inputs, std::vector<Datum> golden, std::stop_token stop);
  /// Of the last run; valid until the next one. nullopt: the loss does not depend on parameter i.
  std::optional<std::span<const float>> gradient(size_t i) const;
  int64_t arena_bytes() const { return context_->memory().arena_bytes; }
  const Program& program() const { return *program_; }

 private:
  std::shared_ptr<const Program> program_;
  std::unique_ptr<RunContext> context_;
  size_t num_inputs_ = 0, num_golden_ = 0, loss_ = 0;
  std::vector<std::optional<size_t>> gradients_;  // output of the program, by parameter
};

}  // namespace infer
