#include "lib/ops/ml/ml_scores.h"

#include <numbers>

namespace infer {
namespace {

void Softmax(std::span<double> scores, bool keep_zeros) {
  // What counts as zero is ONNX Runtime's choice; the standard does not say.
  auto is_zero = [&](double s) { return keep_zeros && std::abs(s) <= 1e-7; };
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) {
    if (is_zero(s)) {
      s = keep_zeros ? 0 : s;
      continue;
    }
    sum += s = std::exp(s - top);
  }
  for (double& s : scores) s = sum == 0 ? s : s / sum;
}

/// The inverse of the normal distribution function: sqrt(2) erfinv(2 p - 1), by Newton's method
/// from S. Winitzki's approximation (2008).
double Probit(double p) {
  const double x = 2 * p - 1;
  if (!(std::abs(x) < 1)) return std::copysign(HUGE_VAL, x);
  const double log = std::log((1 - x) * (1 + x)), a = 0.147;
  const double v = 2 / (std::numbers::pi * a) + log / 2;
  double y = std::copysign(std::sqrt(std::sqrt(v * v - log / a) - v), x);
  for (int i = 0; i < 4; ++i)
    y -= (std::erf(y) - x) * std::sqrt(std::numbers::pi) / 2 * std::exp(y * y);
  return std::numbers::sqrt2 * y;
}

}  // namespace

std::vector<double> NumbersAttr(const OpCall& call, std::string_view name) {
  if (const std::string tensor = Cat(name, "_as_tensor"); call.HasAttr(tensor)) {
    const Tensor& t = call.Attr<Tensor>(tensor);
    std::vector<double> out;
    for (int64_t i = 0; i < t.num_elements(); ++i) out.push_back(t.At(i));
    if (!out.empty()) return out;
  }
  const auto& list = ListAttr<float>(call, name);
  return {list.begin(), list.end()};
}

Status CheckTensorAttrs(const OpCall& call) {
  for (const auto& [name, value] : call.attrs()) {
    const auto* t = std::get_if<Tensor>(&value);
    if (t && !IsFloat(t->dtype()) && !IsInteger(t->dtype()))
      return InvalidModel(Cat("attribute '", name, "' is ", Name(t->dtype()), ", wants numbers"));
  }
  return {};
}

Rows RowsOf(const Tensor& x) {
  return x.rank() == 1 ? Rows{1, x.dim(0)} : Rows{x.dim(0), x.dim(1)};
}

Dim FeaturesOf(const OpCall& call) {
  const Shape& x = call.shape(0);
  return x.has_rank() && x.rank() > 0 ? x[-1] : Dim();
}

Result<Dim> InferRows(const OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 1, 2));
  const Shape& x = call.shape(0);
  return !x.has_rank() ? Dim() : x.rank() == 1 ? Dim(1) : x[0];
}

Result<PostTransform> PostTransformOf(std::string_view name) {
  constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const auto* const at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at == std::end(kNames)) return InvalidModel(Cat("post_transform cannot be '", name, "'"));
  return static_cast<PostTransform>(at - std::begin(kNames));
}

void Apply(PostTransform t, std::span<double> scores) {
  if (scores.empty()) return;
  switch (t) {
    case PostTransform::kNone: break;
    case PostTransform::kSoftmax: Softmax(scores, false); break;
    case PostTransform::kSoftmaxZero: Softmax(scores, true); break;
    case PostTransform::kLogistic:
      for (double& s : scores) s = 1 / (1 + std::exp(-s));
      break;
    case PostTransform::kProbit:
      for (double& s : scores) s = Probit(s);
      break;
  }
}

Result<Tensor> ClassLabels(const OpCall& call, std::string_view ints, std::string_view strings) {
  const auto& numbers = ListAttr<int64_t>(call, ints);
  const auto& names = ListAttr<std::string>(call, strings);
  if (numbers.empty() == names.empty())
    return InvalidModel(Cat("wants either ", ints, " or ", strings));
  return names.empty() ? Tensor::Int64s(numbers)
                       : Tensor::OfStrings({static_cast<int64_t>(names.size())}, names);
}

void SetLabel(Tensor& y, int64_t i, const Tensor& labels, int64_t k) {
  if (labels.dtype() == DType::kString)
    y.mutable_strings()[static_cast<size_t>(i)] = labels.strings()[static_cast<size_t>(k)];
  else
    y.SetInt(i, labels.IntAt(k));
}

}  // namespace infer
