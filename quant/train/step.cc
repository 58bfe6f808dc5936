#include "quant/train/step.h"

#include "lib/ir/inference.h"
#include "lib/support/strings.h"
#include "passes/gradient/gradient.h"
#include "passes/pass/pipeline.h"

namespace infer {
namespace {

/// Constants become inputs of the graph, in this order, behind those that it has.
std::vector<std::string> OpenParameters(Graph& g, const std::vector<std::string>& parameters) {
  GraphEditor editor(g);
  std::vector<std::string> names;
  for (const std::string& name : parameters) {
    Value* constant = g.FindValue(name);
    Value* input = editor.AddInput(Cat("trained_", name), constant->type());
    INFER_CHECK(editor.ReplaceAllUses(constant, input).ok());
    names.push_back(input->name());
  }
  editor.Sweep();
  return names;
}

}  // namespace

Result<TrainingStep> TrainingStep::Make(const Graph& model,
                                        const std::vector<std::string>& parameters,
                                        const Backend& backend, const StepOptions& options) {
  TrainingStep step;
  Graph g = model.Clone();
  step.num_inputs_ = g.inputs().size();
  std::map<std::string, Dims> dims;
  for (size_t i = 0; i < g.inputs().size(); ++i)
    dims[g.inputs()[i]->name()] = options.input_dims[i];
  INFER_TRY(SpecializeInputs(g, dims));
  INFER_TRY(AddLoss(g, options.loss));
  step.num_golden_ = g.inputs().size() - step.num_inputs_;
  step.loss_ = g.outputs().size() - 1;
  const auto trained = OpenParameters(g, parameters);
  step.gradients_.resize(parameters.size());
  if (options.gradients) {
    INFER_ASSIGN(const auto gradients, AddGradients(g, step.loss_, trained));
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i]) continue;
      step.gradients_[i] = g.outputs().size();
      GraphEditor(g).MarkOutput(gradients[i]);
    }
  }
  OptimizeOptions simplify;
  simplify.level = kSimplifyLevel;
  INFER_TRY(Optimize(g, std::move(simplify)).status());
  CompileOptions compile;
  compile.threads = options.threads;
  INFER_ASSIGN(step.program_, backend.CompileOwned(std::move(g), compile));
  INFER_ASSIGN(step.context_, step.program_->NewContext());
  return step;
}

Status TrainingStep::SetParameters(const std::vector<Tensor>& weights) {
  for (size_t i = 0; i < weights.size(); ++i)
    INFER_TRY(context_->BindInput(num_inputs_ + num_golden_ + i, Datum(weights[i])));
  return {};
}

Result<double> TrainingStep::Run(std::vector<Datum> inputs, std::vector<Datum> golden,
                                 std::stop_token stop) {
  if (inputs.size() != num_inputs_ || golden.size() != num_golden_)
    return Internal("a training step got another number of inputs");
  for (size_t i = 0; i < inputs.size(); ++i)
    INFER_TRY(context_->BindInput(i, std::move(inputs[i])));
  for (size_t i = 0; i < golden.size(); ++i)
    INFER_TRY(context_->BindInput(num_inputs_ + i, std::move(golden[i])));
  RunOptions run;
  run.stop = std::move(stop);
  INFER_TRY(context_->Run(run));
  return context_->output(loss_).tensor().At(0);
}

std::optional<std::span<const float>> TrainingStep::gradient(size_t i) const {
  if (!gradients_[i]) return std::nullopt;
  return context_->output(*gradients_[i]).tensor().data<float>();
}

}  // namespace infer
