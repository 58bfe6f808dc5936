/// Feed-forward nets: a layer, an activation, a layer.
#include <algorithm>

#include "passes/blocks/activation_text.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

Pattern Weight() {
  return Constant().Where("a matrix", [](const Value& v) { return v.constant()->rank() == 2; });
}

/// MatMul, MatMul and a bias, or Gemm by constant weights.
struct Layer {
  explicit Layer(const Pattern& x)
      : sum(Op("Add", Op("MatMul", x, weight), bias)),
        gemm(Op("Gemm", x, weight, gemm_bias).With("transA", int64_t{0})),
        node(
            OneOf({sum, Op("MatMul", x, weight).Where("without a bias behind it", NoBias), gemm})) {
  }
  /// A product whose bias stands behind it is no layer without one.
  static bool NoBias(const Value& product) {
    return std::none_of(product.uses().begin(), product.uses().end(), [&](const Use& u) {
      const Value* added = AddedTo(&product, *u.user);
      return added && added->is_constant();
    });
  }
  Pattern weight = Weight(), bias = Constant(), gemm_bias = Constant().OrOmitted();
  Pattern sum, gemm, node;

  Value* Bias(const Match& m) const {
    if (m.Has(sum)) return m[bias];
    return m.Has(gemm) ? m[gemm_bias] : nullptr;
  }
};

/// Weights and bias of a layer as operands of the block.
Status AddOperands(const Match& m, const Layer& layer, std::vector<Value*>& operands,
                   PatchBuilder& b) {
  const Tensor& w = m.tensor(layer.weight);
  bool transposed = false;
  if (m.Has(layer.gemm)) {
    const Node& n = m.node(layer.gemm);
    transposed = n.Attr<int64_t>("transB") != 0;
    if (n.Attr<float>("alpha") != 1 || (n.input(2) && n.Attr<float>("beta") != 1))
      return InvalidModel("needs a Gemm with alpha = beta = 1");
  }
  const int64_t channels = w.dim(transposed ? 0 : 1);
  Value* bias = layer.Bias(m);
  if (bias) {
    const Dims& dims = bias->constant()->dims();
    if (NumElements(dims) != channels || dims.empty() || dims.back() != channels)
      return InvalidModel("needs biases with one number per channel");
    if (dims.size() > 1) bias = b.Const(bias->constant()->Reshaped({channels}));
  } else {
    bias = b.Const(Tensor::Zeros(w.dtype(), {1}));
  }
  if (transposed) {
    if (m[layer.weight]->uses().size() > 1)
      return InvalidModel("needs transposed weights that nothing else reads");
    Tensor t(w.dtype(), {w.dim(1), w.dim(0)});
    for (int64_t i = 0; i < w.dim(0); ++i)
      for (int64_t k = 0; k < w.dim(1); ++k) t.Set(k * w.dim(0) + i, w.At(i * w.dim(1) + k));
    operands.push_back(b.Const(std::move(t)));
  } else {
    operands.push_back(m[layer.weight]);
  }
  operands.push_back(bias);
  return {};
}

}  // namespace

Rule FuseMlp() {
  Pattern x = Any();
  const Layer first(x);
  Pattern activation = Op(kActivations, first.node);
  const Layer second(activation);
  const char* begin = R"(graph g(x: f32[N,2,4]) -> (y) { w = const f32[4,6] ~1  b = const f32[6] ~2
    v = const f32[6,3] ~3  c = const f32[1,1,3] ~4  m = MatMul(x, w)  h = Add(m, b) )";
  const auto text = [=](const char* rest) { return std::string(begin) + rest + " }"; };
  return {
      .name = "fuse-mlp",
      .doc =
          "layer(activation(layer(x))), layers MatMul, MatMul + bias or Gemm => "
          "infer::Mlp(x, W1, b1, W2, b2)",
      .match = second.node,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        std::vector<Value*> operands = {m[x]};
        INFER_TRY(AddOperands(m, first, operands, b));
        INFER_TRY(AddOperands(m, second, operands, b));
        INFER_ASSIGN(std::string name, ActivationText(m.node(activation)));
        return b("infer::Mlp", std::move(operands), {{"activation", std::move(name)}});
      },
      .fires_on = {text("a = Gelu(h) {approximate=\"tanh\"} n = MatMul(a, v) y = Add(c, n)"),
                   text("a = infer::Silu(h) n = MatMul(a, v) y = Neg(n)"),
                   text("a = LeakyRelu(h) {alpha=0.2} n = MatMul(a, v) y = Add(n, c)"),
                   R"(graph g(x: f32[N,4]) -> (y) { w = const f32[6,4] ~1  b = const f32[6] ~2
                     v = const f32[6,3] ~3  c = const f32[3] ~4  h = Gemm(x, w, b) {transB=1}
                     a = Relu(h)  y = Gemm(a, v, c) })",
                   R"(graph g(x: f32[N,4]) -> (y) { w = const f32[4,6] ~1  v = const f32[6,3] ~3
                     h = MatMul(x, w)  a = Gelu(h)  y = MatMul(a, v) })"},
      .silent_on = {{text("a = Gelu(h) k = const f32[2,6,3] ~5 y = MatMul(a, k)"),
                     "is not a matrix"},
                    {text("a = Gelu(h) n = MatMul(a, v) k = const f32[2,1] ~5 y = Add(n, k)"),
                     "one number per channel"},
                    {R"(graph g(x: f32[N,4]) -> (y) { w = const f32[4,6] ~1  v = const f32[6,3] ~3
                       h = Gemm(x, w) {alpha=2.0}  a = Relu(h)  y = Gemm(a, v) })",
                     "alpha = beta = 1"},
                    {R"(graph g(x: f32[N,4]) -> (y, z) { w = const f32[6,4] ~1
                       v = const f32[6,3] ~3  h = Gemm(x, w) {transB=1}  a = Relu(h)
                       y = Gemm(a, v)  z = Neg(w) })",
                     "that nothing else reads"},
                    {text("a = Exp(h) y = MatMul(a, v)"), "is a Exp, not a"}},
  };
}

}  // namespace infer
