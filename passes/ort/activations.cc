/// Layers with the activation behind them. A convolution that also adds (operand Z of FusedConv)
/// stays three nodes: ONNX Runtime 1.32 runs it apart from its blocked layout, and slower.
#include <cfloat>
#include <cmath>

#include "passes/ort/ort.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Layers of f32 whose operands are not dequantized: those become layers of integers.
bool IsFloatLayer(const Value& v) {
  const Node& n = *v.producer();
  for (const Value* in : n.inputs())
    if (DequantizeBefore(in)) return false;
  return v.type().is_tensor() && v.dtype() == DType::kF32;
}
Pattern Layer(std::string_view op) {
  return Op(op, Any(), Any(), Any().OrOmitted())
      .Where("an f32 layer of operands that are not dequantized", IsFloatLayer);
}

/// The name of an activation as FusedConv spells it, and its parameters.
struct Activation {
  std::string name;
  std::vector<float> parameters;
};
Activation ActivationOf(const Node& n) {
  Activation a{std::string(n.op()), {}};
  for (const char* attr : {"alpha", "beta"})
    if (n.def().FindAttr(attr)) a.parameters.push_back(n.Attr<float>(attr));
  return a;
}

std::vector<Value*> OperandsOf(const Node& n) { return {n.inputs().begin(), n.inputs().end()}; }

}  // namespace

Rule FuseConvActivation() {
  Pattern conv = Layer("Conv");
  Pattern low = Scalar().OrOmitted(), high = Scalar().OrOmitted();
  Pattern clip = Op("Clip", conv, low, high);
  Pattern other = Op("Relu|Sigmoid|Tanh|LeakyRelu|HardSigmoid", conv);
  Pattern root = OneOf({other, clip});
  return {
      .name = "ort-conv-activation",
      .doc = "Relu(Conv(x)), and other activations => com.microsoft::FusedConv(x)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(conv);
        Activation a = ActivationOf(m.node(root));
        if (m.Has(clip)) {
          const auto bound = [&](const Pattern& p, float none) {
            return m.Has(p) ? static_cast<float>(m.scalar(p)) : none;
          };
          a.parameters = {bound(low, -FLT_MAX), bound(high, FLT_MAX)};
          if (std::isnan(a.parameters[0]) || std::isnan(a.parameters[1]))
            return InvalidModel("needs bounds that are numbers");
        }
        AttrMap attrs = n.attrs();
        attrs["activation"] = a.name;
        if (!a.parameters.empty()) attrs["activation_params"] = a.parameters;
        return b("com.microsoft::FusedConv", OperandsOf(n), std::move(attrs));
      },
      .fires_on = {R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
             b = const f32[3] ~2  c = Conv(x, w, b) {pads=[1,1,1,1]}  y = Relu(c) })",
                   R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
             h = const f32[] {0.5}  c = Conv(x, w) {strides=[2,2]}  y = Clip(c, _, h) })",
                   R"(graph g(x: f32[N,2,5]) -> (y) { w = const f32[3,2,3] ~1
             c = Conv(x, w)  y = LeakyRelu(c) {alpha=0.3} })",
                   R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,1,1] ~1
             c = Conv(x, w)  y = HardSigmoid(c) {alpha=0.3} })"},
      .silent_on = {{R"(graph g(x: f32[N,2,5,5]) -> (y, c) { w = const f32[3,2,3,3] ~1
             c = Conv(x, w)  y = Relu(c) })",
                     "has other uses"},
                    {R"(graph g(x: f16[N,2,5,5]) -> (y) { w = const f16[3,2,3,3] ~1
             c = Conv(x, w)  y = Relu(c) })",
                     "an f32 layer"},
                    {R"(graph g(q: u8[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
             s = const f32[] {0.1}  x = DequantizeLinear(q, s)  c = Conv(x, w)  y = Relu(c) })",
                     "not dequantized"}},
  };
}

Rule FuseGemmActivation() {
  Pattern gemm = Layer("Gemm");
  Pattern root = Op("Relu|Sigmoid|Tanh|LeakyRelu|HardSigmoid|Elu|Softplus|Softsign", gemm);
  return {
      .name = "ort-gemm-activation",
      .doc = "Relu(Gemm(x)), and other activations => com.microsoft::FusedGemm(x)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Activation a = ActivationOf(m.node(root));
        AttrMap attrs = m.node(gemm).attrs();
        attrs["activation"] = a.name;
        constexpr const char* kNames[] = {"activation_alpha", "activation_beta"};
        for (size_t i = 0; i < a.parameters.size(); ++i) attrs[kNames[i]] = a.parameters[i];
        return b("com.microsoft::FusedGemm", OperandsOf(m.node(gemm)), std::move(attrs));
      },
      .fires_on = {R"(graph g(x: f32[N,4]) -> (y) { w = const f32[4,3] ~1  b = const f32[3] ~2
             c = Gemm(x, w, b) {alpha=0.5}  y = Relu(c) })",
                   R"(graph g(x: f32[N,4]) -> (y) { w = const f32[3,4] ~1  b = const f32[3] ~2
             c = Gemm(x, w, b) {transB=1}  y = Elu(c) {alpha=0.5} })",
                   R"(graph g(x: f32[N,4]) -> (y) { w = const f32[4,3] ~1  b = const f32[3] ~2
             c = Gemm(x, w, b)  y = HardSigmoid(c) {beta=0.25} })"},
      .silent_on = {{R"(graph g(x: f16[N,4]) -> (y) { w = const f16[4,3] ~1  b = const f16[3] ~2
             c = Gemm(x, w, b)  y = Relu(c) })",
                     "an f32 layer"},
                    {R"(graph g(x: f32[N,4]) -> (y, c) { w = const f32[4,3] ~1  b = const f32[3] ~2
             c = Gemm(x, w, b)  y = Relu(c) })",
                     "has other uses"}},
  };
}

Rule FuseBiasGelu() {
  Pattern x = Any().Where("an f32 tensor", [](const Value& v) {
    return v.type().is_tensor() && v.dtype() == DType::kF32;
  });
  Pattern bias = Any().Where("a vector", [](const Value& v) { return RankOf(v) == 1; });
  Pattern root = Op("Gelu|com.microsoft::Gelu", Op("Add", x, bias));
  return {
      .name = "ort-bias-gelu",
      .doc = "Gelu(x + bias) => com.microsoft::BiasGelu(x, bias), with tanh FastGelu",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int rank = RankOf(*m[x]);
        if (rank < 1 || !m[x]->shape()[rank - 1].KnownEqual(m[bias]->shape()[0]))
          return InvalidModel("needs a bias as long as the last axis");
        const Node& n = m.node(root);
        const bool tanh =
            n.def().FindAttr("approximate") && n.Attr<std::string>("approximate") == "tanh";
        return b(tanh ? "com.microsoft::FastGelu" : "com.microsoft::BiasGelu", {m[x], m[bias]});
      },
      .fires_on = {R"(graph g(x: f32[N,2,3]) -> (y) { b = const f32[3] ~1  a = Add(b, x)
             y = Gelu(a) })",
                   R"(graph g(x: f32[N,3], b: f32[3]) -> (y) { a = Add(x, b)
             y = Gelu(a) {approximate="tanh"} })"},
      .silent_on = {{R"(graph g(x: f32[N,1], b: f32[3]) -> (y) { a = Add(x, b)  y = Gelu(a) })",
                     "as long as the last axis"},
                    {R"(graph g(x: f16[N,3], b: f16[3]) -> (y) { a = Add(x, b)  y = Gelu(a) })",
                     "an f32 tensor"},
                    {R"(graph g(x: f32[N,3], b: f32[2,1,3]) -> (y) { a = Add(x, b)  y = Gelu(a) })",
                     "a vector"}},
  };
}

}  // namespace infer
