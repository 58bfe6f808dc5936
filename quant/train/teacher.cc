#include "quant/train/teacher.h"

#include <algorithm>
#include <cmath>

#include "lib/ir/inference.h"

namespace infer {
namespace {

/// Every row along the last axis is a distribution, or its logarithms.
bool AreDistributions(const Tensor& t, bool logarithms) {
  const auto v = t.data<float>();
  const auto classes = static_cast<size_t>(t.dim(t.rank() - 1));
  for (size_t at = 0; at < v.size(); at += classes) {
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) {
      if (logarithms ? v[at + c] > 1e-3f : v[at + c] < 0) return false;
      const auto x = static_cast<double>(v[at + c]);
      sum += logarithms ? std::exp(x) : x;
    }
    if (std::abs(sum - 1) > 1e-3) return false;
  }
  return true;
}

/// An output [rows, classes] has scores. With more axes their rows have to be known for such: the
/// scores of tokens, distributions or logarithms of these; a map of numbers is none.
OutputLoss::Kind KindOf(const Tensor& t, bool is_token_scores) {
  if (t.rank() < 2 || t.dim(t.rank() - 1) < 2 || t.num_elements() == 0)
    return OutputLoss::Kind::kNumbers;
  if (AreDistributions(t, false)) return OutputLoss::Kind::kProbabilities;
  const bool scores = t.rank() == 2 || is_token_scores || AreDistributions(t, true);
  return scores ? OutputLoss::Kind::kScores : OutputLoss::Kind::kNumbers;
}

/// Mean of the squares.
double EnergyOf(const Tensor& t) {
  double squares = 0;
  for (const float v : t.data<float>()) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::max(1e-12, squares / static_cast<double>(std::max<int64_t>(1, t.num_elements())));
}

}  // namespace

Result<Teacher> Teacher::Make(Graph golden, const std::vector<Datum>& inputs,
                              const Backend& backend, const TeacherOptions& options) {
  Teacher t;
  t.num_outputs_ = golden.outputs().size();
  t.stop_ = options.stop;
  std::map<std::string, Dims> dims;
  for (size_t i = 0; i < inputs.size(); ++i)
    dims[golden.inputs()[i]->name()] = inputs[i].tensor().dims();
  INFER_TRY(SpecializeInputs(golden, dims));
  CompileOptions compile;
  compile.threads = options.threads;
  INFER_ASSIGN(t.program_, backend.CompileOwned(std::move(golden), compile));
  INFER_ASSIGN(t.context_, t.program_->NewContext());
  INFER_ASSIGN(const auto outputs, t.Outputs(inputs));
  INFER_TRY(t.ChooseLosses(outputs, options));
  return t;
}

Result<std::vector<Datum>> Teacher::Outputs(const std::vector<Datum>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(context_->BindInput(i, inputs[i]));
  RunOptions run;
  run.stop = stop_;
  INFER_TRY(context_->Run(run));
  std::vector<Datum> outputs;
  for (size_t k = 0; k < num_outputs_; ++k) outputs.push_back(context_->output(k));
  return outputs;
}

Status Teacher::ChooseLosses(const std::vector<Datum>& outputs, const TeacherOptions& options) {
  loss_.temperature = options.temperature;
  const size_t inner = outputs.size() - options.outputs;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const bool counts =
        k >= options.outputs || std::binary_search(options.judged.begin(), options.judged.end(), k);
    if (!counts || !outputs[k].is_tensor() || outputs[k].tensor().dtype() != DType::kF32) continue;
    const Tensor& t = outputs[k].tensor();
    OutputLoss o;
    o.output = k;
    if (k >= options.outputs) o.weight = options.activation_weight / static_cast<double>(inner);
    if (k < options.outputs) o.kind = KindOf(t, options.token_scores == k);
    o.energy = EnergyOf(t);
    if (o.kind != OutputLoss::Kind::kNumbers && options.labels && options.label_weight > 0 &&
        loss_.label_weight == 0) {
      loss_.label_weight = options.label_weight;
      label_dims_ = t.dims();
    }
    loss_.outputs.push_back(o);
  }
  if (loss_.outputs.empty()) return Unsupported("no output is a tensor of f32 to compare");
  return {};
}

Result<std::vector<Datum>> Teacher::Run(const std::vector<Datum>& inputs) {
  INFER_ASSIGN(const auto outputs, Outputs(inputs));
  std::vector<Datum> compared;
  for (const OutputLoss& o : loss_.outputs) compared.push_back(outputs[o.output]);
  return compared;
}

}  // namespace infer
