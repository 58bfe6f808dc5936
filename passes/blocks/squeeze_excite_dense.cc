/// Squeeze and excitation with linear layers on the flat means, as most networks in PyTorch have
/// it.
#include <algorithm>

#include "passes/blocks/activation_text.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Gemm or MatMul of rows by constants.
struct Dense {
  explicit Dense(const Pattern& x)
      : gemm(Op("Gemm", x, weight, bias)
                 .With("transA", int64_t{0})
                 .With("alpha", 1.0f)
                 .With("beta", 1.0f)),
        node(OneOf({gemm, Op("MatMul", x, weight)})) {}
  Pattern weight = Constant(), bias = Constant().OrOmitted(), gemm, node;
};

/// Weights and bias of the 1x1 convolution of `rank` axes that does what the layer does.
Status AddConvolution(const Match& m, const Dense& layer, int rank, std::vector<Value*>& operands,
                      PatchBuilder& b) {
  Tensor w = m.tensor(layer.weight);
  if (w.rank() != 2) return InvalidModel("needs matrices of weights");
  if (!m.Has(layer.gemm) || m.node(layer.gemm).Attr<int64_t>("transB") == 0)
    w = Transposed(w, {1, 0});
  const int64_t channels = w.dim(0);
  Dims dims = w.dims();
  dims.resize(static_cast<size_t>(rank), 1);
  operands.push_back(b.Const(w.Reshaped(dims)));
  if (!m.Has(layer.gemm) || !m.Has(layer.bias)) {
    operands.push_back(b.Const(Tensor::Zeros(w.dtype(), {channels})));
    return {};
  }
  const Tensor& bias = m.tensor(layer.bias);
  if (bias.rank() < 1 || bias.dim(-1) != channels || bias.num_elements() != channels)
    return InvalidModel("needs biases with one number per channel");
  operands.push_back(b.Const(bias.Reshaped({channels})));
  return {};
}

/// The axes of `n`, a ReduceMean, are all behind the channels.
bool IsOverSpace(const Node& n) {
  const int rank = RankOf(*n.input(0));
  const auto axes = ConstantInts(n, 1);
  if (rank < 3 || !axes) return false;
  const auto normal = NormalAxes(*axes, rank);
  if (!normal || static_cast<int>(normal->size()) != rank - 2) return false;
  return *std::min_element(normal->begin(), normal->end()) == 2;
}

/// Whether `v` is [N, C] or, with `rank` axes, [N, C, 1, ...]: the number of elements makes the
/// rest.
bool HasOnePerChannel(const Value& v, int rank, int64_t channels) {
  if (RankOf(v) != rank || StaticDim(v, 1) != channels) return false;
  for (int i = 2; i < rank; ++i)
    if (StaticDim(v, i) != 1) return false;
  return true;
}

}  // namespace

Rule FuseDenseSqueezeExcite() {
  Pattern x = Any();
  Pattern pooled = Op("Flatten|Reshape|Squeeze", Op("GlobalAveragePool", x)).MoreInputs();
  Pattern reduced = Op("ReduceMean", x, Constant())
                        .With("keepdims", int64_t{0})
                        .Where("a mean over all spatial axes",
                               [](const Value& v) { return IsOverSpace(*v.producer()); });
  Pattern flat = OneOf({pooled, reduced});
  const Dense first(flat);
  Pattern activation = Op(kActivations, first.node);
  const Dense second(activation);
  Pattern gate = Op("Sigmoid|HardSigmoid", second.node);
  Pattern factors = Op("Unsqueeze|Reshape", gate, Any());
  const char* begin =
      R"(graph g(x: f32[N,4,5,5]) -> (y) { w = const f32[2,4] ~1  b = const f32[2] ~2
    v = const f32[4,2] ~3  c = const f32[4] ~4  a = const i64[2] {2,3}  s = const i64[2] {-1,4}
    t = const i64[4] {-1,4,1,1}  wt = const f32[4,2] ~5  vt = const f32[2,4] ~6 )";
  const auto text = [=](const char* rest) { return std::string(begin) + rest + " }"; };
  return {
      .name = "fuse-dense-squeeze-excite",
      .doc =
          "x * gate(layer(activation(layer(mean of x by channel)))), layers Gemm or MatMul => "
          "infer::SqueezeExcite(x, W1, b1, W2, b2)",
      .match = Op("Mul", x, factors),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int rank = RankOf(*m[x]);
        const auto channels = rank < 3 ? std::nullopt : StaticDim(*m[x], 1);
        if (!channels) return InvalidModel("needs channels of known number");
        if (!HasOnePerChannel(*m[flat], 2, *channels))
          return InvalidModel("needs rows of one mean per channel");
        if (!HasOnePerChannel(*m[factors], rank, *channels))
          return InvalidModel("needs one factor per channel");
        std::vector<Value*> operands = {m[x]};
        INFER_TRY(AddConvolution(m, first, rank, operands, b));
        INFER_TRY(AddConvolution(m, second, rank, operands, b));
        INFER_ASSIGN(std::string inner, ActivationText(m.node(activation)));
        INFER_ASSIGN(std::string outer, ActivationText(m.node(gate)));
        return b("infer::SqueezeExcite", std::move(operands),
                 {{"activation", std::move(inner)}, {"gate", std::move(outer)}});
      },
      .fires_on =
          {text("m = GlobalAveragePool(x) f = Flatten(m) p = Gemm(f, w, b) {transB=1} h = Relu(p) "
                "q = Gemm(h, v, c) {transB=1} g = Sigmoid(q) u = Unsqueeze(g, a) y = Mul(x, u)"),
           text("m = GlobalAveragePool(x) f = Reshape(m, s) p = MatMul(f, wt) h = infer::Silu(p) "
                "q = Gemm(h, vt, c) g = HardSigmoid(q) u = Reshape(g, t) y = Mul(u, x)"),
           text("m = GlobalAveragePool(x) f = Squeeze(m, a) p = MatMul(f, wt) h = Relu(p) "
                "q = MatMul(h, vt) g = Sigmoid(q) u = Unsqueeze(g, a) y = Mul(x, u)"),
           text("l = const i64[2] {-1,2} f = ReduceMean(x, l) {keepdims=0} p = MatMul(f, wt) h = "
                "Relu(p) "
                "q = MatMul(h, vt) g = Sigmoid(q) u = Unsqueeze(g, a) y = Mul(x, u)")},
      .silent_on =
          {{text("i = const i64[2] {1,3} f = ReduceMean(x, i) {keepdims=0} k = const f32[5,2] ~7 "
                 "l = const f32[2,4] ~8 p = MatMul(f, k) h = Relu(p) q = MatMul(h, l) "
                 "g = Sigmoid(q) u = Unsqueeze(g, a) y = Mul(x, u)"),
            "a mean over all spatial axes"},
           {text("m = GlobalAveragePool(x) f = Flatten(m) p = Gemm(f, w, b) {transB=1, alpha=2.0} "
                 "h = Relu(p) q = Gemm(h, v, c) {transB=1} g = Sigmoid(q) u = Unsqueeze(g, a) "
                 "y = Mul(x, u)"),
            "is not made with alpha=1"},
           {R"(graph g(x: f32[1,4,4,4]) -> (y) { w = const f32[2,4] ~1  v = const f32[2,4] ~2
              r = const i64[4] {1,1,4,1}  m = GlobalAveragePool(x)  f = Flatten(m)
              p = Gemm(f, w) {transB=1}  h = Relu(p)  q = MatMul(h, v)  g = Sigmoid(q)
              u = Reshape(g, r)  y = Mul(x, u) })",
            "one factor per channel"},
           {R"(graph g(x: f32[2,4,4,4]) -> (y) { w = const f32[2,2] ~1  v = const f32[2,2] ~2
              s = const i64[2] {4,2}  r = const i64[4] {2,4,1,1}  m = GlobalAveragePool(x)
              f = Reshape(m, s)  p = MatMul(f, w)  h = Relu(p)  q = MatMul(h, v)  g = Sigmoid(q)
              u = Reshape(g, r)  y = Mul(x, u) })",
            "one mean per channel"},
           {R"(graph g(x: f32[2,C,4,4]) -> (y) { w = const f32[4,2] ~1  v = const f32[2,4] ~2
              a = const i64[2] {2,3}  m = GlobalAveragePool(x)  f = Flatten(m)
              p = MatMul(f, w)  h = Relu(p)  q = MatMul(h, v)  g = Sigmoid(q)
              u = Unsqueeze(g, a)  y = Mul(x, u) })",
            "channels of known number"},
           {text("o = const f32[1] {2} m = GlobalAveragePool(x) f = Flatten(m) "
                 "p = Gemm(f, w, o) {transB=1} h = Relu(p) q = Gemm(h, v, c) {transB=1} "
                 "g = Sigmoid(q) u = Unsqueeze(g, a) y = Mul(x, u)"),
            "biases with one number per channel"},
           {text("m = GlobalAveragePool(x) f = Flatten(m) p = Gemm(f, w, b) {transB=1} "
                 "h = Relu(p) k = const f32[1,2,4] ~7 q = MatMul(h, k) g = Sigmoid(q) "
                 "u = Reshape(g, t) y = Mul(x, u)"),
            "matrices of weights"}},
  };
}

}  // namespace infer
