#include "quant/train/check_request.h"

#include "lib/ir/carried.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"
#include "passes/gradient/gradient.h"
#include "quant/scheme/quantize.h"
#include "quant/train/loss.h"
#include "quant/train/parameters.h"

namespace infer {
namespace {

Status CheckExtents(const Samples& samples, const std::stop_token& stop, std::vector<Dims>& first) {
  for (int64_t i = 0; i < samples.count; ++i) {
    if (stop.stop_requested()) return Cancelled("fine-tuning was stopped");
    INFER_ASSIGN(const auto inputs, samples.get(i));
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k].is_tensor()) return Unsupported("fine-tuning wants inputs that are tensors");
      if (i == 0) first.push_back(inputs[k].tensor().dims());
      if (inputs[k].tensor().dims() != first[k])
        return InvalidArgument(Cat("sample ", i, " has other extents than the first: ",
                                   "fine-tuning wants samples of the same extents"));
    }
  }
  return {};
}

/// The squares of all f32 outputs that count, by which measure they are compared later.
Result<LossOptions> AnyLoss(const Graph& g) {
  LossOptions loss;
  for (const size_t k : JudgedOutputs(g))
    if (g.outputs()[k]->type().is_tensor() && IsF32(g.outputs()[k])) loss.outputs.push_back({k});
  if (loss.outputs.empty()) return Unsupported("no output is a tensor of f32 to compare");
  return loss;
}

}  // namespace

Status CheckRequest(const Samples& samples, const FineTuneOptions& o) {
  if (o.steps < 1) return InvalidArgument("fine-tuning wants at least one step");
  if (!(o.rate > 0)) return InvalidArgument("a learning rate is above 0");
  if (o.batch < 1 || o.stacked < 1) return InvalidArgument("a batch has at least one sample");
  if (!(o.temperature > 0)) return InvalidArgument("a temperature is above 0");
  if (samples.count < kFineTuneSamplesFrom)
    return InvalidArgument(Cat("fine-tuning wants at least ", kFineTuneSamplesFrom,
                               " calibration samples: there are ", samples.count));
  return {};
}

Status CheckFineTune(const Graph& model, const Samples& samples, const FineTuneOptions& o) {
  INFER_TRY(CheckRequest(samples, o));
  std::vector<Dims> extents;
  INFER_TRY(CheckExtents(samples, o.stop, extents));
  Graph g = model.Clone();
  INFER_TRY(PrepareForQuantization(g));
  const std::vector<std::string> learnt = TrainableConstants(g);
  if (learnt.empty()) return Unsupported("nothing to train: no layer has constant f32 weights");
  std::map<std::string, Dims> dims;
  for (size_t i = 0; i < g.inputs().size() && i < extents.size(); ++i)
    dims[g.inputs()[i]->name()] = extents[i];
  INFER_TRY(SpecializeInputs(g, dims));
  INFER_ASSIGN(const LossOptions loss, AnyLoss(g));
  INFER_TRY(AddLoss(g, loss));
  return AddGradients(g, g.outputs().size() - 1, learnt).status();
}

}  // namespace infer
