/// ai.onnx.ml: support vector machines.
#include "lib/ops/ml/ml_svm.h"

#include "lib/ops/axes.h"

namespace infer {
namespace {

std::vector<double> RowOf(const Tensor& x, int64_t row, int64_t features) {
  std::vector<double> v;
  for (int64_t i = 0; i < features; ++i) v.push_back(x.At(row * features + i));
  return v;
}

// ---- SVMRegressor ----------------------------------------------------------------------------

Status InferSvmRegressor(OpCall& call) {
  INFER_ASSIGN(const auto m, call.Prepared<SvmRegressor>());
  INFER_ASSIGN(const Dim rows, InferRows(call));
  const Dim features = FeaturesOf(call);
  if (features.is_static()) {
    const auto each = static_cast<size_t>(features.value());
    if (m->supports > 0
            ? m->vectors.size() % m->supports != 0 || m->vectors.size() / m->supports != each
            : m->coefficients.size() != each)
      return InvalidModel(Cat("the model is not one of ", features.ToString(), " features"));
  }
  call.SetOut(0, DType::kF32, Shape({rows, Dim(1)}));
  return {};
}

Status RunSvmRegressor(OpRun& run) {
  INFER_ASSIGN(const auto m, run.call().Prepared<SvmRegressor>());
  const Tensor& x = run.in(0);
  const Rows rows = RowsOf(x);
  Tensor& y = run.Out(0, DType::kF32, {rows.count, 1});
  for (int64_t row = 0; row < rows.count; ++row) {
    const std::vector<double> v = RowOf(x, row, rows.features);
    double sum = m->rho;
    for (size_t s = 0; s < m->supports; ++s)
      sum += static_cast<double>(m->coefficients[s]) *
             m->kernel(v, std::span(m->vectors).subspan(s * v.size(), v.size()));
    if (m->supports == 0) sum += m->kernel(v, m->coefficients);
    y.Set(row, m->Finish(sum));
  }
  return {};
}

// ---- SVMClassifier ---------------------------------------------------------------------------

Status InferSvmClassifier(OpCall& call) {
  INFER_ASSIGN(const auto m, call.Prepared<SvmClassifier>());
  INFER_ASSIGN(const Dim rows, InferRows(call));
  const Dim features = FeaturesOf(call);
  if (features.is_static()) {
    const size_t numbers = m->linear() ? m->coefficients.size() : m->vectors.size();
    const size_t vectors = m->linear() ? m->classes() : m->supports();
    if (numbers != vectors * static_cast<size_t>(features.value()))
      return InvalidModel(Cat("the model is not one of ", features.ToString(), " features"));
  }
  call.SetOut(0, m->labels.dtype(), Shape({rows}));
  call.SetOut(1, DType::kF32, Shape({rows, Dim(static_cast<int64_t>(m->scores()))}));
  return {};
}

/// The decision values of the pairs (0, 1), (0, 2), ..., (1, 2), ...
std::vector<double> Decisions(const SvmClassifier& m, const std::vector<double>& x) {
  std::vector<double> k;
  for (size_t s = 0; s < m.supports(); ++s)
    k.push_back(m.kernel(x, std::span(m.vectors).subspan(s * x.size(), x.size())));
  // A vector of class c has a coefficient against every other class: the row of the other one,
  // the later classes moved down by one.
  auto sum = [&](size_t of, size_t row) {
    double total = 0;
    for (size_t s = m.begin[of]; s < m.begin[of + 1]; ++s)
      total += static_cast<double>(m.coefficients[row * m.supports() + s]) * k[s];
    return total;
  };
  std::vector<double> out;
  for (size_t i = 0; i < m.classes(); ++i)
    for (size_t j = i + 1; j < m.classes(); ++j)
      out.push_back(sum(i, j - 1) + sum(j, i) + static_cast<double>(m.rho[out.size()]));
  return out;
}

Status RunSvmClassifier(OpRun& run) {
  INFER_ASSIGN(const auto m, run.call().Prepared<SvmClassifier>());
  const Tensor& x = run.in(0);
  const Rows rows = RowsOf(x);
  const auto columns = static_cast<int64_t>(m->scores());
  Tensor& y = run.Out(0, m->labels.dtype(), {rows.count});
  Tensor& z = run.Out(1, DType::kF32, {rows.count, columns});
  std::vector<double> scores(m->scores()), work(m->work());
  for (int64_t row = 0; row < rows.count; ++row) {
    const std::vector<double> v = RowOf(x, row, rows.features);
    size_t best = 0;
    if (m->linear()) {
      for (size_t c = 0; c < m->classes(); ++c)
        scores[c] = m->kernel(v, std::span(m->coefficients).subspan(c * v.size(), v.size())) +
                    static_cast<double>(m->rho[0]);
      best = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
      Apply(m->transform, scores);
    } else {
      best = m->Decide(Decisions(*m, v), scores, work);
    }
    SetLabel(y, row, m->labels, static_cast<int64_t>(best));
    for (int64_t c = 0; c < columns; ++c) z.Set(row * columns + c, scores[static_cast<size_t>(c)]);
  }
  return {};
}

/// Per support vector and feature a difference, a product and a sum, then the kernel's function.
Cost CostSvm(const OpCall& call) {
  Cost c = TrafficOf(call);
  const auto vectors = static_cast<int64_t>(ListAttr<float>(call, "support_vectors").size());
  const auto coefficients = static_cast<int64_t>(ListAttr<float>(call, "coefficients").size());
  const Dim features = FeaturesOf(call);
  if (features.is_static() && features.value() > 0) {
    constexpr int64_t kOfFunction = 30;
    const int64_t rows = StaticElements(call.shape(0)) / features.value();
    c.flops = rows * (vectors > 0 ? 3 * vectors + vectors / features.value() * kOfFunction
                                  : 3 * coefficients);
  }
  c.bytes_read += 4 * (vectors + coefficients);
  return c;
}

}  // namespace

std::span<const OpDef> MlSvmOps() {
  static const OpDef ops[] = {
      {
          .name = "SVMRegressor",
          .domain = "ai.onnx.ml",
          .doc = "Support vector regression, or whether a row is of the one class.",
          .traits = Trait::kModel,
          .axes = RowAxes,
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "f32"}},
          .attrs = {{"coefficients", AttrKind::kFloats},
                    {"kernel_params", AttrKind::kFloats},
                    {"kernel_type", AttrKind::kString, std::string("LINEAR")},
                    {"n_supports", AttrKind::kInt, int64_t{0}},
                    {"one_class", AttrKind::kInt, int64_t{0}},
                    {"post_transform", AttrKind::kString, std::string("NONE")},
                    {"rho", AttrKind::kFloats},
                    {"support_vectors", AttrKind::kFloats}},
          .constraints = {{"T", kMlNumbers}},
          .infer = InferSvmRegressor,
          .reference = RunSvmRegressor,
          .prepare = PrepareSvmRegressor,
          .cost = CostSvm,
          .example = R"(graph g(x: f32[3,2]) -> (y) { y = ai.onnx.ml::SVMRegressor(x) {
            kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], n_supports=2,
            support_vectors=[1.0, 0.0, -1.0, 2.0], coefficients=[0.5, -1.0], rho=[0.125]} })",
      },
      {
          .name = "SVMClassifier",
          .domain = "ai.onnx.ml",
          .doc = "The class of a support vector machine, and the scores or probabilities.",
          .traits = Trait::kModel,
          .axes = RowAxes,
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}, {"Z", "f32"}},
          .attrs = {{"classlabels_ints", AttrKind::kInts},
                    {"classlabels_strings", AttrKind::kStrings},
                    {"coefficients", AttrKind::kFloats},
                    {"kernel_params", AttrKind::kFloats},
                    {"kernel_type", AttrKind::kString, std::string("LINEAR")},
                    {"post_transform", AttrKind::kString, std::string("NONE")},
                    {"prob_a", AttrKind::kFloats},
                    {"prob_b", AttrKind::kFloats},
                    {"rho", AttrKind::kFloats},
                    {"support_vectors", AttrKind::kFloats},
                    {"vectors_per_class", AttrKind::kInts}},
          .constraints = {{"T1", kMlNumbers}, {"T2", TypeSet(DType::kString, DType::kI64)}},
          .infer = InferSvmClassifier,
          .reference = RunSvmClassifier,
          .prepare = PrepareSvmClassifier,
          .cost = CostSvm,
          .example = R"(graph g(x: f32[3,2]) -> (y, z) { y, z = ai.onnx.ml::SVMClassifier(x) {
            kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], vectors_per_class=[1, 1, 2],
            support_vectors=[1.0, 0.0, -1.0, 2.0, 0.5, 0.5, 2.0, 1.0],
            coefficients=[0.5, -1.0, 0.25, 1.0, -0.5, 2.0, 0.75, -0.25],
            rho=[0.125, -0.5, 0.25], prob_a=[-1.0, -2.0, -0.5], prob_b=[0.0, 0.5, 0.125],
            classlabels_ints=[4, 7, 9]} })",
      },
  };
  return ops;
}

}  // namespace infer
