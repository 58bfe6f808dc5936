#pragma once
/// Support vector machines of ai.onnx.ml, as LIBSVM has them (Chang and Lin, "LIBSVM: a library for
/// support vector machines", ACM TIST 2011), read from the attributes of a node once.
#include "lib/ops/ml/ml_scores.h"

namespace infer {

enum class SvmKernelKind : uint8_t { kLinear, kPoly, kRbf, kSigmoid };

/// How near a row x is to a support vector v: x.v, (gamma x.v + coef0)^degree,
/// exp(-gamma |x - v|^2) or tanh(gamma x.v + coef0).
struct SvmKernel {
  SvmKernelKind kind = SvmKernelKind::kLinear;
  double gamma = 0, coef0 = 0, degree = 0;
  double operator()(std::span<const double> x, std::span<const float> v) const;
};

/// Without support vectors the coefficients are the one vector of a linear model, whatever the
/// kernel.
struct SvmRegressor {
  SvmKernel kernel;
  size_t supports = 0;
  std::vector<float> coefficients, vectors;
  double rho = 0;
  bool one_class = false;
  PostTransform transform = PostTransform::kNone;

  /// The result for a row with this sum over the support vectors and rho.
  double Finish(double sum) const;
};
/// InvalidModel where attributes contradict each other.
Result<std::shared_ptr<const void>> PrepareSvmRegressor(const OpCall& call);

/// The parts of the model. Every pair of classes i < j has one decision function over the support
/// vectors of both; positive means i. Without support vectors there is a linear function per class.
struct SvmClassifier {
  Tensor labels;
  SvmKernel kernel;
  PostTransform transform = PostTransform::kNone;
  std::vector<size_t> begin;  ///< class c has support vectors begin[c] to begin[c + 1]
  std::vector<float> coefficients, vectors, rho, prob_a, prob_b;

  size_t classes() const { return static_cast<size_t>(labels.num_elements()); }
  size_t pairs() const { return classes() * (classes() - 1) / 2; }
  size_t supports() const { return begin.back(); }
  bool linear() const { return supports() == 0; }
  bool has_probabilities() const { return !linear() && !prob_a.empty(); }
  /// Without probabilities the scores are those of the pairs, for two classes of both sides.
  size_t scores() const {
    return linear() || has_probabilities() || classes() == 2 ? classes() : pairs();
  }
  /// Numbers that Decide works with, beside decisions and scores.
  size_t work() const { return 2 * classes() * classes() + 2 * classes(); }
  /// The class by the decision values of the pairs (0, 1), (0, 2), ..., (1, 2), ... and the row's
  /// scores. Pre: !linear(); scores() scores, work() numbers.
  size_t Decide(std::span<const double> decisions, std::span<double> scores,
                std::span<double> work) const;
};
/// InvalidModel where attributes contradict each other.
Result<std::shared_ptr<const void>> PrepareSvmClassifier(const OpCall& call);

}  // namespace infer
