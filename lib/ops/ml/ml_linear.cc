/// ai.onnx.ml: linear models.

#include "lib/ops/axes.h"
#include "lib/ops/ml/ml_scores.h"

namespace infer {
namespace {

/// The number of rows of `features` coefficients each. InvalidModel where they do not divide.
Result<Dim> Outputs(const OpCall& call) {
  const auto n = static_cast<int64_t>(ListAttr<float>(call, "coefficients").size());
  const Dim features = FeaturesOf(call);
  if (!features.is_static()) return Dim();
  if (features.value() == 0 || n == 0 || n % features.value() != 0)
    return InvalidModel(Cat(n, " coefficients for ", features.ToString(), " features"));
  return Dim(n / features.value());
}

/// Row `row` of X times the coefficients, plus the intercepts.
std::vector<double> Products(const OpRun& run, int64_t row, const Rows& rows, int64_t outputs) {
  const Tensor& x = run.in(0);
  const auto& coefficients = ListAttr<float>(run.call(), "coefficients");
  const auto& intercepts = ListAttr<float>(run.call(), "intercepts");
  std::vector<double> scores;
  for (int64_t k = 0; k < outputs; ++k) {
    double sum = intercepts.empty() ? 0 : static_cast<double>(intercepts[static_cast<size_t>(k)]);
    for (int64_t i = 0; i < rows.features; ++i)
      sum += x.At(row * rows.features + i) *
             static_cast<double>(coefficients[static_cast<size_t>(k * rows.features + i)]);
    scores.push_back(sum);
  }
  return scores;
}

Status CheckIntercepts(const OpCall& call, const Dim& outputs) {
  const auto n = static_cast<int64_t>(ListAttr<float>(call, "intercepts").size());
  if (n == 0 || !outputs.is_static() || outputs.value() == n) return {};
  return InvalidModel(Cat(n, " intercepts for ", outputs.ToString(), " outputs"));
}

Cost CostLinear(const OpCall& call) {
  Cost c = TrafficOf(call);
  const auto n = static_cast<int64_t>(ListAttr<float>(call, "coefficients").size());
  const Dim features = FeaturesOf(call);
  if (features.is_static() && features.value() > 0)
    c.flops = 2 * n * (StaticElements(call.shape(0)) / features.value());
  c.bytes_read += 4 * n;
  return c;
}

// ---- LinearRegressor -------------------------------------------------------------------------

Status InferLinearRegressor(OpCall& call) {
  INFER_TRY(PostTransformOf(call.Str("post_transform")).status());
  INFER_ASSIGN(const Dim rows, InferRows(call));
  INFER_ASSIGN(const Dim outputs, Outputs(call));
  const int64_t targets = call.Int("targets");
  if (targets < 1) return InvalidModel(Cat("targets is ", targets));
  if (outputs.is_static() && outputs.value() != targets)
    return InvalidModel(Cat("coefficients of ", outputs.ToString(), " targets, not ", targets));
  INFER_TRY(CheckIntercepts(call, Dim(targets)));
  call.SetOut(0, DType::kF32, Shape({rows, Dim(targets)}));
  return {};
}

Status RunLinearRegressor(OpRun& run) {
  INFER_ASSIGN(const PostTransform transform, PostTransformOf(run.Str("post_transform")));
  const Rows rows = RowsOf(run.in(0));
  const int64_t targets = run.Int("targets");
  Tensor& y = run.Out(0, DType::kF32, {rows.count, targets});
  for (int64_t row = 0; row < rows.count; ++row) {
    auto scores = Products(run, row, rows, targets);
    Apply(transform, scores);
    for (int64_t k = 0; k < targets; ++k) y.Set(row * targets + k, scores[static_cast<size_t>(k)]);
  }
  return {};
}

// ---- LinearClassifier ------------------------------------------------------------------------

Status InferLinearClassifier(OpCall& call) {
  INFER_TRY(PostTransformOf(call.Str("post_transform")).status());
  INFER_ASSIGN(const Tensor labels, ClassLabels(call, "classlabels_ints", "classlabels_strings"));
  INFER_ASSIGN(const Dim rows, InferRows(call));
  INFER_ASSIGN(const Dim outputs, Outputs(call));
  INFER_TRY(CheckIntercepts(call, outputs));
  const int64_t classes = labels.num_elements();
  if (outputs.is_static() && outputs.value() != classes && !(outputs.value() == 1 && classes == 2))
    return InvalidModel(Cat("coefficients of ", outputs.ToString(), " classes, not ", classes));
  call.SetOut(0, labels.dtype(), Shape({rows}));
  call.SetOut(1, DType::kF32, Shape({rows, Dim(classes)}));
  return {};
}

/// Two classes with coefficients for one: a positive score means the second. The first class's
/// score is then what the second's lacks to one, and there is no softmax (ONNX Runtime's reading).
Status RunLinearClassifier(OpRun& run) {
  INFER_ASSIGN(const PostTransform transform, PostTransformOf(run.Str("post_transform")));
  INFER_ASSIGN(const Tensor labels,
               ClassLabels(run.call(), "classlabels_ints", "classlabels_strings"));
  const Rows rows = RowsOf(run.in(0));
  INFER_ASSIGN(const Dim outputs, Outputs(run.call()));
  const int64_t classes = labels.num_elements();
  Tensor& y = run.Out(0, labels.dtype(), {rows.count});
  Tensor& z = run.Out(1, DType::kF32, {rows.count, classes});
  for (int64_t row = 0; row < rows.count; ++row) {
    auto scores = Products(run, row, rows, outputs.value());
    int64_t best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    if (outputs.value() == 1 && classes == 2) {
      best = scores[0] > 0 ? 1 : 0;
      if (transform == PostTransform::kLogistic) Apply(transform, scores);
      scores = {1 - scores[0], scores[0]};
      if (transform == PostTransform::kProbit) Apply(transform, scores);
    } else {
      Apply(transform, scores);
    }
    SetLabel(y, row, labels, best);
    for (int64_t k = 0; k < classes; ++k) z.Set(row * classes + k, scores[static_cast<size_t>(k)]);
  }
  return {};
}

}  // namespace

std::span<const OpDef> MlLinearOps() {
  static const OpDef ops[] = {
      {
          .name = "LinearRegressor",
          .domain = "ai.onnx.ml",
          .doc = "A linear function of the features per target.",
          .traits = Trait::kModel,
          .axes = RowAxes,
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "f32"}},
          .attrs = {{"coefficients", AttrKind::kFloats},
                    {"intercepts", AttrKind::kFloats},
                    {"post_transform", AttrKind::kString, std::string("NONE")},
                    {"targets", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T", kMlNumbers}},
          .infer = InferLinearRegressor,
          .reference = RunLinearRegressor,
          .cost = CostLinear,
          .example = R"(graph g(x: f32[3,2]) -> (y) { y = ai.onnx.ml::LinearRegressor(x) {
            coefficients=[1.0, -2.0, 0.5, 3.0], intercepts=[0.25, 1.0], targets=2} })",
      },
      {
          .name = "LinearClassifier",
          .domain = "ai.onnx.ml",
          .doc = "The class whose linear function of the features is greatest, and all of them.",
          .traits = Trait::kModel,
          .axes = RowAxes,
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}, {"Z", "f32"}},
          .attrs = {{"classlabels_ints", AttrKind::kInts},
                    {"classlabels_strings", AttrKind::kStrings},
                    {"coefficients", AttrKind::kFloats, {}, true},
                    {"intercepts", AttrKind::kFloats},
                    {"multi_class", AttrKind::kInt, int64_t{0}},
                    {"post_transform", AttrKind::kString, std::string("NONE")}},
          .constraints = {{"T1", kMlNumbers}, {"T2", TypeSet(DType::kString, DType::kI64)}},
          .infer = InferLinearClassifier,
          .reference = RunLinearClassifier,
          .cost = CostLinear,
          .example = R"(graph g(x: f32[3,2]) -> (y, z) { y, z = ai.onnx.ml::LinearClassifier(x) {
            coefficients=[1.0, -2.0, 0.5, 3.0], intercepts=[0.25, 1.0], classlabels_ints=[4, 7],
            post_transform="SOFTMAX"} })",
      },
  };
  return ops;
}

}  // namespace infer
