/// Transformers, decoders with a cache, recurrent networks and perceptrons.
#include <algorithm>

#include "tools/infer_bench/predict/generated.h"

namespace infer::bench {
namespace {

struct Width {
  int64_t hidden, heads, tokens, past = 0;
};

Value* Product(Maker& m, Value* x, int64_t outputs, bool int4) {
  return int4 ? m.net.LinearInt4(x, outputs, 1, m.Maybe(0.5)) : m.net.Linear(x, outputs);
}

/// softmax(q k^T / sqrt(d)) v, as PyTorch's exporter writes it.
Value* PlainAttention(Maker& m, Value* query, Value* key, Value* value, const Width& w,
                      Value* mask) {
  Net& net = m.net;
  const int64_t batch = net.Extent(query, 0), extent = w.hidden / w.heads;
  const auto heads = [&](Value* v, Ints perm) {
    return net.Transpose(net.Reshape(v, {batch, net.Extent(v, 1), w.heads, extent}),
                         std::move(perm));
  };
  Value* scores = net.Op("MatMul", {heads(query, {0, 2, 1, 3}), heads(key, {0, 2, 3, 1})});
  scores = net.Op("Div", {scores, net.JsonNumber(8)});
  if (mask) scores = net.Add(scores, mask);
  Value* context = net.Op(
      "MatMul", {net.Op("Softmax", {scores}, {{"axis", int64_t{-1}}}), heads(value, {0, 2, 1, 3})});
  return net.Reshape(net.Transpose(context, {0, 2, 1, 3}), {batch, w.tokens, w.hidden});
}

Value* Block(Maker& m, Value* x, const Width& w, bool int4, Value* mask, int64_t layer) {
  Net& net = m.net;
  const bool before = m.Maybe(0.5);
  Value* in = before ? net.LayerNorm(x, 1e-5f) : x;
  Value *q = nullptr, *k = nullptr, *v = nullptr;
  if (m.Maybe(0.4)) {
    Value* all = Product(m, in, 3 * w.hidden, int4);
    const Values parts = net.OpN("Split", {all, net.List({w.hidden, w.hidden, w.hidden})}, 3,
                                 {{"axis", int64_t{2}}});
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    q = Product(m, in, w.hidden, int4), k = Product(m, in, w.hidden, int4),
    v = Product(m, in, w.hidden, int4);
  }
  Value* context = nullptr;
  if (net.options().style == ZooStyle::kPytorch && w.past == 0) {
    context = PlainAttention(m, q, k, v, w, mask);
  } else {
    Value *present_key = nullptr, *present_value = nullptr;
    spelling::AttentionOperands a{.query = q, .key = k, .value = v, .heads = w.heads};
    if (w.past > 0) {
      const Ints past{1, w.heads, w.past, w.hidden / w.heads};
      a.past_key = m.FloatInput(Cat("past_key_", layer).c_str(), past);
      a.past_value = m.FloatInput(Cat("past_value_", layer).c_str(), past);
      a.present_key = &present_key, a.present_value = &present_value;
    }
    context = spelling::Attention(net, a);
    if (w.past > 0) {
      net.Output(present_key, Cat("present_key_", layer));
      net.Output(present_value, Cat("present_value_", layer));
    }
  }
  x = net.Add(x, Product(m, context, w.hidden, int4));
  if (!before) x = net.LayerNorm(x, 1e-5f);
  Value* y = before ? net.LayerNorm(x, 1e-5f) : x;
  y = Product(m, y, w.hidden * m.Of({1, 2, 4, 4, 4}), int4);
  const uint32_t act = m.random.Below(4);
  y = act == 0   ? net.Relu(y)
      : act == 1 ? spelling::GeluTanh(net, y)
      : act == 2 ? spelling::Silu(net, y)
                 : spelling::GeluErf(net, y);
  x = net.Add(x, Product(m, y, w.hidden, int4));
  return before ? x : net.LayerNorm(x, 1e-5f);
}

Value* Embedded(Maker& m, int64_t batch, int64_t tokens, int64_t hidden) {
  if (m.Maybe(0.4)) return m.FloatInput("input", {batch, tokens, hidden});
  Value* ids = m.net.Input("ids", DType::kI64, {Dim(batch), Dim(tokens)});
  return m.net.Op("Gather", {m.net.Weight({m.Between(64, 4000), hidden}, 0.5), ids},
                  {{"axis", int64_t{0}}});
}

}  // namespace

void MakeTransformer(Maker& m) {
  Width w{.hidden = 0, .heads = m.Of({1, 2, 4, 4, 8, 12}), .tokens = m.Between(1, 400)};
  w.hidden = w.heads * m.Of({8, 16, 32, 32, 64, 64});
  const int64_t batch = m.Of({1, 1, 1, 2, 4});
  if (batch * w.tokens * w.hidden > 100'000)
    w.tokens = std::max<int64_t>(100'000 / (batch * w.hidden), 1);
  Value* x = Embedded(m, batch, w.tokens, w.hidden);
  if (m.Maybe(0.5)) x = m.net.Add(x, m.net.Weight({1, w.tokens, w.hidden}, 0.1));
  Value* mask = m.Maybe(0.4) ? m.net.Weight({1, 1, w.tokens, w.tokens}, 1) : nullptr;
  for (int64_t layers = m.Between(1, w.hidden >= 256 ? 2 : 5), l = 0; l < layers; ++l)
    x = Block(m, x, w, false, mask, l);
  if (m.Maybe(0.5)) x = m.net.Linear(x, m.Between(2, 500));
  m.net.Output(x, "output");
}

void MakeDecoder(Maker& m) {
  const bool int4 = m.Maybe(0.6);
  Width w{.hidden = 0, .heads = m.Of({2, 4, 8, 12}), .tokens = 1, .past = m.Between(1, 256)};
  w.hidden = w.heads * m.Of(int4 ? Ints{32, 64, 64} : Ints{8, 16, 32, 64});
  Value* x = Embedded(m, 1, 1, w.hidden);
  for (int64_t layers = m.Between(1, 4), l = 0; l < layers; ++l)
    x = Block(m, x, w, int4, nullptr, l);
  m.net.Output(Product(m, m.net.LayerNorm(x, 1e-5f), m.Between(50, 8000), int4), "logits");
}

void MakeRecurrent(Maker& m) {
  Net& net = m.net;
  const int64_t tokens = m.Maybe(0.4) ? m.Between(1, 8) : m.Between(1, 200),
                batch = m.Of({1, 1, 1, 2, 8, 32});
  int64_t width = m.Channels(4, 256);
  Value* x = m.FloatInput("input", {tokens, batch, width});
  for (int64_t layers = m.Between(1, 3); layers > 0; --layers) {
    const bool lstm = m.Maybe(0.7), both = m.Maybe(0.4);
    const int64_t hidden = m.Channels(8, 256), gates = lstm ? 4 : 3, d = both ? 2 : 1;
    Values operands{x, net.Weight({d, gates * hidden, width}, 0.1),
                    net.Weight({d, gates * hidden, hidden}, 0.1),
                    net.Weight({d, 2 * gates * hidden}, 0.1)};
    AttrMap attrs{{"hidden_size", hidden},
                  {"direction", std::string(both ? "bidirectional" : "forward")}};
    if (!lstm) attrs.emplace("linear_before_reset", int64_t{1});
    Value* y =
        net.Op(lstm ? "LSTM" : "GRU", std::move(operands), std::move(attrs));  // [T, D, N, H]
    x = net.Reshape(net.Transpose(y, {0, 2, 1, 3}), {tokens, batch, d * hidden});
    width = d * hidden;
  }
  x = net.Linear(x, m.Between(1, 300));
  net.Output(m.Maybe(0.5) ? net.Op("Softmax", {x}, {{"axis", int64_t{-1}}}) : x, "output");
}

void MakePerceptron(Maker& m) {
  Net& net = m.net;
  const bool wide = m.Maybe(0.4);
  const int64_t act = static_cast<int64_t>(m.random.Below(10));
  Value* x =
      m.FloatInput("input", {m.Maybe(0.5) ? 1 : m.Between(2, 64), m.Between(4, wide ? 2048 : 512)});
  for (int64_t left = m.Between(2, 8); left > 0; --left) {
    x = net.Gemm(x, m.Between(2, wide ? 2048 : 512));
    x = m.Activation(x, act);
  }
  net.Output(x, "output");
}

}  // namespace infer::bench
