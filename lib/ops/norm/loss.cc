/// Losses of classifiers: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include "lib/ops/common.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// scores [N, C, d1, ...], labels [N, d1, ...], weights [C]; the result is as labels, or a scalar.
Status InferLoss(OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 2));
  const std::string& reduction = call.Str("reduction");
  if (reduction != "none" && reduction != "mean" && reduction != "sum")
    return InvalidModel(Cat("reduction is '", reduction, "', known are none, mean and sum"));
  const Shape& scores = call.shape(0);
  Shape labels = call.shape(1);
  if (scores.has_rank()) {
    std::vector<Dim> dims = scores.dims();
    dims.erase(dims.begin() + 1);
    INFER_ASSIGN(labels, Meet(Shape(std::move(dims)), labels));
  }
  if (call.has_input(2) && call.shape(2).has_rank()) {
    if (call.shape(2).rank() != 1) return InvalidModel("the weights have a rank other than 1");
    if (scores.has_rank()) INFER_TRY(Meet(scores[1], call.shape(2)[0]).status());
  }
  call.SetOut(0, call.dtype(0), reduction == "none" ? labels : Shape(std::vector<Dim>{}));
  call.SetOut(1, call.dtype(0), scores);
  return {};
}

/// x - ln sum e^x over axis 1.
void LogSoftmaxOverChannels(const Tensor& x, Tensor& y) {
  const int64_t classes = x.dim(1), inner = NumElements({x.dims().begin() + 2, x.dims().end()});
  for (int64_t i = 0; i < x.dim(0) * inner && classes > 0; ++i) {
    const int64_t base = i / inner * classes * inner + i % inner;
    double top = x.At(base), sum = 0;
    for (int64_t c = 1; c < classes; ++c) top = std::max(top, x.At(base + c * inner));
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x.At(base + c * inner) - top);
    for (int64_t c = 0; c < classes; ++c)
      y.Set(base + c * inner, x.At(base + c * inner) - top - std::log(sum));
  }
}

/// loss[i] = -w[label] log_prob[label]; 0, and without weight, where the label is ignored. The mean
/// divides by the sum of the weights.
Status ReduceLoss(OpRun& run, const Tensor& log_prob) {
  const Tensor& labels = run.in(1);
  const Tensor* weights = run.in_or_null(2);
  const int64_t classes = log_prob.dim(1);
  const int64_t inner = NumElements({log_prob.dims().begin() + 2, log_prob.dims().end()});
  const bool ignores = run.call().HasAttr("ignore_index");
  const int64_t ignored = ignores ? run.Int("ignore_index") : 0;
  const std::string& reduction = run.Str("reduction");
  const bool none = reduction == "none";
  Tensor& y = run.Out(0, log_prob.dtype(), none ? labels.dims() : Dims{});
  double sum = 0, weight_sum = 0;
  for (int64_t i = 0; i < labels.num_elements(); ++i) {
    const int64_t label = labels.IntAt(i);
    double loss = 0;
    if (!ignores || label != ignored) {
      if (label < 0 || label >= classes)
        return InvalidModel(Cat("label ", label, " is not one of ", classes, " classes"));
      const double w = weights ? weights->At(label) : 1;
      loss = -w * log_prob.At((i / inner * classes + label) * inner + i % inner);
      weight_sum += w;
    }
    if (none) y.Set(i, loss);
    sum += loss;
  }
  if (!none) y.Set(0, reduction == "mean" ? sum / weight_sum : sum);
  return {};
}

Status RunNegativeLogLikelihood(OpRun& run) { return ReduceLoss(run, run.in(0)); }

Status RunSoftmaxCrossEntropy(OpRun& run) {
  const Tensor& scores = run.in(0);
  Tensor log_prob(scores.dtype(), scores.dims());
  LogSoftmaxOverChannels(scores, log_prob);
  INFER_TRY(ReduceLoss(run, log_prob));
  run.Set(1, std::move(log_prob));
  return {};
}

}  // namespace

std::span<const OpDef> LossOps() {
  static const OpDef ops[] = {
      {
          .name = "NegativeLogLikelihoodLoss",
          .doc = "Minus the (weighted) log-probability of the label, per sample, mean or sum.",
          .traits = Trait::kLoss,
          .since = 12,
          .versions = {12, 13, 22},
          .inputs = {{"input", "T"}, {"target", "Tind"}, {"weight", "T", Arity::kOptional}},
          .outputs = {{"loss", "T"}},
          .attrs = {{"ignore_index", AttrKind::kInt},
                    {"reduction", AttrKind::kString, std::string("mean")}},
          .constraints = {{"T", kFloatsBF16}, {"Tind", TypeSet(DType::kI32, DType::kI64)}},
          .infer = InferLoss,
          .reference = Wide<RunNegativeLogLikelihood>,
          .decompose = DecomposeLoss,
          .example = R"(graph g(x: f32[2,3]) -> (y) { t = const i64[2] {2, 0}
            y = NegativeLogLikelihoodLoss(x, t) })",
      },
      {
          .name = "SoftmaxCrossEntropyLoss",
          .doc = "NegativeLogLikelihoodLoss of LogSoftmax along axis 1.",
          .traits = Trait::kLoss,
          .since = 12,
          .versions = {12, 13},
          .inputs = {{"scores", "T"}, {"labels", "Tind"}, {"weights", "T", Arity::kOptional}},
          .outputs = {{"output", "T"}, {"log_prob", "T", Arity::kOptional}},
          .attrs = {{"ignore_index", AttrKind::kInt},
                    {"reduction", AttrKind::kString, std::string("mean")}},
          .constraints = {{"T", kFloatsBF16}, {"Tind", TypeSet(DType::kI32, DType::kI64)}},
          .infer = InferLoss,
          .reference = Wide<RunSoftmaxCrossEntropy>,
          .cost = CostPerInput<5>,
          .decompose = DecomposeLoss,
          .example = R"(graph g(x: f32[2,3,2]) -> (y) { t = const i64[2,2] {2, 0, 1, 1}
            y = SoftmaxCrossEntropyLoss(x, t) {reduction="none"} })",
      },
  };
  return ops;
}

}  // namespace infer
