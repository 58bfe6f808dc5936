#include "passes/fuse/linear.h"

#include <algorithm>
#include <cmath>

#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Weights whose output channel m is multiplied by k[m].
Tensor ScaledOutputs(const Tensor& w, const WeightLayout& layout, const std::vector<double>& k) {
  Tensor out(w.dtype(), w.dims());
  layout.ForEach(w.dims(), [&](size_t i, int64_t, int64_t m) {
    const auto at = static_cast<int64_t>(i);
    out.Set(at, w.At(at) * k[static_cast<size_t>(m)]);
  });
  return out;
}

/// A product of more axes has no room for a bias.
bool HasOutputChannels(const Node& n) {
  return TakesBias(n) || (RankOf(*n.input(0)) == 2 && RankOf(*n.input(1)) == 2);
}

}  // namespace

Status CheckFinite(const ChannelAffine& a) {
  for (const auto* values : {&a.k, &a.c})
    if (!std::all_of(values->begin(), values->end(), [](double v) { return std::isfinite(v); }))
      return InvalidModel("needs finite factors and terms");
  return {};
}

ChannelAffine AffineOf(const Node& batchnorm) {
  const auto numbers = [&](size_t i) { return ToDoubles(*batchnorm.input(i)->constant()); };
  const auto scale = numbers(1), shift = numbers(2), mean = numbers(3), var = numbers(4);
  const double epsilon = batchnorm.Attr<float>("epsilon");
  ChannelAffine a;
  for (size_t i = 0; i < scale.size(); ++i) {
    a.k.push_back(scale[i] / std::sqrt(var[i] + epsilon));
    a.c.push_back(shift[i] - mean[i] * a.k[i]);
  }
  return a;
}

LinearPattern::LinearPattern()
    : weight(Constant().Where("of a float type",
                              [](const Value& v) { return IsFloat(v.constant()->dtype()); })),
      bias(Constant().OrOmitted()),
      node(Op("Conv|ConvTranspose|Gemm|MatMul", x, weight, bias)
               .Where("a convolution, or a product of two matrices",
                      [](const Value& v) { return HasOutputChannels(*v.producer()); })) {}

Result<int64_t> OutputChannels(const Node& n) {
  const Tensor& w = *n.input(1)->constant();
  if (!HasOutputChannels(n)) return InvalidModel("needs a product of two matrices");
  return WeightLayoutOf(n)->OutputChannels(w.dims());
}

Result<Value*> WithAffine(const Node& n, const ChannelAffine& a, PatchBuilder& b) {
  INFER_TRY(CheckFinite(a));
  const auto channels = static_cast<int64_t>(a.k.size());
  const Tensor& w = *n.input(1)->constant();
  const WeightLayout layout = *WeightLayoutOf(n);
  AttrMap attrs = n.attrs();
  const double beta = layout.beta;
  attrs.erase("beta");
  std::vector<double> bias = a.c;
  if (n.input(2)) {
    const auto old = layout.is_window ? ToDoubles(*n.input(2)->constant())
                                      : PerIndex(*n.input(2)->constant(), 2, 1, channels);
    if (!old || old->size() != bias.size())
      return InvalidModel("needs a bias that is the same in all rows");
    for (size_t i = 0; i < bias.size(); ++i) bias[i] += beta * (*old)[i] * a.k[i];
  }
  Value* weight = n.input(1);
  if (!std::all_of(a.k.begin(), a.k.end(), [](double k) { return k == 1; })) {
    weight = b.Const(ScaledOutputs(w, layout, a.k));
  }
  const bool plain =
      !n.input(2) && std::all_of(bias.begin(), bias.end(), [](double v) { return v == 0; });
  Value* new_bias = plain ? nullptr : b.Const(FromDoubles(w.dtype(), {channels}, bias));
  return b(!layout.has_bias && !plain ? "Gemm" : n.op(), {n.input(0), weight, new_bias},
           std::move(attrs));
}

}  // namespace infer
