#include "passes/fuse/linear.h"

#include <algorithm>
#include <cmath>

#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// W[c, j, ..] of a ConvTranspose makes channel m = group(c) * M/groups + j.
Tensor ScaledTransposed(const Tensor& w, int64_t groups, const std::vector<double>& k) {
  Tensor out(w.dtype(), w.dims());
  const int64_t per_group = w.dim(1),
                inner = w.num_elements() / std::max<int64_t>(1, w.dim(0) * per_group);
  for (int64_t c = 0; c < w.dim(0); ++c)
    for (int64_t j = 0; j < per_group; ++j) {
      const int64_t m = c / (w.dim(0) / groups) * per_group + j;
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t at = (c * per_group + j) * inner + i;
        out.Set(at, w.At(at) * k[static_cast<size_t>(m)]);
      }
    }
  return out;
}

int GemmColumnAxis(const Node& n) { return n.Is("Gemm") && n.Attr<int64_t>("transB") != 0 ? 0 : 1; }

}  // namespace

LinearPattern::LinearPattern()
    : weight(Constant().Where("of a float type",
                              [](const Value& v) { return IsFloat(v.constant()->dtype()); })),
      bias(Constant().OrOmitted()),
      node(Op("Conv|ConvTranspose|Gemm|MatMul", x, weight, bias)) {}

Result<int64_t> OutputChannels(const Node& n) {
  const Tensor& w = *n.input(1)->constant();
  if (n.Is("MatMul") && (RankOf(*n.input(0)) != 2 || w.rank() != 2))
    return InvalidModel("needs a product of two matrices");
  if (n.Is("Conv")) return w.dim(0);
  if (n.Is("ConvTranspose")) return w.dim(1) * n.Attr<int64_t>("group");
  return w.dim(GemmColumnAxis(n));
}

Result<Value*> WithAffine(const Node& n, const ChannelAffine& a, PatchBuilder& b) {
  for (const auto* values : {&a.k, &a.c})
    if (!std::all_of(values->begin(), values->end(), [](double v) { return std::isfinite(v); }))
      return InvalidModel("needs finite factors and terms");
  const auto channels = static_cast<int64_t>(a.k.size());
  const Tensor& w = *n.input(1)->constant();
  AttrMap attrs = n.attrs();
  double beta = 1;
  if (n.Is("Gemm")) {
    beta = n.Attr<float>("beta");
    attrs.erase("beta");
  }
  std::vector<double> bias = a.c;
  if (n.input(2)) {
    const auto old = n.Is("Gemm") ? PerIndex(*n.input(2)->constant(), 2, 1, channels)
                                  : ToDoubles(*n.input(2)->constant());
    if (!old || old->size() != bias.size())
      return InvalidModel("needs a bias that is the same in all rows");
    for (size_t i = 0; i < bias.size(); ++i) bias[i] += beta * (*old)[i] * a.k[i];
  }
  Value* weight = n.input(1);
  if (!std::all_of(a.k.begin(), a.k.end(), [](double k) { return k == 1; })) {
    if (n.Is("ConvTranspose"))
      weight = b.Const(ScaledTransposed(w, n.Attr<int64_t>("group"), a.k));
    else
      weight = b.Const(ScaledAlong(w, n.Is("Conv") ? 0 : GemmColumnAxis(n), a.k));
  }
  const bool plain =
      !n.input(2) && std::all_of(bias.begin(), bias.end(), [](double v) { return v == 0; });
  Value* new_bias = plain ? nullptr : b.Const(FromDoubles(w.dtype(), {channels}, bias));
  return b(n.Is("MatMul") && !plain ? "Gemm" : n.op(), {n.input(0), weight, new_bias},
           std::move(attrs));
}

}  // namespace infer
