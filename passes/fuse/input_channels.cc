/// What scales and shifts the channels that a linear layer reads becomes part of its weights and
/// bias. With a Relu between them nothing can be folded.
#include <algorithm>
#include <cmath>

#include "passes/fuse/fusions.h"
#include "passes/fuse/linear.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

struct InputAffine {
  std::vector<double> k, c;
};

/// Axis of the input along which the layer sums, and how many indices it has.
struct InputAxis {
  int axis;
  int64_t extent;
};
Result<InputAxis> InputAxisOf(const Node& n) {
  const Tensor& w = *n.input(1)->constant();
  const int rank = RankOf(*n.input(0));
  const WeightLayout layout = *WeightLayoutOf(n);
  if (!layout.is_window && (w.rank() != 2 || rank < 2))
    return InvalidModel("needs a matrix of weights");
  if (layout.data_transposed) return InvalidModel("needs rows that are not transposed");
  return InputAxis{layout.data_axis < 0 ? layout.data_axis + rank : layout.data_axis,
                   layout.InputChannels(w.dims())};
}

/// Whether a shift of the input reaches every element of the result alike.
Status CheckShift(const Node& n) {
  if (IsMatrixProduct(n))
    return TakesBias(n) || RankOf(*n.input(0)) == 2
               ? Status()
               : InvalidModel("needs a product of two matrices for the bias");
  const auto pads = n.attrs().find("pads");
  const bool padded =
      pads != n.attrs().end() && std::any_of(std::get<std::vector<int64_t>>(pads->second).begin(),
                                             std::get<std::vector<int64_t>>(pads->second).end(),
                                             [](int64_t p) { return p != 0; });
  const std::string& auto_pad = n.Attr<std::string>("auto_pad");
  if (!IsConvolution(n) || padded || (auto_pad != "NOTSET" && auto_pad != "VALID"))
    return InvalidModel("needs a convolution without padding: the border would not be shifted");
  return {};
}

/// The layer over x instead of x * k + c.
Result<Value*> WithInputAffine(const Node& n, Value* x, const InputAffine& a, PatchBuilder& b) {
  for (const auto* values : {&a.k, &a.c})
    for (const double v : *values)
      if (!std::isfinite(v)) return InvalidModel("needs finite factors and terms");
  if (n.input(1)->uses().size() > 1) return InvalidModel("needs weights that nothing else reads");
  const bool shifts = std::any_of(a.c.begin(), a.c.end(), [](double v) { return v != 0; });
  const Tensor& w = *n.input(1)->constant();
  Tensor scaled(w.dtype(), w.dims());
  const WeightLayout layout = *WeightLayoutOf(n);
  layout.ForEach(w.dims(), [&](size_t i, int64_t in, int64_t) {
    const auto at = static_cast<int64_t>(i);
    scaled.Set(at, w.At(at) * a.k[static_cast<size_t>(in)]);
  });
  AttrMap attrs = n.attrs();
  Value* bias = n.input(2);
  if (!shifts) return b(n.op(), {x, b.Const(std::move(scaled)), bias}, std::move(attrs));
  INFER_TRY(CheckShift(n));
  INFER_ASSIGN(const int64_t channels, OutputChannels(n));
  std::vector<double> sums(static_cast<size_t>(channels), 0.0);
  layout.ForEach(w.dims(), [&](size_t i, int64_t in, int64_t out) {
    sums[static_cast<size_t>(out)] += w.At(static_cast<int64_t>(i)) * a.c[static_cast<size_t>(in)];
  });
  const double alpha = layout.alpha, beta = layout.beta;
  attrs.erase("beta");
  if (bias) {
    const auto old = layout.is_window ? ToDoubles(*bias->constant())
                                      : PerIndex(*bias->constant(), 2, 1, channels);
    if (!old || old->size() != sums.size())
      return InvalidModel("needs a bias that is the same in all rows");
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = alpha * sums[i] + beta * (*old)[i];
  } else {
    for (double& v : sums) v *= alpha;
  }
  return b(layout.has_bias ? n.op() : "Gemm",
           {x, b.Const(std::move(scaled)), b.Const(FromDoubles(w.dtype(), {channels}, sums))},
           std::move(attrs));
}

/// A layer over `in`, with constant weights and bias.
struct LayerOver {
  explicit LayerOver(const Pattern& in)
      : node(Op("Conv|ConvTranspose|Gemm|MatMul", in, weight, bias)) {}
  Pattern weight = Constant().Where("of a float type",
                                    [](const Value& v) { return IsFloat(v.constant()->dtype()); });
  Pattern bias = Constant().OrOmitted(), node;
};

constexpr const char* kChannelsBegin =
    R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
  b = const f32[3] ~2  k = const f32[2,1,1] ~3  s = const f32[2] ~4  o = const f32[2] ~5
  m = const f32[2] ~6  v = const f32[2] {1,2} )";
std::string ChannelsText(const char* rest) { return std::string(kChannelsBegin) + rest + " }"; }

}  // namespace

Rule FoldInputBatchNorm() {
  Pattern x = Any(), scale = Constant(), shift = Constant(), mean = Constant(), var = Constant();
  Pattern bn =
      Op("BatchNormalization", x, scale, shift, mean, var).With("training_mode", int64_t{0});
  const LayerOver layer(bn);
  return {
      .name = "fold-input-batchnorm",
      .doc =
          "Conv|Gemm|MatMul(BatchNormalization(x), W, B), without padding => the same layer of x",
      .match = layer.node,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(layer.node);
        INFER_ASSIGN(const InputAxis in, InputAxisOf(n));
        const auto s = ToDoubles(m.tensor(scale)), o = ToDoubles(m.tensor(shift)),
                   mu = ToDoubles(m.tensor(mean)), v = ToDoubles(m.tensor(var));
        if (in.axis != 1 || static_cast<int64_t>(s.size()) != in.extent)
          return InvalidModel("needs a normalization over the input channels");
        InputAffine a;
        for (size_t i = 0; i < s.size(); ++i) {
          a.k.push_back(s[i] / std::sqrt(v[i] + m.node(bn).Attr<float>("epsilon")));
          a.c.push_back(o[i] - mu[i] * a.k[i]);
        }
        return WithInputAffine(n, m[x], a, b);
      },
      .fires_on =
          {ChannelsText("t = BatchNormalization(x, s, o, m, v) y = Conv(t, w, b)"),
           R"(graph g(x: f32[N,4,5,5]) -> (y) { w = const f32[6,2,1,1] ~1  s = const f32[4] ~2
              o = const f32[4] ~3  m = const f32[4] ~4  v = const f32[4] {1,2,3,4}
              t = BatchNormalization(x, s, o, m, v)  y = Conv(t, w) {group=2} })",
           R"(graph g(x: f32[N,4]) -> (y) { w = const f32[3,4] ~1  s = const f32[4] ~2
              o = const f32[4] ~3  m = const f32[4] ~4  v = const f32[4] {1,2,3,4}
              c = const f32[3] ~5  t = BatchNormalization(x, s, o, m, v)
              y = Gemm(t, w, c) {transB=1, alpha=2.0, beta=0.5} })"},
      .silent_on =
          {{ChannelsText(
                "t = BatchNormalization(x, s, o, m, v) y = Conv(t, w, b) {pads=[1,1,1,1]}"),
            "without padding"},
           {ChannelsText("t = BatchNormalization(x, s, o, m, v) r = Relu(t) y = Conv(r, w, b)"),
            "is a Relu, not a BatchNormalization"},
           {R"(graph g(x: f32[2,3,4]) -> (y) { w = const f32[4,3] ~1  s = const f32[3] ~2
              o = const f32[3] ~3  m = const f32[3] ~4  v = const f32[3] {1,2,3}
              t = BatchNormalization(x, s, o, m, v)  y = MatMul(t, w) })",
            "over the input channels"}},
  };
}

Rule FoldInputScale() {
  Pattern x = Any(), k = Constant();
  Pattern mul = Op("Mul", x, k), div = Op("Div", x, k);
  const LayerOver layer(OneOf({mul, div}));
  return {
      .name = "fold-input-scale",
      .doc =
          "Conv|ConvTranspose|Gemm|MatMul(x * k, W, B) => the same layer of x with k*W; also / k",
      .match = layer.node,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(layer.node);
        INFER_ASSIGN(const InputAxis in, InputAxisOf(n));
        const auto factors = PerIndex(m.tensor(k), RankOf(*n.input(0)), in.axis, in.extent);
        if (!factors) return InvalidModel("needs one number per input channel");
        InputAffine a{*factors, std::vector<double>(factors->size(), 0.0)};
        if (m.Has(div))
          for (double& v : a.k) v = 1 / v;
        return WithInputAffine(n, m[x], a, b);
      },
      .fires_on = {ChannelsText("t = Mul(k, x) y = Conv(t, w, b) {pads=[1,1,1,1]}"),
                   R"(graph g(x: f32[N,2,4]) -> (y) { w = const f32[4,3] ~1  k = const f32[4] ~2
                     t = Mul(x, k)  y = MatMul(t, w) })",
                   R"(graph g(x: f32[N,2,3,3]) -> (y) { w = const f32[2,3,2,2] ~1
                     k = const f32[] {255}  t = Div(x, k)  y = ConvTranspose(t, w) })",
                   R"(graph g(x: f32[N,4]) -> (y) { w = const f32[3,4] ~1  k = const f32[1,4] ~2
                     t = Mul(x, k)  y = Gemm(t, w) {transB=1} })"},
      .silent_on = {{ChannelsText("q = const f32[5] ~9 t = Mul(q, x) y = Conv(t, w, b)"),
                     "one number per input channel"},
                    {ChannelsText("t = Mul(x, k) y = Conv(t, w, b) r = Neg(w)"),
                     "nothing else reads"},
                    {ChannelsText("t = Mul(x, x) y = Conv(t, w, b)"), "'x' is not a constant"},
                    {R"(graph g(x: f32[1,4]) -> (y) { w = const f32[4,3] ~1  k = const f32[2,4] ~2
                       t = Mul(x, k)  y = MatMul(t, w) })",
                     "one number per input channel"}},
  };
}

}  // namespace infer
