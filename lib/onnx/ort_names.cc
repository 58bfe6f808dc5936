#include "lib/onnx/ort_names.h"

#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"

namespace infer::onnx_io {
namespace {

using Form = std::optional<NodeSpec> (*)(const OpCall& call, NodeSpec node, const OrtContext&,
                                         LiftContext& out);

enum class OrtUse : uint8_t {
  kFaster,       ///< whatever the opset; also what ONNX Runtime makes by itself while it loads
  kSparesOpset,  ///< as fast: only where the opset would have to rise
  kAskedOpset,   ///< slower than the standard operator, faster than its parts: where the user wants
                 ///< an opset that lacks it
};

struct OrtRow {
  std::string_view domain, op;
  OrtUse use;
  Form form;
};

NodeSpec Named(NodeSpec node, std::string_view domain, std::string_view op, AttrMap attrs) {
  node.domain = domain;
  node.op = op;
  node.attrs = std::move(attrs);
  return node;
}

/// ONNX Runtime's own operators have kernels for f32 on every device.
bool IsF32(const OpCall& call) {
  return call.has_input(0) && call.type(0).is_tensor() && call.dtype(0) == DType::kF32;
}
int RankOf(const OpCall& call, size_t i) {
  return call.has_input(i) && call.type(i).is_tensor() && call.shape(i).has_rank()
             ? call.shape(i).rank()
             : -1;
}
bool Wants(const NodeSpec& node, size_t output) {
  return output < node.outputs.size() && !node.outputs[output].empty();
}
bool Has(const NodeSpec& node, size_t input) {
  return input < node.inputs.size() && !node.inputs[input].empty();
}

std::optional<NodeSpec> Gelu(const OpCall& call, NodeSpec node, const OrtContext&, LiftContext&) {
  const bool tanh = call.Str("approximate") == "tanh";
  return Named(std::move(node), kMicrosoft, tanh ? "FastGelu" : "Gelu", {});
}

std::optional<NodeSpec> QuickGelu(const OpCall& call, NodeSpec node, const OrtContext&,
                                  LiftContext&) {
  const float alpha = call.def().FindAttr("alpha") ? call.Float("alpha") : 1.0f;
  return Named(std::move(node), kMicrosoft, "QuickGelu", {{"alpha", alpha}});
}

/// Before opset 17 the standard has no LayerNormalization; ONNX Runtime has it in any.
std::optional<NodeSpec> LayerNorm(const OpCall& call, NodeSpec node, const OrtContext&,
                                  LiftContext&) {
  if (Wants(node, 1) || Wants(node, 2)) return std::nullopt;
  AttrMap attrs = {{"axis", call.Int("axis")}, {"epsilon", call.Float("epsilon")}};
  return Named(std::move(node), "", "LayerNormalization", std::move(attrs));
}

std::optional<NodeSpec> RmsNorm(const OpCall& call, NodeSpec node, const OrtContext&,
                                LiftContext&) {
  if (call.dtype(1) != DType::kF32) return std::nullopt;
  AttrMap attrs = {{"axis", call.Int("axis")},
                   {"epsilon", call.Float("epsilon")},
                   {"stash_type", call.Int("stash_type")}};
  return Named(std::move(node), "", "SimplifiedLayerNormalization", std::move(attrs));
}

/// ONNX Runtime makes SkipLayerNormalization of an Add that only the norm reads. Since 1.30 (1.24
/// not yet) that takes 6 times the time of sum and norm, so that the sum is a Sum, of which it
/// makes nothing. Before, SkipLayerNormalization, which takes rows of two or three axes. Where the
/// sum is wanted, too, nodes.
std::optional<NodeSpec> SkipNorm(const OpCall& call, NodeSpec node, const OrtContext& context,
                                 LiftContext& out) {
  const int rank = RankOf(call, 0);
  if (Wants(node, 1) || (rank != 2 && rank != 3)) return std::nullopt;
  node.outputs.resize(1);
  constexpr int kLastFast = 24, kSumSince = 8;
  if ((context.ort_minor == 0 || context.ort_minor > kLastFast) && context.opset >= kSumSince) {
    std::string sum = node.inputs[0];
    if (Has(node, 4)) {
      std::string biased = out.Fresh("biased");
      out.Emit(MakeSpec("Add", node, {sum, node.inputs[4]}, {biased}));
      sum = std::move(biased);
    }
    const std::string both = out.Fresh("skip_sum");
    out.Emit(MakeSpec("Sum", node, {sum, node.inputs[1]}, {both}));
    node.inputs = {both, node.inputs[2], node.inputs[3]};
    return Named(std::move(node), "", "LayerNormalization",
                 {{"axis", int64_t{-1}}, {"epsilon", call.Float("epsilon")}});
  }
  return Named(std::move(node), kMicrosoft, "SkipLayerNormalization",
               {{"epsilon", call.Float("epsilon")}});
}

/// Only with positions: the other form has no look-up.
std::optional<NodeSpec> Rotary(const OpCall& call, NodeSpec node, const OrtContext&, LiftContext&) {
  if (!Has(node, 3) || RankOf(call, 1) != 2) return std::nullopt;
  AttrMap attrs = {{"interleaved", call.Int("interleaved")},
                   {"rotary_embedding_dim", call.Int("rotary_embedding_dim")}};
  if (call.HasAttr("num_heads")) attrs["num_heads"] = call.Int("num_heads");
  node.inputs = {node.inputs[0], node.inputs[3], node.inputs[1], node.inputs[2]};
  return Named(std::move(node), kMicrosoft, "RotaryEmbedding", std::move(attrs));
}

/// ONNX Runtime runs GroupNormalization as ten nodes; this is one kernel and four cheap nodes.
std::optional<NodeSpec> GroupNorm(const OpCall& call, NodeSpec node, const OrtContext& context,
                                  LiftContext& out) {
  const int rank = RankOf(call, 0);
  if (rank < 3 || context.opset < 5) return std::nullopt;
  const int64_t groups = call.Int("num_groups");
  const auto emit = [&](std::string_view op, std::vector<std::string> inputs, AttrMap attrs = {}) {
    std::string result = out.Fresh("group_norm");
    out.Emit(MakeSpec(op, node, std::move(inputs), {result}, std::move(attrs)));
    return result;
  };
  const auto dims = [](int64_t n) { return Dims{n}; };
  Tensor ones(DType::kF32, dims(groups)), zeros(DType::kF32, dims(groups));
  for (int64_t i = 0; i < groups; ++i) {
    ones.Set(i, 1);
    zeros.Set(i, 0);
  }
  std::vector<int64_t> per_channel(static_cast<size_t>(rank - 1), 1);
  per_channel[0] = -1;
  const std::string channels = out.Constant(Tensor::Int64s(per_channel));
  const std::string shape = emit("Shape", {node.inputs[0]});
  const std::string grouped =
      emit("Reshape", {node.inputs[0], out.Constant(Tensor::Int64s({0, groups, -1}))});
  const std::string normal =
      emit("InstanceNormalization",
           {grouped, out.Constant(std::move(ones)), out.Constant(std::move(zeros))},
           {{"epsilon", call.Float("epsilon")}});
  const std::string back = emit("Reshape", {normal, shape});
  const std::string scale = emit("Reshape", {node.inputs[1], channels});
  const std::string scaled = emit("Mul", {back, scale});
  const std::string bias = emit("Reshape", {node.inputs[2], channels});
  node.inputs = {scaled, bias};
  return Named(std::move(node), "", "Add", {});
}

/// The queries' axis, from the end, of operand 0.
const Dim& Queries(const OpCall& call) { return call.shape(0)[-2]; }

std::optional<NodeSpec> AttentionWithRows(const OpCall& call, NodeSpec node, LiftContext& out) {
  if (!Has(node, 3)) return std::nullopt;
  const int rank = RankOf(call, 0), mask_rank = RankOf(call, 3);
  if (rank < 3 || mask_rank < 2 || call.shape(3)[-2].KnownEqual(Queries(call))) return std::nullopt;
  const std::string length = out.Fresh("queries"), shape = out.Fresh("mask_rows"),
                    mask = out.Fresh("mask");
  out.Emit(MakeSpec("Shape", node, {node.inputs[0]}, {length},
                    {{"start", int64_t{rank - 2}}, {"end", int64_t{rank - 1}}}));
  out.Emit(MakeSpec("Concat", node, {length, out.Constant(Tensor::Int64s({1}))}, {shape},
                    {{"axis", int64_t{0}}}));
  out.Emit(MakeSpec("Expand", node, {node.inputs[3], shape}, {mask}));
  node.inputs[3] = mask;
  return node;
}

/// Whether a query has keys, as [batch, queries, 1], from a mask of one head.
std::string WithoutKeys(const std::string& mask, const NodeSpec& node, int64_t opset,
                        LiftContext& out) {
  const auto emit = [&](std::string_view op, std::vector<std::string> inputs, AttrMap attrs) {
    std::string result = out.Fresh("without_keys");
    out.Emit(MakeSpec(op, node, std::move(inputs), {result}, std::move(attrs)));
    return result;
  };
  const auto along = [&](std::string_view op, const std::string& x, int64_t axis, int64_t since) {
    if (opset < since) return emit(op, {x}, {{"axes", std::vector<int64_t>{axis}}});
    return emit(op, {x, out.Constant(Tensor::Int64s({axis}))}, {});
  };
  const std::string most = along("ReduceMax", mask, -1, 18);
  return along("Squeeze", emit("IsInf", {most}, {{"detect_positive", int64_t{0}}}), 1, 13);
}

/// No cache, no counts of keys, no further results, and scores that only a mask changes.
bool IsPlainAttention(const OpCall& call, const NodeSpec& node) {
  for (const size_t i : {size_t{4}, size_t{5}, size_t{6}})
    if (Has(node, i)) return false;
  for (const size_t i : {size_t{1}, size_t{2}, size_t{3}})
    if (Wants(node, i)) return false;
  return call.Float("softcap") == 0 && !call.HasAttr("softmax_precision") &&
         call.Int("left_window_size") < 0 && call.Int("right_window_size") < 0;
}

/// Heads that have an axis of their own: FusedMatMul has transposition and scale, as ONNX Runtime
/// makes it of the nodes. MultiHeadAttention would want the axis folded.
std::optional<NodeSpec> AttentionOfHeads(const OpCall& call, const NodeSpec& node,
                                         const OrtContext& context, LiftContext& out) {
  if (RankOf(call, 1) != 4 || RankOf(call, 2) != 4 || !IsPlainAttention(call, node) ||
      !call.shape(0)[1].KnownEqual(call.shape(1)[1]) || call.Int("is_causal") != 0 ||
      (Has(node, 3) &&
       (context.zero_without_keys || call.dtype(3) != DType::kF32 || !call.shape(3).has_rank() ||
        call.shape(3).rank() < 1 || !call.shape(3)[-1].KnownEqual(call.shape(1)[-2]))))
    return std::nullopt;
  const Dim& size = call.shape(0)[-1];
  if (!call.HasAttr("scale") && (!size.is_static() || size.value() < 1)) return std::nullopt;
  const float scale = call.HasAttr("scale")
                          ? call.Float("scale")
                          : static_cast<float>(1 / std::sqrt(static_cast<double>(size.value())));
  std::string scores = out.Fresh("scores");
  NodeSpec products = MakeSpec("FusedMatMul", node, {node.inputs[0], node.inputs[1]}, {scores},
                               {{"transB", int64_t{1}}, {"alpha", scale}});
  products.domain = kMicrosoft;
  out.Emit(std::move(products));
  if (Has(node, 3)) {
    const std::string masked = out.Fresh("masked");
    out.Emit(MakeSpec("Add", node, {scores, node.inputs[3]}, {masked}));
    scores = masked;
  }
  const std::string weights = out.Fresh("weights");
  out.Emit(MakeSpec("Softmax", node, {scores}, {weights}, {{"axis", int64_t{3}}}));
  return MakeSpec("MatMul", node, {weights, node.inputs[2]}, {node.outputs[0]});
}

std::optional<NodeSpec> Attention(const OpCall& call, NodeSpec node, const OrtContext& context,
                                  LiftContext& out) {
  if (!context.lacks) return AttentionWithRows(call, std::move(node), out);
  if (RankOf(call, 0) == 4) return AttentionOfHeads(call, node, context, out);
  const bool three = RankOf(call, 0) == 3 && RankOf(call, 1) == 3 && RankOf(call, 2) == 3;
  if (!three || call.Int("q_num_heads") != call.Int("kv_num_heads") ||
      !IsPlainAttention(call, node))
    return std::nullopt;
  const bool causal = call.Int("is_causal") != 0;
  if (causal && !Queries(call).KnownEqual(call.shape(1)[-2])) return std::nullopt;
  AttrMap attrs = {{"num_heads", call.Int("q_num_heads")},
                   {"unidirectional", int64_t{causal ? 1 : 0}}};
  if (call.HasAttr("scale")) attrs["scale"] = call.Float("scale");
  std::vector<std::string> inputs(node.inputs.begin(), node.inputs.begin() + 3);
  if (Has(node, 3)) {
    const bool fits = RankOf(call, 3) == 4 && call.dtype(3) == DType::kF32 &&
                      call.shape(3)[-2].KnownEqual(Queries(call)) &&
                      call.shape(3)[-1].KnownEqual(call.shape(1)[-2]);
    if (!fits) return std::nullopt;
    if (context.zero_without_keys &&
        (causal || context.opset < 10 || !call.shape(3)[1].KnownEqual(1)))
      return std::nullopt;
    inputs.insert(inputs.end(), {"", "", node.inputs[3]});
  }
  node.inputs = std::move(inputs);
  node.outputs.resize(1);
  node = Named(std::move(node), kMicrosoft, "MultiHeadAttention", std::move(attrs));
  if (!context.zero_without_keys) return node;
  const std::string clear = WithoutKeys(node.inputs.back(), node, context.opset, out);
  NodeSpec result = MakeSpec(
      "Where", node, {clear, out.Constant(Tensor::Zeros(DType::kF32, {})), out.Fresh("attended")},
      {node.outputs[0]});
  node.outputs[0] = result.inputs[2];
  out.Emit(std::move(node));
  return result;
}

constexpr OrtRow kOrtRows[] = {
    {"", "Gelu", OrtUse::kSparesOpset, Gelu},
    {"", "LayerNormalization", OrtUse::kSparesOpset, LayerNorm},
    {"", "RMSNormalization", OrtUse::kSparesOpset, RmsNorm},
    {"", "RotaryEmbedding", OrtUse::kSparesOpset, Rotary},
    {"", "GroupNormalization", OrtUse::kFaster, GroupNorm},
    {"", "Attention", OrtUse::kAskedOpset, Attention},
    {"infer", "SkipLayerNormalization", OrtUse::kFaster, SkipNorm},
    {"infer", "SkipBiasLayerNormalization", OrtUse::kFaster, SkipNorm},
    {"", "Swish", OrtUse::kFaster, QuickGelu},
    {"infer", "Silu", OrtUse::kFaster, QuickGelu},
    {"infer", "QuickGelu", OrtUse::kFaster, QuickGelu},
};

}  // namespace

NodeSpec WithMaskOffTheEdge(DType mask, NodeSpec node, LiftContext& out) {
  Tensor factor(mask, {});
  factor.Set(0, mask == DType::kF16    ? 0x1.ffcp-1
                : mask == DType::kBF16 ? 0x1.fep-1
                                       : 0x1.fffffep-1);
  const std::string moved = out.Fresh("mask");
  out.Emit(MakeSpec("Mul", node, {node.inputs[3], out.Constant(std::move(factor))}, {moved}));
  node.inputs[3] = moved;
  return node;
}

std::optional<NodeSpec> WithMaskRows(const OpCall& call, const NodeSpec& node, LiftContext& out) {
  if (!node.domain.empty() || node.op != "Attention") return std::nullopt;
  return AttentionWithRows(call, node, out);
}

std::optional<NodeSpec> OrtForm(const OpCall& call, const NodeSpec& node, const OrtContext& context,
                                LiftContext& out) {
  const auto row = std::find_if(std::begin(kOrtRows), std::end(kOrtRows), [&](const OrtRow& r) {
    return r.domain == node.domain && r.op == node.op;
  });
  if (row == std::end(kOrtRows) || !IsF32(call)) return std::nullopt;
  if (row->use == OrtUse::kSparesOpset && !context.lacks) return std::nullopt;
  if (row->use == OrtUse::kAskedOpset && context.lacks && !context.opset_asked) return std::nullopt;
  return row->form(call, node, context, out);
}

}  // namespace infer::onnx_io
