#include "tools/zoo/spelling.h"

#include <cmath>
#include <limits>

namespace infer::spelling {
namespace {

using enum ZooStyle;

constexpr float kLowest = std::numeric_limits<float>::lowest();

Value* Mean(Net& net, Value* x) {
  return net.Op("ReduceMean", {x, net.List({-1})}, {{"keepdims", int64_t{1}}});
}
Value* Div(Net& net, Value* a, Value* b) { return net.Op("Div", {a, b}); }
Value* Sub(Net& net, Value* a, Value* b) { return net.Op("Sub", {a, b}); }
Value* Rsqrt(Net& net, Value* x) { return net.Op("Reciprocal", {net.Op("Sqrt", {x})}); }

/// Of what a constant of the net holds.
template <typename F>
Value* Mapped(Net& net, Value* like, Dims dims, const F& f) {
  Tensor t(DType::kF32, std::move(dims));
  for (int64_t i = 0; net.status().ok() && i < t.num_elements(); ++i) t.Set(i, f(i));
  return net.status().ok() ? net.Const(std::move(t)) : like;
}

/// A constant of n elements as [1, n, 1, 1].
Value* PerChannel(Net& net, Value* v) {
  return Mapped(net, v, {1, net.Extent(v, 0), 1, 1},
                [&](int64_t i) { return v->constant()->At(i); });
}

/// tokens x keys; `visible` where key k may be seen by query q, which follows `past` keys.
Value* CausalMask(Net& net, int64_t past, float visible, float hidden) {
  const int64_t tokens = net.options().sequence, keys = past + tokens;
  Tensor t(DType::kF32, {1, 1, tokens, keys});
  for (int64_t i = 0; i < tokens * keys; ++i)
    t.Set(i, i % keys <= past + i / keys ? visible : hidden);
  return net.Const(std::move(t));
}

Value* SoftmaxByParts(Net& net, Value* x) {
  const auto reduce = [&](const char* op, Value* v, bool axes_input) {
    AttrMap attrs{{"keepdims", int64_t{1}}};
    Values inputs{v};
    if (axes_input) inputs.push_back(net.List({-1}));
    return net.Op(op, inputs, std::move(attrs));
  };
  Value* e = net.Op("Exp", {Sub(net, x, reduce("ReduceMax", x, true))});
  return Div(net, e, reduce("ReduceSum", e, true));
}

Value* Masked(Net& net, Value* scores, const AttentionOperands& a) {
  const ZooStyle style = net.options().style;
  const int64_t past = a.past_key ? net.options().past : 0;
  if (a.seen) {
    Value* hidden = Sub(net, net.JsonNumber(1), a.seen);
    if (style == kJax)
      return net.Op("Where", {net.Op("Cast", {hidden}, {{"to", int64_t{9}}}),
                              net.JsonNumber(kLowest), scores});
    scores = net.Add(scores, net.Mul(hidden, net.JsonNumber(style == kTf ? -10000.0f : kLowest)));
  }
  if (!a.causal || (past > 0 && net.options().sequence == 1)) return scores;
  if (style == kJax) {
    Value* visible = net.Op("Cast", {CausalMask(net, past, 1, 0)}, {{"to", int64_t{9}}});
    return net.Op("Where", {visible, scores, net.JsonNumber(kLowest)});
  }
  return net.Add(scores, CausalMask(net, past, 0, style == kTf ? -10000.0f : -INFINITY));
}

/// Heads in axis 2, contracted where they lie.
Value* EinsumAttention(Net& net, const AttentionOperands& a, const Ints& split, float scale) {
  const auto einsum = [&](const char* equation, Value* l, Value* r) {
    return net.Op("Einsum", {l, r}, {{"equation", std::string(equation)}});
  };
  Value* query = Div(net, net.Reshape(a.query, split), net.JsonNumber(1 / scale));
  Value* scores = einsum("bqhd,bkhd->bhqk", query, net.Reshape(a.key, split));
  Value* weights = SoftmaxByParts(net, Masked(net, scores, a));
  return einsum("bhqk,bkhd->bqhd", weights, net.Reshape(a.value, split));
}

}  // namespace

Value* LayerNorm(Net& net, Value* x, Value* gamma, Value* beta, float epsilon) {
  switch (net.options().style) {
    case kPytorch: break;
    case kOnnxscript:
      return net.Op("LayerNormalization", {x, gamma, beta},
                    {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
    case kTf: {
      Value* mean = Mean(net, x);
      Value* d = Sub(net, x, mean);
      Value* variance = Mean(net, net.Mul(d, d));
      Value* k = net.Mul(Rsqrt(net, net.Add(variance, net.JsonNumber(epsilon))), gamma);
      return net.Add(net.Mul(x, k), Sub(net, beta, net.Mul(mean, k)));
    }
    case kJax: {
      Value* mean = Mean(net, x);
      Value* variance = Sub(net, Mean(net, net.Mul(x, x)), net.Mul(mean, mean));
      variance = net.Op("Max", {net.JsonNumber(0), variance});
      Value* k = net.Mul(Rsqrt(net, net.Add(variance, net.JsonNumber(epsilon))), gamma);
      return net.Add(net.Mul(Sub(net, x, mean), k), beta);
    }
  }
  Value* centred = Sub(net, x, Mean(net, x));
  Value* variance = Mean(net, net.Op("Pow", {centred, net.JsonNumber(2)}));
  Value* deviation = net.Op("Sqrt", {net.Add(variance, net.JsonNumber(epsilon))});
  return net.Add(net.Mul(Div(net, centred, deviation), gamma), beta);
}

Value* GeluErf(Net& net, Value* x) {
  const auto one_plus_erf = [&](Value* v) {
    return net.Add(net.Op("Erf", {v}), net.JsonNumber(1));
  };
  const auto by_root2 = [&] { return Div(net, x, net.JsonNumber(1.4142135381698608f)); };
  Value* half = net.JsonNumber(0.5f);
  switch (net.options().style) {
    case kPytorch: break;
    case kOnnxscript: return net.Mul(half, net.Mul(x, one_plus_erf(by_root2())));
    case kTf: return net.Mul(net.Mul(half, x), one_plus_erf(by_root2()));
    case kJax:
      return net.Mul(x, net.Mul(one_plus_erf(net.Mul(x, net.JsonNumber(0.70710678f))), half));
  }
  return net.Mul(net.Mul(x, one_plus_erf(by_root2())), half);
}

Value* GeluTanh(Net& net, Value* x) {
  Value *half = net.JsonNumber(0.5f), *k = net.JsonNumber(0.7978845834732056f),
        *c = net.JsonNumber(0.044715f), *one = net.JsonNumber(1);
  const auto cube = [&] { return net.Op("Pow", {x, net.JsonNumber(3)}); };
  const auto tanh = [&](Value* v) { return net.Op("Tanh", {v}); };
  switch (net.options().style) {
    case kPytorch: break;
    case kOnnxscript: {
      Value* inner = tanh(net.Mul(k, net.Add(x, net.Mul(c, cube()))));
      return net.Mul(half, net.Mul(x, net.Add(inner, one)));
    }
    case kTf: {
      Value* inner = tanh(net.Mul(net.Add(net.Mul(cube(), c), x), k));
      return net.Mul(x, net.Mul(net.Add(one, inner), half));
    }
    case kJax: {
      Value* product = net.Mul(net.Mul(x, x), x);
      Value* inner = tanh(net.Mul(k, net.Add(x, net.Mul(c, product))));
      return net.Mul(x, net.Mul(half, net.Add(one, inner)));
    }
  }
  Value* x2 = net.Mul(x, half);
  Value* inner = net.Add(x, net.Mul(cube(), c));
  return net.Mul(x2, net.Add(tanh(net.Mul(inner, k)), one));
}

Value* HardSigmoid(Net& net, Value* x) {
  Value *three = net.JsonNumber(3), *zero = net.JsonNumber(0), *six = net.JsonNumber(6);
  switch (net.options().style) {
    case kPytorch:
    case kOnnxscript: break;
    case kTf:
      return net.Mul(net.Op("Clip", {net.Add(x, three), zero, six}), net.JsonNumber(1 / 6.0f));
    case kJax: return Div(net, net.Op("Min", {net.Op("Max", {net.Add(x, three), zero}), six}), six);
  }
  return net.Op("HardSigmoid", {x}, {{"alpha", 1.0f / 6}});
}

Value* HardSwish(Net& net, Value* x) {
  const ZooStyle style = net.options().style;
  if (style == kTf || style == kJax) return net.Mul(x, HardSigmoid(net, x));
  return net.Op("HardSwish", {x});
}

Value* Silu(Net& net, Value* x) {
  if (net.options().style == kJax)
    return Div(net, x, net.Add(net.JsonNumber(1), net.Op("Exp", {net.Op("Neg", {x})})));
  return net.Mul(x, net.Op("Sigmoid", {x}));
}

Value* Linear(Net& net, Value* x, Value* w, Value* bias) {
  const int64_t k = net.Extent(w, 0), n = net.Extent(w, 1);
  switch (net.options().style) {
    case kPytorch:
    case kJax: break;
    case kOnnxscript: {
      Value* t =
          Mapped(net, w, {n, k}, [&](int64_t i) { return w->constant()->At(i % k * n + i / k); });
      return net.Add(net.Op("MatMul", {x, net.Transpose(t, {1, 0})}), bias);
    }
    case kTf: {
      const int64_t tokens = net.Extent(x, 1);
      Value* product = net.Op("MatMul", {net.Reshape(x, {-1, k}), w});
      return net.Reshape(net.Add(product, bias), {-1, tokens, n});
    }
  }
  return net.Add(bias, net.Op("MatMul", {x, w}));
}

Value* BatchNorm(Net& net, Value* x, const Values& p, const BatchNormOptions& o) {
  Value *gamma = p[0], *beta = p[1], *mean = p[2], *variance = p[3];
  switch (net.options().style) {
    case kPytorch:
    case kOnnxscript: break;
    case kTf: {  // frozen: a scale and a shift
      const auto k = [&](int64_t i) {
        return gamma->constant()->At(i) / std::sqrt(variance->constant()->At(i) + o.epsilon);
      };
      const Dims dims{1, net.Extent(gamma, 0), 1, 1};
      Value* shift = Mapped(net, beta, dims, [&](int64_t i) {
        return beta->constant()->At(i) - mean->constant()->At(i) * k(i);
      });
      return net.Add(net.Mul(x, Mapped(net, gamma, dims, k)), shift);
    }
    case kJax: {
      Value* k = Rsqrt(net, net.Add(PerChannel(net, variance), net.JsonNumber(o.epsilon)));
      k = net.Mul(k, PerChannel(net, gamma));
      return net.Add(net.Mul(Sub(net, x, PerChannel(net, mean)), k), PerChannel(net, beta));
    }
  }
  return net.Op("BatchNormalization", {x, gamma, beta, mean, variance},
                {{"epsilon", o.epsilon}, {"momentum", o.momentum}, {"training_mode", int64_t{0}}});
}

Value* Attention(Net& net, const AttentionOperands& a) {
  const ZooStyle style = net.options().style;
  const int64_t width = net.Extent(a.query, 2), extent = width / a.heads;
  const int64_t tokens = net.Extent(a.query, 1);
  const Ints split{net.batch() ? 0 : -1, tokens, a.heads, extent};
  const Ints joined{net.batch() ? 0 : -1, tokens, width};
  const float scale = 1 / std::sqrt(static_cast<float>(extent));
  if (style == kJax && !a.past_key)
    return net.Reshape(EinsumAttention(net, a, split, scale), joined);

  const auto heads = [&](Value* v) { return net.Transpose(net.Reshape(v, split), {0, 2, 1, 3}); };
  Value *query = heads(a.query), *key = heads(a.key), *value = heads(a.value);
  if (a.past_key) {
    key = net.Op("Concat", {a.past_key, key}, {{"axis", int64_t{2}}});
    value = net.Op("Concat", {a.past_value, value}, {{"axis", int64_t{2}}});
    *a.present_key = key;
    *a.present_value = value;
  }
  key = net.Transpose(key, {0, 1, 3, 2});
  if (style == kOnnxscript) {
    query = net.Mul(query, net.JsonNumber(std::sqrt(scale)));
    key = net.Mul(key, net.JsonNumber(std::sqrt(scale)));
  }
  Value* scores = net.Op("MatMul", {query, key});
  if (style == kTf) scores = net.Mul(scores, net.JsonNumber(scale));
  if (style == kJax) scores = Div(net, scores, net.JsonNumber(1 / scale));
  scores = Masked(net, scores, a);
  Value* weights = style == kJax ? SoftmaxByParts(net, scores)
                                 : net.Op("Softmax", {scores}, {{"axis", int64_t{-1}}});
  Value* context = net.Op("MatMul", {weights, value});
  return net.Reshape(net.Transpose(context, {0, 2, 1, 3}), joined);
}

}  // namespace infer::spelling
