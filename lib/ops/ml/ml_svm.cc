/// ai.onnx.ml: support vector machines, as LIBSVM has them (Chang and Lin, "LIBSVM: a library for
/// support vector machines", ACM TIST 2011).
#include <cmath>
#include <numeric>

#include "lib/ops/ml/ml_scores.h"

namespace infer {
namespace {

std::vector<double> RowOf(const Tensor& x, int64_t row, int64_t features) {
  std::vector<double> v;
  for (int64_t i = 0; i < features; ++i) v.push_back(x.At(row * features + i));
  return v;
}

// ---- SVMRegressor ----------------------------------------------------------------------------

enum class Kernel : uint8_t { kLinear, kPoly, kRbf, kSigmoid };

struct KernelFunction {
  Kernel kind = Kernel::kLinear;
  double gamma = 0, coef0 = 0, degree = 0;
  double operator()(const std::vector<double>& x, std::span<const float> v) const {
    double dot = 0, distance = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto b = static_cast<double>(v[i]);
      dot += x[i] * b;
      distance += (x[i] - b) * (x[i] - b);
    }
    switch (kind) {
      case Kernel::kLinear: break;
      case Kernel::kPoly: return std::pow(gamma * dot + coef0, degree);
      case Kernel::kRbf: return std::exp(-gamma * distance);
      case Kernel::kSigmoid: return std::tanh(gamma * dot + coef0);
    }
    return dot;
  }
};

Result<KernelFunction> ReadKernel(const OpCall& call) {
  constexpr std::string_view kNames[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  const auto* const at = std::find(std::begin(kNames), std::end(kNames), call.Str("kernel_type"));
  if (at == std::end(kNames))
    return InvalidModel(Cat("kernel_type cannot be '", call.Str("kernel_type"), "'"));
  KernelFunction k{static_cast<Kernel>(at - std::begin(kNames))};
  const auto& params = ListAttr<float>(call, "kernel_params");
  if (params.empty()) return k;
  if (params.size() != 3) return InvalidModel("kernel_params are gamma, coef0 and degree");
  k.gamma = static_cast<double>(params[0]);
  k.coef0 = static_cast<double>(params[1]);
  k.degree = static_cast<double>(params[2]);
  return k;
}

// ---- SVMRegressor ----------------------------------------------------------------------------

Status InferSvmRegressor(OpCall& call) {
  INFER_TRY(PostTransformOf(call.Str("post_transform")).status());
  INFER_TRY(ReadKernel(call).status());
  INFER_ASSIGN(const Dim rows, InferRows(call));
  const int64_t supports = call.Int("n_supports");
  const auto coefficients = static_cast<int64_t>(ListAttr<float>(call, "coefficients").size());
  const auto vectors = static_cast<int64_t>(ListAttr<float>(call, "support_vectors").size());
  const Dim features = FeaturesOf(call);
  if (supports < 0 || (supports > 0 && coefficients != supports))
    return InvalidModel(Cat(coefficients, " coefficients for ", supports, " support vectors"));
  if (ListAttr<float>(call, "rho").empty()) return InvalidModel("rho is missing");
  if (features.is_static() &&
      (supports > 0 ? vectors % supports != 0 || vectors / supports != features.value()
                    : coefficients != features.value()))
    return InvalidModel(Cat("the model is not one of ", features.ToString(), " features"));
  call.SetOut(0, DType::kF32, Shape({rows, Dim(1)}));
  return {};
}

/// Without support vectors the coefficients are the one vector of a linear model, whatever the
/// kernel.
Status RunSvmRegressor(OpRun& run) {
  INFER_ASSIGN(const PostTransform transform, PostTransformOf(run.Str("post_transform")));
  INFER_ASSIGN(KernelFunction kernel, ReadKernel(run.call()));
  const auto& coefficients = ListAttr<float>(run.call(), "coefficients");
  const auto& vectors = ListAttr<float>(run.call(), "support_vectors");
  const auto rho = static_cast<double>(ListAttr<float>(run.call(), "rho")[0]);
  const auto supports = static_cast<size_t>(run.Int("n_supports"));
  if (supports == 0) kernel.kind = Kernel::kLinear;
  const Tensor& x = run.in(0);
  const Rows rows = RowsOf(x);
  Tensor& y = run.Out(0, DType::kF32, {rows.count, 1});
  for (int64_t row = 0; row < rows.count; ++row) {
    const std::vector<double> v = RowOf(x, row, rows.features);
    double sum[] = {rho};
    for (size_t s = 0; s < supports; ++s)
      sum[0] += static_cast<double>(coefficients[s]) *
                kernel(v, std::span(vectors).subspan(s * v.size(), v.size()));
    if (supports == 0) sum[0] += kernel(v, coefficients);
    if (run.Int("one_class") != 0)
      sum[0] = sum[0] > 0 ? 1 : -1;
    else
      Apply(transform, sum);
    y.Set(row, sum[0]);
  }
  return {};
}

// ---- SVMClassifier ---------------------------------------------------------------------------

/// The parts of the model. Every pair of classes i < j has one decision function over the support
/// vectors of both; positive means i. Without support vectors there is a linear function per class.
struct SvmClassifier {
  Tensor labels;
  KernelFunction kernel;
  std::vector<size_t> begin;  ///< class c has support vectors begin[c] to begin[c + 1]
  std::span<const float> coefficients, vectors, rho, prob_a, prob_b;

  size_t classes() const { return static_cast<size_t>(labels.num_elements()); }
  size_t pairs() const { return classes() * (classes() - 1) / 2; }
  size_t supports() const { return begin.back(); }
  bool linear() const { return supports() == 0; }
  bool has_probabilities() const { return !linear() && !prob_a.empty(); }
  /// Without probabilities the scores are those of the pairs, for two classes of both sides.
  size_t scores() const {
    return linear() || has_probabilities() || classes() == 2 ? classes() : pairs();
  }
};

Status CheckSizes(const SvmClassifier& m, const Dim& features) {
  const size_t supports = m.supports(), classes = m.classes();
  const size_t rho = m.linear() ? 1 : m.pairs();
  if (m.rho.size() < rho) return InvalidModel(Cat("rho has ", m.rho.size(), " entries, not ", rho));
  if (m.prob_a.size() != m.prob_b.size())
    return InvalidModel(Cat("prob_a has ", m.prob_a.size(), " entries, prob_b ", m.prob_b.size()));
  if (m.has_probabilities() && m.prob_a.size() < m.pairs())
    return InvalidModel(Cat("prob_a has ", m.prob_a.size(), " entries, not ", m.pairs()));
  if (!m.linear() && classes < 2) return InvalidModel("wants two classes or more");
  if (!m.linear() && m.coefficients.size() != (classes - 1) * supports)
    return InvalidModel(Cat(m.coefficients.size(), " coefficients for ", supports,
                            " support vectors of ", classes, " classes"));
  if (!features.is_static()) return {};
  const size_t numbers = m.linear() ? m.coefficients.size() : m.vectors.size();
  if (numbers != (m.linear() ? classes : supports) * static_cast<size_t>(features.value()))
    return InvalidModel(Cat("the model is not one of ", features.ToString(), " features"));
  return {};
}

Result<SvmClassifier> ReadSvmClassifier(const OpCall& call) {
  SvmClassifier m;
  INFER_ASSIGN(m.labels, ClassLabels(call, "classlabels_ints", "classlabels_strings"));
  INFER_ASSIGN(m.kernel, ReadKernel(call));
  m.coefficients = ListAttr<float>(call, "coefficients");
  m.vectors = ListAttr<float>(call, "support_vectors");
  m.rho = ListAttr<float>(call, "rho");
  m.prob_a = ListAttr<float>(call, "prob_a");
  m.prob_b = ListAttr<float>(call, "prob_b");
  m.begin = {0};
  const auto& counts = ListAttr<int64_t>(call, "vectors_per_class");
  if (!counts.empty() && counts.size() != m.classes())
    return InvalidModel(
        Cat("vectors_per_class has ", counts.size(), " entries for ", m.classes(), " classes"));
  for (int64_t n : counts) {
    // No more than the file can hold, so that the sum cannot overflow.
    if (n < 0 || static_cast<uint64_t>(n) > m.coefficients.size())
      return InvalidModel(Cat("vectors_per_class cannot have ", n));
    m.begin.push_back(m.begin.back() + static_cast<size_t>(n));
  }
  if (m.supports() == 0) m.kernel.kind = Kernel::kLinear;
  INFER_TRY(CheckSizes(m, FeaturesOf(call)));
  return m;
}

Status InferSvmClassifier(OpCall& call) {
  INFER_TRY(PostTransformOf(call.Str("post_transform")).status());
  INFER_ASSIGN(const SvmClassifier m, ReadSvmClassifier(call));
  INFER_ASSIGN(const Dim rows, InferRows(call));
  call.SetOut(0, m.labels.dtype(), Shape({rows}));
  call.SetOut(1, DType::kF32, Shape({rows, Dim(static_cast<int64_t>(m.scores()))}));
  return {};
}

/// The decision values of the pairs (0, 1), (0, 2), ..., (1, 2), ...
std::vector<double> Decisions(const SvmClassifier& m, const std::vector<double>& x) {
  std::vector<double> k;
  for (size_t s = 0; s < m.supports(); ++s)
    k.push_back(m.kernel(x, m.vectors.subspan(s * x.size(), x.size())));
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

size_t MostVotes(const SvmClassifier& m, const std::vector<double>& decisions) {
  std::vector<int64_t> votes(m.classes());
  size_t pair = 0;
  for (size_t i = 0; i < m.classes(); ++i)
    for (size_t j = i + 1; j < m.classes(); ++j) ++votes[decisions[pair++] > 0 ? i : j];
  return static_cast<size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

/// Class probabilities out of those of the pairs: Wu, Lin and Weng, "Probability estimates for
/// multi-class classification by pairwise coupling" (JMLR 2004), second method, which minimises
/// p'Qp by cyclic coordinate steps with LIBSVM's stopping rule.
std::vector<double> Probabilities(const SvmClassifier& m, const std::vector<double>& decisions) {
  const size_t n = m.classes();
  std::vector<double> r(n * n), q(n * n), p(n, 1.0 / static_cast<double>(n)), qp(n);
  size_t pair = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j, ++pair) {
      const double z = decisions[pair] * static_cast<double>(m.prob_a[pair]) +
                       static_cast<double>(m.prob_b[pair]);
      r[i * n + j] = std::clamp(1 / (1 + std::exp(z)), 1e-7, 1 - 1e-7);
      r[j * n + i] = 1 - r[i * n + j];
    }
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      q[i * n + i] += r[j * n + i] * r[j * n + i];
      q[i * n + j] = -r[j * n + i] * r[i * n + j];
    }
  const double enough = 0.005 / static_cast<double>(n);
  for (size_t step = 0; step < std::max<size_t>(100, n); ++step) {
    double pqp = 0, error = 0;
    for (size_t i = 0; i < n; ++i) {
      qp[i] = std::inner_product(p.begin(), p.end(), q.begin() + static_cast<ptrdiff_t>(i * n), 0.);
      pqp += p[i] * qp[i];
    }
    for (double v : qp) error = std::max(error, std::abs(v - pqp));
    if (error < enough) break;
    for (size_t t = 0; t < n; ++t) {
      const double d = (pqp - qp[t]) / q[t * n + t];
      pqp = (pqp + d * (d * q[t * n + t] + 2 * qp[t])) / (1 + d) / (1 + d);
      p[t] += d;
      for (size_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + d * q[t * n + j]) / (1 + d);
        p[j] /= 1 + d;
      }
    }
  }
  return p;
}

Status RunSvmClassifier(OpRun& run) {
  INFER_ASSIGN(const PostTransform transform, PostTransformOf(run.Str("post_transform")));
  INFER_ASSIGN(const SvmClassifier m, ReadSvmClassifier(run.call()));
  const Tensor& x = run.in(0);
  const Rows rows = RowsOf(x);
  const auto columns = static_cast<int64_t>(m.scores());
  Tensor& y = run.Out(0, m.labels.dtype(), {rows.count});
  Tensor& z = run.Out(1, DType::kF32, {rows.count, columns});
  for (int64_t row = 0; row < rows.count; ++row) {
    const std::vector<double> v = RowOf(x, row, rows.features);
    std::vector<double> scores;
    size_t best = 0;
    if (m.linear()) {
      for (size_t c = 0; c < m.classes(); ++c)
        scores.push_back(m.kernel(v, m.coefficients.subspan(c * v.size(), v.size())) +
                         static_cast<double>(m.rho[0]));
      best = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    } else {
      scores = Decisions(m, v);
      best = MostVotes(m, scores);
      if (m.has_probabilities())
        scores = Probabilities(m, scores);
      else if (m.classes() == 2)
        scores = {-scores[0], scores[0]};
    }
    Apply(transform, scores);
    SetLabel(y, row, m.labels, static_cast<int64_t>(best));
    for (int64_t c = 0; c < columns; ++c) z.Set(row * columns + c, scores[static_cast<size_t>(c)]);
  }
  return {};
}

/// Per support vector and feature a difference, a product and a sum.
Cost CostSvm(const OpCall& call) {
  Cost c = TrafficOf(call);
  const auto vectors = static_cast<int64_t>(ListAttr<float>(call, "support_vectors").size());
  const auto coefficients = static_cast<int64_t>(ListAttr<float>(call, "coefficients").size());
  const Dim features = FeaturesOf(call);
  if (features.is_static() && features.value() > 0)
    c.flops = 3 * (vectors > 0 ? vectors : coefficients) *
              (StaticElements(call.shape(0)) / features.value());
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
