/// Decoders of the Llama family (Touvron et al., 2023) with weights of 4 bits, as ONNX Runtime's
/// generation package has them: MatMulNBits for every product, queries, keys and values in one,
/// GroupQueryAttention that rotates them and extends caches of a fixed length, the root mean square
/// normalization as transformers' exports spell it. One graph for prompts and for steps; scores are
/// those behind the last token.
#include <cmath>

#include "lib/support/strings.h"
#include "tools/zoo/net.h"

namespace infer {
namespace {

struct LlamaForm {
  int64_t width, layers, heads, groups, head, inner, vocabulary, positions;
  double theta;         ///< base of the rotary frequencies
  float epsilon;        ///< of normalizations
  bool biased = false;  ///< queries, keys and values have biases
};

/// TinyLlama 1.1B and Qwen2 0.5B, by their published configurations.
constexpr LlamaForm kTinyLlama = {2048, 22, 32, 4, 64, 5632, 32000, 2048, 1e4, 1e-5f};
constexpr LlamaForm kQwen2Small = {896, 24, 14, 2, 64, 4864, 151936, 32768, 1e6, 1e-6f, true};

/// x / sqrt(mean(x^2) + epsilon) * weight.
Value* RmsNorm(Net& net, Value* x, float epsilon) {
  Value* squares = net.Op("Pow", {x, net.JsonNumber(2)});
  Value* mean = net.Op("ReduceMean", {squares, net.List({-1})}, {{"keepdims", int64_t{1}}});
  Value* root = net.Op("Sqrt", {net.Add(mean, net.JsonNumber(epsilon))});
  Value* normal = net.Mul(x, net.Op("Div", {net.JsonNumber(1), root}));
  return net.Mul(net.Weight({net.Extent(x, -1)}, 0.05, 1), normal);
}

/// cos or sin of position * theta^(-2i / head), [positions, head / 2].
Value* RotaryTable(Net& net, const LlamaForm& form, double (*function)(double)) {
  const int64_t half = form.head / 2, positions = std::min(form.positions, net.options().past);
  Tensor table(DType::kF32, {positions, half});
  const auto to = table.mutable_data<float>();
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(form.theta, -2.0 * static_cast<double>(i) / static_cast<double>(form.head));
    for (int64_t p = 0; p < positions; ++p)
      to[static_cast<size_t>(p * half + i)] =
          static_cast<float>(function(static_cast<double>(p) * frequency));
  }
  return net.Const(std::move(table));
}

/// Inputs and tables that all layers read.
struct Shared {
  Value* last;   ///< position of the last token, by sample
  Value* total;  ///< length of the caches
  Value* cos;
  Value* sin;
};

void Build(Net& net, const LlamaForm& form) {
  const int64_t length = net.options().past;
  if (length < 1 || length > form.positions)
    return net.Fail(InvalidArgument(
        Cat("caches have 1 to ", form.positions, " tokens, ", length, " are asked for")));
  const int64_t sequence = net.options().sequence;
  const Dim tokens = sequence > 0 ? Dim(sequence) : Dim::Symbol("sequence");
  Value* ids = net.Input("input_ids", DType::kI64, {net.BatchDim(), tokens});
  const Shared shared = {net.Input("seqlens_k", DType::kI32, {net.BatchDim()}),
                         net.Const(Tensor::Of<int32_t>({1}, {static_cast<int32_t>(length)})),
                         RotaryTable(net, form, std::cos), RotaryTable(net, form, std::sin)};
  const int64_t layers = net.options().layers ? net.options().layers : form.layers;
  std::vector<Values> caches;
  for (int64_t i = 0; i < layers; ++i) {
    caches.emplace_back();
    for (const char* part : {".key", ".value"})
      caches.back().push_back(net.Input(Cat("past_key_values.", i, part), DType::kF32,
                                        {net.BatchDim(), form.groups, length, form.head}));
  }
  const int64_t qkv = (form.heads + 2 * form.groups) * form.head;
  Value* x = net.EmbeddingInt4(ids, form.vocabulary, form.width, 0.5);
  for (int64_t i = 0; i < layers; ++i) {
    Values& cache = caches[static_cast<size_t>(i)];
    Value* packed = net.LinearInt4(RmsNorm(net, x, form.epsilon), qkv, 1, form.biased);
    const Values attended = net.OpN(
        "com.microsoft::GroupQueryAttention",
        {packed, nullptr, nullptr, cache[0], cache[1], shared.last, shared.total, shared.cos,
         shared.sin},
        3, {{"num_heads", form.heads}, {"kv_num_heads", form.groups}, {"do_rotary", int64_t{1}}});
    cache.assign(attended.begin() + 1, attended.end());
    x = net.Add(x, net.LinearInt4(attended[0], form.width, 0.1, false));
    Value* y = RmsNorm(net, x, form.epsilon);
    Value* gate = net.LinearInt4(y, form.inner, 1, false);
    gate = net.Mul(gate, net.Op("Sigmoid", {gate}));
    Value* inner = net.Mul(gate, net.LinearInt4(y, form.inner, 1, false));
    x = net.Add(x, net.LinearInt4(inner, form.width, 0.1, false));
  }
  // Of a prompt the scores behind its last token are what is read.
  x = net.Op("Gather", {x, net.List({-1})}, {{"axis", int64_t{1}}});
  net.Output(net.LinearInt4(RmsNorm(net, x, form.epsilon), form.vocabulary, 1, false), "logits");
  for (size_t i = 0; i < caches.size(); ++i) {
    net.Output(caches[i][0], Cat("present.", i, ".key"));
    net.Output(caches[i][1], Cat("present.", i, ".value"));
  }
}

}  // namespace

void BuildTinyLlamaInt4(Net& net) { Build(net, kTinyLlama); }
void BuildQwen2SmallInt4(Net& net) { Build(net, kQwen2Small); }

}  // namespace infer
