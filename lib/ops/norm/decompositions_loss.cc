/// The losses of classifiers in terms of older operators.
#include "lib/ops/decomposition_text.h"
#include "lib/ops/decompositions.h"

namespace infer {
namespace {

/// Names of what a loss is made of; "" for what there is not.
struct LossText {
  std::string losses;   // of every label, weighted; 0 where the label is ignored
  std::string weights;  // of every label; 0 where the label is ignored
};

LossText PerLabel(const OpCall& call, const std::string& log_prob, DType t, DType label,
                  BodyText& body) {
  LossText out;
  std::string labels = "x1";
  const bool ignores = call.HasAttr("ignore_index"), weighted = call.has_input(2);
  if (ignores) {
    body.Line(Cat("ignored = const ", Name(label), "[] {", call.Int("ignore_index"), "}"));
    body.Line(Cat("any_class = const ", Name(label), "[] {0}"));
    body.Line("is_ignored = Equal(x1, ignored)");
    body.Line("labels = Where(is_ignored, any_class, x1)");
    body.Scalar("nothing", t, 0);
    labels = "labels";
  }
  body.Ints("channels", {1});
  body.Line(Cat("columns = Unsqueeze(", labels, ", channels)"));
  body.Line(Cat("picked = GatherElements(", log_prob, ", columns) {axis=1}"));
  body.Line("chosen = Squeeze(picked, channels)");
  body.Line("losses = Neg(chosen)");
  out.losses = "losses";
  if (weighted) {
    body.Line(Cat("label_weights = Gather(x2, ", labels, ")"));
    body.Line("weighted = Mul(losses, label_weights)");
    out = {"weighted", "label_weights"};
  }
  if (!ignores) return out;
  if (!weighted) body.Scalar("full", t, 1);
  body.Line(Cat("weights = Where(is_ignored, nothing, ", weighted ? "label_weights" : "full", ")"));
  body.Line(Cat("counted = Where(is_ignored, nothing, ", out.losses, ")"));
  return {"counted", "weights"};
}

}  // namespace

Result<std::string> DecomposeLoss(const OpCall& call) {
  INFER_ASSIGN(const DType t, KnownType(call, 0));
  INFER_ASSIGN(const DType label, KnownType(call, 1));
  BodyText body(call);
  std::string log_prob = "x0";
  if (call.def().name == "SoftmaxCrossEntropyLoss") {
    body.Line("log_prob = LogSoftmax(x0) {axis=1}");
    log_prob = "log_prob";
  }
  const LossText parts = PerLabel(call, log_prob, t, label, body);
  const std::string& reduction = call.Str("reduction");
  std::string y = parts.losses;
  if (reduction == "sum" || (reduction == "mean" && !parts.weights.empty())) {
    body.Line(Cat("total = ReduceSum(", parts.losses, ") {keepdims=0}"));
    y = "total";
  }
  if (reduction == "mean" && parts.weights.empty()) {
    body.Line(Cat("mean = ReduceMean(", parts.losses, ") {keepdims=0}"));
    y = "mean";
  } else if (reduction == "mean") {
    body.Line(Cat("weight_sum = ReduceSum(", parts.weights, ") {keepdims=0}"));
    body.Line("mean = Div(total, weight_sum)");
    y = "mean";
  }
  return body.Graph(call.num_outputs() > 1 ? Cat(y, ", log_prob") : y);
}

}  // namespace infer
