/// Squeeze and excitation: channels are scaled by what a small net makes of their means.
#include "passes/blocks/activation_text.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// A 1x1 convolution by constants that does nothing else.
Pattern Pointwise(const Pattern& x, const Pattern& w, const Pattern& b) {
  return Op("Conv", x, w, b)
      .With("group", int64_t{1})
      .Where("a plain 1x1 convolution", [](const Value& v) {
        const Node& n = *v.producer();
        const Value* kernel = n.input(1);
        const int rank = RankOf(*kernel);
        for (int i = 2; i < rank; ++i)
          if (StaticDim(*kernel, i) != 1) return false;
        for (std::string_view attr : {"pads", "strides"})
          if (const auto it = n.attrs().find(attr); it != n.attrs().end())
            for (const int64_t k : std::get<std::vector<int64_t>>(it->second))
              if (k != (attr == "pads" ? 0 : 1)) return false;
        return rank > 2;
      });
}

Value* BiasOr0(const Match& m, const Pattern& bias, const Pattern& w, PatchBuilder& b) {
  if (m.Has(bias)) return m[bias];
  return b.Const(Tensor::Zeros(m.tensor(w).dtype(), {m.tensor(w).dim(0)}));
}

}  // namespace

Rule FuseSqueezeExcite() {
  Pattern x = Any(), w1 = Constant(), w2 = Constant();
  Pattern b1 = Constant().OrOmitted(), b2 = Constant().OrOmitted();
  Pattern first = Pointwise(Op("GlobalAveragePool", x), w1, b1);
  Pattern activation = Op(kActivations, first);
  Pattern second = Pointwise(activation, w2, b2);
  Pattern gate = Op("Sigmoid|HardSigmoid", second);
  const char* begin = R"(graph g(x: f32[N,4,5,5]) -> (y) { w = const f32[2,4,1,1] ~1
    b = const f32[2] ~2  v = const f32[4,2,1,1] ~3  c = const f32[4] ~4
    m = GlobalAveragePool(x)  p = Conv(m, w, b) )";
  const auto text = [=](const char* rest) { return std::string(begin) + rest + " }"; };
  return {
      .name = "fuse-squeeze-excite",
      .doc =
          "x * gate(Conv(activation(Conv(GlobalAveragePool(x))))), 1x1 convolutions => "
          "infer::SqueezeExcite(x, W1, b1, W2, b2)",
      .match = Op("Mul", x, gate),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_ASSIGN(std::string inner, ActivationText(m.node(activation)));
        INFER_ASSIGN(std::string outer, ActivationText(m.node(gate)));
        return b("infer::SqueezeExcite",
                 {m[x], m[w1], BiasOr0(m, b1, w1, b), m[w2], BiasOr0(m, b2, w2, b)},
                 {{"activation", std::move(inner)}, {"gate", std::move(outer)}});
      },
      .fires_on = {text("a = Relu(p) q = Conv(a, v, c) g = Sigmoid(q) y = Mul(g, x)"),
                   text("a = infer::Silu(p) q = Conv(a, v) g = Sigmoid(q) y = Mul(x, g)"),
                   text("a = Relu(p) q = Conv(a, v, c) {kernel_shape=[1,1], strides=[1,1]} "
                        "g = HardSigmoid(q) {alpha=0.16666667} y = Mul(x, g)")},
      .silent_on = {{text("a = Relu(p) k = const f32[4,2,3,3] ~5 "
                          "q = Conv(a, k, c) {pads=[1,1,1,1]} g = Sigmoid(q) y = Mul(x, g)"),
                     "a plain 1x1 convolution"},
                    {text("a = Relu(p) q = Conv(a, v, c) g = Sigmoid(q) r = Relu(x) "
                          "y = Mul(g, r)"),
                     "is not the value bound before"},
                    {text("a = Relu(p) q = Conv(a, v, c) g = Tanh(q) y = Mul(g, x)"),
                     "not a Sigmoid or HardSigmoid"}},
  };
}

}  // namespace infer
