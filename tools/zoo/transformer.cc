/// BERT (Devlin et al., 2018) and GPT-2 (Radford et al., 2019) as transformers has them.
#include <cmath>
#include <limits>

#include "lib/support/strings.h"
#include "tools/zoo/spelling.h"

namespace infer {
namespace {

constexpr int64_t kWidth = 768, kHeads = 12, kHead = kWidth / kHeads, kLayers = 12;
/// What a mask adds or puts where a token must not look: the lowest f32.
constexpr float kMasked = std::numeric_limits<float>::lowest();

Value* Gather(Net& net, Value* table, Value* indices, int64_t axis = 0) {
  return net.Op("Gather", {table, indices}, {{"axis", axis}});
}

Value* Softmax(Net& net, Value* x) { return net.Op("Softmax", {x}, {{"axis", int64_t{-1}}}); }

/// Position ids first ... first + n - 1 as [1, n].
Value* Positions(Net& net, int64_t first, int64_t n) {
  Tensor ids(DType::kI64, {1, n});
  for (int64_t i = 0; i < n; ++i) ids.SetInt(i, first + i);
  return net.Const(std::move(ids));
}

/// Of separate Q, K and V; `mask` is added to the scores. In other styles than pytorch's it is 1
/// where a token is seen.
Value* BertAttention(Net& net, Value* x, Value* mask) {
  const int64_t batch = net.batch(), tokens = net.options().sequence;
  if (net.options().style != ZooStyle::kPytorch) {
    Value *q = net.Linear(x, kWidth), *k = net.Linear(x, kWidth), *v = net.Linear(x, kWidth);
    return spelling::Attention(net,
                               {.query = q, .key = k, .value = v, .heads = kHeads, .seen = mask});
  }
  const Ints split{batch, tokens, kHeads, kHead};
  Value* query = net.Linear(x, kWidth);
  Value* key = net.Reshape(net.Linear(x, kWidth), split);
  Value* value = net.Transpose(net.Reshape(net.Linear(x, kWidth), split), {0, 2, 1, 3});
  query = net.Transpose(net.Reshape(query, split), {0, 2, 1, 3});
  Value* scores = net.Op("MatMul", {query, net.Transpose(key, {0, 2, 3, 1})});
  scores = net.Op("Div", {scores, net.JsonNumber(std::sqrt(static_cast<float>(kHead)))});
  Value* context = net.Op("MatMul", {Softmax(net, net.Add(scores, mask)), value});
  return net.Reshape(net.Transpose(context, {0, 2, 1, 3}), {batch, tokens, kWidth});
}

/// Post-norm encoder layer.
Value* BertLayer(Net& net, Value* x, Value* mask) {
  Value* context = BertAttention(net, x, mask);
  x = net.LayerNorm(net.Add(net.Linear(context, kWidth), x), 1e-12f);
  Value* y = net.Linear(spelling::GeluErf(net, net.Linear(x, 4 * kWidth)), kWidth);
  return net.LayerNorm(net.Add(y, x), 1e-12f);
}

/// What gpt2 is built as.
struct Gpt2Form {
  bool cached = false;
  bool int4 = false;       ///< MatMulNBits for Gemm and MatMul with weights
  bool grouped = false;    ///< GroupQueryAttention
  bool open = false;       ///< the past has any length; one token
  Value* last = nullptr;   ///< grouped: position of the new token, per sample
  Value* total = nullptr;  ///< grouped: length of the caches
};

/// Conv1D: [batch, tokens, k] flattened, Gemm with W[k, outputs], unflattened.
Value* Conv1d(Net& net, const Gpt2Form& form, Value* x, int64_t outputs, double gain = 1) {
  if (form.int4) return net.LinearInt4(x, outputs, gain, true);
  if (net.options().style != ZooStyle::kPytorch) return net.Linear(x, outputs, gain);
  const int64_t k = net.Extent(x, -1);
  x = net.Reshape(x, {-1, k});
  Value* w = net.Weight({k, outputs}, std::sqrt(gain / static_cast<double>(k)));
  x = net.Op("Gemm", {x, w, net.Weight({outputs}, 0.02)}, {{"alpha", 1.0f}, {"beta", 1.0f}});
  // A 0 would copy the extent of the flattened operand.
  const int64_t batch = net.batch() > 0 ? net.batch() : -1;
  return net.Reshape(x, {batch, net.options().sequence, outputs});
}

/// Keys and values of the past, and where their extension goes; null without a cache.
struct Cache {
  Value* key = nullptr;
  Value* value = nullptr;
};

/// scores / (0 + 64^0.5), causally masked: the exporter keeps how the divisor came about. past < 0:
/// of one token, which sees all.
Value* CausalProbabilities(Net& net, Value* scores, int64_t past) {
  const int64_t tokens = net.options().sequence;
  Value* root = net.Op("Pow", {net.JsonNumber(static_cast<float>(kHead)), net.JsonNumber(0.5f)});
  Value* zero = net.Op("ConstantOfShape", {net.List({})}, {{"value", Tensor::Of<float>({1}, {0})}});
  scores = net.Op("Div", {scores, net.Add(zero, root)});
  scores = net.Op("Cast", {scores}, {{"to", int64_t{1}}});
  if (past < 0) return Softmax(net, scores);
  Tensor visible(DType::kBool, {1, 1, tokens, past + tokens});
  for (int64_t q = 0; q < tokens; ++q)
    for (int64_t k = 0; k < past + tokens; ++k)
      visible.SetInt(q * (past + tokens) + k, k <= past + q);
  scores = net.Op("Where", {net.Const(std::move(visible)), scores, net.JsonNumber(kMasked)});
  return net.Op("Cast", {Softmax(net, scores)}, {{"to", int64_t{1}}});
}

/// softmax(q k / 8) v over the cache and the new tokens, which extend it; [batch, tokens, width].
Value* Gpt2Attention(Net& net, const Gpt2Form& form, Value* qkv, Cache& cache) {
  const int64_t batch = net.batch(), tokens = net.options().sequence;
  const Ints split{batch, tokens, kHeads, kHead};
  const Values parts =
      net.OpN("Split", {qkv, net.List({kWidth, kWidth, kWidth})}, 3, {{"axis", int64_t{2}}});
  if (net.options().style != ZooStyle::kPytorch)
    return spelling::Attention(net, {.query = parts[0],
                                     .key = parts[1],
                                     .value = parts[2],
                                     .heads = kHeads,
                                     .causal = true,
                                     .past_key = cache.key,
                                     .past_value = cache.value,
                                     .present_key = &cache.key,
                                     .present_value = &cache.value});
  Value* query = net.Transpose(net.Reshape(parts[0], split), {0, 2, 1, 3});
  Value* key = net.Reshape(parts[1], split);
  if (cache.key) key = net.Transpose(key, {0, 2, 1, 3});
  Value* value = net.Transpose(net.Reshape(parts[2], split), {0, 2, 1, 3});
  if (cache.key) {
    key = net.Op("Concat", {cache.key, key}, {{"axis", int64_t{-2}}});
    value = net.Op("Concat", {cache.value, value}, {{"axis", int64_t{-2}}});
    cache = {key, value};
  }
  key = net.Transpose(key, cache.key ? Ints{0, 1, 3, 2} : Ints{0, 2, 3, 1});
  Value* scores = net.Op("MatMul", {query, key});
  const int64_t past = form.open ? -1 : cache.key ? net.options().past : 0;
  Value* weights = CausalProbabilities(net, scores, past);
  Value* context = net.Op("MatMul", {weights, value});
  return net.Reshape(net.Transpose(context, {0, 2, 1, 3}), {batch, tokens, kWidth});
}

/// The same by one operator, whose caches keep their length.
Value* Gpt2GroupedAttention(Net& net, const Gpt2Form& form, Value* qkv, Cache& cache) {
  const Values out = net.OpN("com.microsoft::GroupQueryAttention",
                             {qkv, nullptr, nullptr, cache.key, cache.value, form.last, form.total},
                             3, {{"num_heads", kHeads}, {"kv_num_heads", kHeads}});
  cache = out.size() == 3 ? Cache{out[1], out[2]} : cache;
  return out[0];
}

/// Pre-norm decoder layer; `cache` is replaced by the extended one.
Value* Gpt2Layer(Net& net, const Gpt2Form& form, Value* x, Cache& cache) {
  Value* qkv = Conv1d(net, form, net.LayerNorm(x, 1e-5f), 3 * kWidth);
  Value* context = form.grouped ? Gpt2GroupedAttention(net, form, qkv, cache)
                                : Gpt2Attention(net, form, qkv, cache);
  x = net.Add(Conv1d(net, form, context, kWidth, 0.1), x);
  Value* y = spelling::GeluTanh(net, Conv1d(net, form, net.LayerNorm(x, 1e-5f), 4 * kWidth));
  return net.Add(x, Conv1d(net, form, y, kWidth, 0.1));
}

int64_t Layers(const Net& net) { return net.options().layers ? net.options().layers : kLayers; }

void BuildGpt2(Net& net, Gpt2Form form) {
  constexpr int64_t kVocabulary = 50257, kPositions = 1024;
  const int64_t tokens = net.options().sequence, past = form.cached ? net.options().past : 0;
  if (past < 0 || past + tokens > kPositions)
    return net.Fail(InvalidArgument(
        Cat("gpt2 has ", kPositions, " positions, ", past + tokens, " are asked for")));
  Value* ids = net.Input("input_ids", DType::kI64, {net.BatchDim(), tokens});
  Value* positions = nullptr;
  if (form.int4 && past == 0) {
    if (form.grouped || tokens != 1)
      return net.Fail(InvalidArgument("an open past needs one token and no grouped attention"));
    form.open = true;
  }
  if (form.open || form.grouped)
    positions = net.Input("position_ids", DType::kI64, {net.BatchDim(), tokens});
  if (form.grouped) {
    form.last = net.Input("seqlens_k", DType::kI32, {net.BatchDim()});
    form.total = net.Const(Tensor::Of<int32_t>({1}, {static_cast<int32_t>(past)}));
  }
  const Dim length = form.open ? Dim::Symbol("past") : Dim(past);
  std::vector<Cache> caches(static_cast<size_t>(Layers(net)));
  for (size_t i = 0; form.cached && i < caches.size(); ++i)
    for (Value* Cache::*part : {&Cache::key, &Cache::value})
      caches[i].*part =
          net.Input(Cat("past_key_values.", i, part == &Cache::key ? ".key" : ".value"),
                    DType::kF32, {net.BatchDim(), kHeads, length, kHead});
  Value* x = Gather(net, net.Weight({kVocabulary, kWidth}, 0.5), net.Reshape(ids, {-1, tokens}));
  Value* table = net.Weight({kPositions, kWidth}, 0.1);
  x = net.Add(x, Gather(net, table, positions ? positions : Positions(net, past, tokens)));
  for (Cache& cache : caches) x = Gpt2Layer(net, form, x, cache);
  x = net.Reshape(net.LayerNorm(x, 1e-5f), {net.batch() ? net.batch() : -1, tokens, kWidth});
  net.Output(
      form.int4 ? net.LinearInt4(x, kVocabulary, 1, false)
                : net.Op("MatMul", {x, net.Weight({kWidth, kVocabulary}, std::sqrt(1.0 / kWidth))}),
      "logits");
  for (size_t i = 0; form.cached && i < caches.size(); ++i) {
    net.Output(caches[i].key, Cat("present.", i, ".key"));
    net.Output(caches[i].value, Cat("present.", i, ".value"));
  }
}

}  // namespace

void BuildBertBase(Net& net) {
  constexpr int64_t kVocabulary = 30522, kPositions = 512;
  const int64_t tokens = net.options().sequence;
  if (tokens > kPositions)
    return net.Fail(InvalidArgument(
        Cat("bert-base has ", kPositions, " positions, ", tokens, " are asked for")));
  const std::vector<Dim> dims{net.BatchDim(), tokens};
  Value* ids = net.Input("input_ids", DType::kI64, dims);
  Value* attention = net.Input("attention_mask", DType::kI64, dims);
  Value* types = net.Input("token_type_ids", DType::kI64, dims);

  // (1 - mask[:, None, None, :]) * lowest
  Value* mask = net.Op("Unsqueeze", {attention, net.List({1})});
  mask = net.Op("Cast", {net.Op("Unsqueeze", {mask, net.List({2})})}, {{"to", int64_t{1}}});
  if (net.options().style == ZooStyle::kPytorch)
    mask = net.Mul(net.Op("Sub", {net.JsonNumber(1), mask}), net.JsonNumber(kMasked));

  Value* words = Gather(net, net.Weight({kVocabulary, kWidth}, 0.5), ids);
  Value* x = net.Add(words, Gather(net, net.Weight({2, kWidth}, 0.1), types));
  Value* table = net.Weight({kPositions, kWidth}, 0.1);
  x = net.LayerNorm(net.Add(x, Gather(net, table, Positions(net, 0, tokens))), 1e-12f);
  for (int64_t i = 0; i < Layers(net); ++i) x = BertLayer(net, x, mask);
  Value* first = Gather(net, x, net.Const(Tensor::Scalar<int64_t>(0)), 1);
  Value* pooled = net.Op("Tanh", {net.Gemm(first, kWidth)});
  net.Output(x, "last_hidden_state");
  net.Output(pooled, "pooler_output");
}

void BuildGpt2Small(Net& net) { BuildGpt2(net, {}); }
void BuildGpt2SmallKv(Net& net) { BuildGpt2(net, {.cached = true}); }
void BuildGpt2SmallKvInt4(Net& net) { BuildGpt2(net, {.cached = true, .int4 = true}); }
void BuildGpt2SmallGqaInt4(Net& net) {
  BuildGpt2(net, {.cached = true, .int4 = true, .grouped = true});
}

}  // namespace infer
