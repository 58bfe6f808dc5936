/// The attributes of a support vector machine, and the labels and scores of its decision values.
#include <cmath>
#include <numeric>

#include "lib/ops/ml/ml_svm.h"

namespace infer {
namespace {

Result<SvmKernel> ReadSvmKernel(const OpCall& call) {
  constexpr std::string_view kNames[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  const auto* const at = std::find(std::begin(kNames), std::end(kNames), call.Str("kernel_type"));
  if (at == std::end(kNames))
    return InvalidModel(Cat("kernel_type cannot be '", call.Str("kernel_type"), "'"));
  SvmKernel k{static_cast<SvmKernelKind>(at - std::begin(kNames))};
  const auto& params = ListAttr<float>(call, "kernel_params");
  if (params.empty()) return k;
  if (params.size() != 3) return InvalidModel("kernel_params are gamma, coef0 and degree");
  k.gamma = static_cast<double>(params[0]);
  k.coef0 = static_cast<double>(params[1]);
  k.degree = static_cast<double>(params[2]);
  return k;
}

Status CheckClassifier(const SvmClassifier& m) {
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
  return {};
}

size_t MostVotes(const SvmClassifier& m, std::span<const double> decisions,
                 std::span<double> votes) {
  std::fill(votes.begin(), votes.end(), 0.0);
  size_t pair = 0;
  for (size_t i = 0; i < m.classes(); ++i)
    for (size_t j = i + 1; j < m.classes(); ++j) votes[decisions[pair++] > 0 ? i : j] += 1;
  return static_cast<size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

/// Class probabilities p out of those of the pairs: Wu, Lin and Weng, "Probability estimates for
/// multi-class classification by pairwise coupling" (JMLR 2004), second method, which minimises
/// p'Qp by cyclic coordinate steps with LIBSVM's stopping rule.
void CouplePairs(const SvmClassifier& m, std::span<const double> decisions, std::span<double> p,
                 std::span<double> work) {
  const size_t n = m.classes();
  const auto r = work.first(n * n), q = work.subspan(n * n, n * n), qp = work.subspan(2 * n * n, n);
  size_t pair = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j, ++pair) {
      const double z = decisions[pair] * static_cast<double>(m.prob_a[pair]) +
                       static_cast<double>(m.prob_b[pair]);
      r[i * n + j] = std::clamp(1 / (1 + std::exp(z)), 1e-7, 1 - 1e-7);
      r[j * n + i] = 1 - r[i * n + j];
    }
  std::fill(q.begin(), q.end(), 0.0);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      q[i * n + i] += r[j * n + i] * r[j * n + i];
      q[i * n + j] = -r[j * n + i] * r[i * n + j];
    }
  std::fill(p.begin(), p.end(), 1.0 / static_cast<double>(n));
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
}

}  // namespace

double SvmKernel::operator()(std::span<const double> x, std::span<const float> v) const {
  double dot = 0, distance = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto b = static_cast<double>(v[i]);
    dot += x[i] * b;
    distance += (x[i] - b) * (x[i] - b);
  }
  switch (kind) {
    case SvmKernelKind::kLinear: break;
    case SvmKernelKind::kPoly: return std::pow(gamma * dot + coef0, degree);
    case SvmKernelKind::kRbf: return std::exp(-gamma * distance);
    case SvmKernelKind::kSigmoid: return std::tanh(gamma * dot + coef0);
  }
  return dot;
}

double SvmRegressor::Finish(double sum) const {
  if (one_class) return sum > 0 ? 1 : -1;
  Apply(transform, {&sum, 1});
  return sum;
}

Result<std::shared_ptr<const void>> PrepareSvmRegressor(const OpCall& call) {
  auto m = std::make_shared<SvmRegressor>();
  INFER_ASSIGN(m->transform, PostTransformOf(call.Str("post_transform")));
  INFER_ASSIGN(m->kernel, ReadSvmKernel(call));
  m->coefficients = ListAttr<float>(call, "coefficients");
  m->vectors = ListAttr<float>(call, "support_vectors");
  const int64_t supports = call.Int("n_supports");
  if (supports < 0 || (supports > 0 && m->coefficients.size() != static_cast<size_t>(supports)))
    return InvalidModel(
        Cat(m->coefficients.size(), " coefficients for ", supports, " support vectors"));
  m->supports = static_cast<size_t>(supports);
  const auto& rho = ListAttr<float>(call, "rho");
  if (rho.empty()) return InvalidModel("rho is missing");
  m->rho = static_cast<double>(rho[0]);
  m->one_class = call.Int("one_class") != 0;
  if (m->supports == 0) m->kernel.kind = SvmKernelKind::kLinear;
  return std::shared_ptr<const void>(std::move(m));
}

size_t SvmClassifier::Decide(std::span<const double> decisions, std::span<double> scores,
                             std::span<double> work) const {
  const size_t best = MostVotes(*this, decisions, work.last(classes()));
  if (has_probabilities()) {
    CouplePairs(*this, decisions, scores, work);
  } else if (classes() == 2) {
    scores[0] = -decisions[0];
    scores[1] = decisions[0];
  } else {
    std::copy(decisions.begin(), decisions.end(), scores.begin());
  }
  Apply(transform, scores);
  return best;
}

Result<std::shared_ptr<const void>> PrepareSvmClassifier(const OpCall& call) {
  auto m = std::make_shared<SvmClassifier>();
  INFER_ASSIGN(m->transform, PostTransformOf(call.Str("post_transform")));
  INFER_ASSIGN(m->labels, ClassLabels(call, "classlabels_ints", "classlabels_strings"));
  INFER_ASSIGN(m->kernel, ReadSvmKernel(call));
  m->coefficients = ListAttr<float>(call, "coefficients");
  m->vectors = ListAttr<float>(call, "support_vectors");
  m->rho = ListAttr<float>(call, "rho");
  m->prob_a = ListAttr<float>(call, "prob_a");
  m->prob_b = ListAttr<float>(call, "prob_b");
  m->begin = {0};
  const auto& counts = ListAttr<int64_t>(call, "vectors_per_class");
  if (!counts.empty() && counts.size() != m->classes())
    return InvalidModel(
        Cat("vectors_per_class has ", counts.size(), " entries for ", m->classes(), " classes"));
  for (int64_t n : counts) {
    // No more than the file can hold, so that the sum cannot overflow.
    if (n < 0 || static_cast<uint64_t>(n) > m->coefficients.size())
      return InvalidModel(Cat("vectors_per_class cannot have ", n));
    m->begin.push_back(m->begin.back() + static_cast<size_t>(n));
  }
  if (m->supports() == 0) m->kernel.kind = SvmKernelKind::kLinear;
  INFER_TRY(CheckClassifier(*m));
  return std::shared_ptr<const void>(std::move(m));
}

}  // namespace infer
