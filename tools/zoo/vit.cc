/// ViT-B/16 (Dosovitskiy et al., 2020) as torchvision has it, with nn.MultiheadAttention in the
/// exporter's spelling: sequence first, Q, K and V cut by slices whose bounds come from a Shape.
#include <cmath>

#include "lib/support/strings.h"
#include "tools/zoo/spelling.h"

namespace infer {
namespace {

constexpr int64_t kVitWidth = 768, kVitHeads = 12, kVitHead = kVitWidth / kVitHeads, kPatch = 16;

/// class_token.expand(batch, -1, -1), where the exporter compares with -1 to keep extents.
Value* ClassToken(Net& net) {
  Value* ones =
      net.Op("ConstantOfShape", {net.List({3})}, {{"value", Tensor::Of<int64_t>({1}, {1})}});
  Value* keep = net.Mul(ones, net.Const(Tensor::Scalar<int64_t>(-1)));
  const Ints wanted{net.batch(), -1, -1};
  Value* shape =
      net.Op("Where", {net.Op("Equal", {net.List(wanted), keep}), ones, net.List(wanted)});
  return net.Op("Expand", {net.Weight({1, 1, kVitWidth}, 0.5), shape});
}

/// Thirds of the last axis: [0, third), [third, 2 third), [2 third, 3 third).
Values CutInThree(Net& net, Value* x) {
  Value* last = net.Op("Gather", {net.Op("Shape", {x}), net.List({-1})}, {{"axis", int64_t{0}}});
  Value* third = net.Op("Div", {net.Add(last, net.List({2})), net.List({3})});
  Values parts;
  Value* begin = net.List({0});
  for (int64_t i = 1; i <= 3; ++i) {
    Value* end = net.Mul(third, net.List({i}));
    parts.push_back(net.Op("Slice", {x, begin, end, net.List({-1})}));
    begin = end;
  }
  return parts;
}

Value* SelfAttention(Net& net, Value* x, int64_t tokens) {
  if (net.options().style != ZooStyle::kPytorch) {
    const Values parts = net.OpN(
        "Split", {net.Linear(x, 3 * kVitWidth), net.List({kVitWidth, kVitWidth, kVitWidth})}, 3,
        {{"axis", int64_t{2}}});
    Value* y = spelling::Attention(net, {parts[0], parts[1], parts[2], kVitHeads});
    y = net.Gemm(net.Reshape(y, {-1, kVitWidth}), kVitWidth);
    return net.Reshape(y, {net.batch(), tokens, kVitWidth});
  }
  const int64_t batch = net.batch();
  const Ints split{tokens, batch * kVitHeads, kVitHead};
  Value* qkv = net.Linear(net.Transpose(x, {1, 0, 2}), 3 * kVitWidth);
  const Values parts = CutInThree(net, qkv);
  Value* query = net.Transpose(net.Reshape(parts[0], split), {1, 0, 2});
  Value* key = net.Reshape(parts[1], split);
  Value* value = net.Transpose(net.Reshape(parts[2], split), {1, 0, 2});
  query = net.Op("Div", {query, net.JsonNumber(std::sqrt(static_cast<float>(kVitHead)))});
  Value* scores = net.Op("MatMul", {query, net.Transpose(key, {1, 2, 0})});
  Value* weights = net.Op("Softmax", {scores}, {{"axis", int64_t{-1}}});
  Value* context = net.Transpose(net.Op("MatMul", {weights, value}), {1, 0, 2});
  Value* y = net.Gemm(net.Reshape(context, {tokens * batch, kVitWidth}), kVitWidth);
  return net.Transpose(net.Reshape(y, {tokens, batch, kVitWidth}), {1, 0, 2});
}

}  // namespace

void BuildVitB16(Net& net) {
  const ZooOptions& o = net.options();
  if (o.batch == 0)
    return net.Fail(InvalidArgument("vit-b16 is exported for one batch size; give a number"));
  if (o.resolution % kPatch != 0)
    return net.Fail(InvalidArgument(Cat("vit-b16 has patches of ", kPatch, " pixels: resolution ",
                                        o.resolution, " is no multiple")));
  const int64_t patches = (o.resolution / kPatch) * (o.resolution / kPatch), tokens = patches + 1;
  Value* x = net.Conv(net.Image(), kVitWidth, kPatch,
                      {.stride = kPatch, .pad = 0, .bias = true, .gain = 1});
  x = net.Transpose(net.Reshape(x, {o.batch, kVitWidth, patches}), {0, 2, 1});
  x = net.Op("Concat", {ClassToken(net), x}, {{"axis", int64_t{1}}});
  x = net.Add(x, net.Weight({1, tokens, kVitWidth}, 0.1));
  for (int64_t i = 0; i < (o.layers ? o.layers : 12); ++i) {
    x = net.Add(SelfAttention(net, net.LayerNorm(x, 1e-6f), tokens), x);
    Value* y = spelling::GeluErf(net, net.Linear(net.LayerNorm(x, 1e-6f), 4 * kVitWidth));
    x = net.Add(x, net.Linear(y, kVitWidth));
  }
  x = net.LayerNorm(x, 1e-6f);
  x = net.Op("Gather", {x, net.Const(Tensor::Scalar<int64_t>(0))}, {{"axis", int64_t{1}}});
  net.Output(net.Gemm(x, 1000), "output");
}

}  // namespace infer
