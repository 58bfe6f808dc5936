/// Normalisations that are other operators written as one: import takes them apart, so that passes
/// and kernels see one form. EmbedLayerNormalization, SimplifiedLayerNormalization,
/// SkipLayerNormalization and SkipSimplifiedLayerNormalization of ONNX Runtime,
/// MeanVarianceNormalization, and the forms of BatchNormalization.
#include "lib/ops/norm/normalization_lifted.h"

#include "lib/ops/common.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

std::string InputOr(const NodeSpec& node, size_t i, std::string_view absent = "") {
  return i < node.inputs.size() ? node.inputs[i] : std::string(absent);
}
std::string OutputOf(const NodeSpec& node, size_t i) {
  return i < node.outputs.size() ? node.outputs[i] : std::string();
}

/// Unsupported when one of the outputs [first, last) is wanted: statistics are for training.
Status RefuseStatistics(const NodeSpec& node, size_t first, size_t last) {
  for (size_t i = first; i < last; ++i)
    if (!OutputOf(node, i).empty())
      return Unsupported(Cat(node.op, " '", node.name, "': output ", i,
                             " (statistics for training) is wanted; leave it out"));
  return {};
}

/// RMSNormalization by its older name.
Status LiftSimplifiedLayerNorm(NodeSpec node, int, LiftContext& out) {
  INFER_TRY(RefuseStatistics(node, 1, 2));
  node.op = "RMSNormalization";
  node.domain = "";
  node.outputs.resize(1);
  out.Emit(std::move(node));
  return {};
}

/// sum = input + skip [+ bias]; output = LayerNormalization(sum) or, simplified, RMSNormalization.
/// Operands: input, skip, gamma, [beta,] bias; the simplified form has no beta.
template <bool kSimplified>
Status LiftSkipLayerNorm(NodeSpec node, int, LiftContext& out) {
  INFER_TRY(RefuseStatistics(node, 1, 3));
  if (node.inputs.size() < 3) return InvalidModel(Cat(node.op, ": wants input, skip and gamma"));
  const std::string bias = InputOr(node, kSimplified ? 3 : 4);
  std::string sum = OutputOf(node, 3);
  if (sum.empty()) sum = out.Fresh("skip_sum");
  const std::string plain = bias.empty() ? sum : out.Fresh("skip_sum");
  out.Emit(MakeSpec("Add", node, {node.inputs[0], node.inputs[1]}, {plain}));
  if (!bias.empty()) out.Emit(MakeSpec("Add", node, {plain, bias}, {sum}));
  std::vector<std::string> operands = {sum, node.inputs[2]};
  if (const std::string beta = kSimplified ? "" : InputOr(node, 3); !beta.empty())
    operands.push_back(beta);
  // ONNX Runtime's default, unlike ONNX's 1e-5.
  const float epsilon = FloatAttrOr(node, "epsilon", 1e-12f);
  out.Emit(MakeSpec(kSimplified ? "RMSNormalization" : "LayerNormalization", node,
                    std::move(operands), {node.outputs[0]},
                    {{"axis", int64_t{-1}}, {"epsilon", epsilon}}));
  return {};
}

/// y = (x - mean) / (deviation + 1e-9) over the axes.
Status LiftMeanVariance(NodeSpec node, int, LiftContext& out) {
  const std::string &x = node.inputs[0], mean = out.Fresh("mvn_mean"),
                    centred = out.Fresh("mvn_centred"), square = out.Fresh("mvn_square"),
                    variance = out.Fresh("mvn_variance"), deviation = out.Fresh("mvn_deviation"),
                    divisor = out.Fresh("mvn_divisor");
  const std::string axes = out.Constant(Tensor::Int64s(IntsAttrOr(node, "axes", {0, 2, 3})));
  out.Emit(MakeSpec("ReduceMean", node, {x, axes}, {mean}));
  out.Emit(MakeSpec("Sub", node, {x, mean}, {centred}));
  out.Emit(MakeSpec("Mul", node, {centred, centred}, {square}));
  out.Emit(MakeSpec("ReduceMean", node, {square, axes}, {variance}));
  out.Emit(MakeSpec("Sqrt", node, {variance}, {deviation}));
  const std::string tiny = ScalarLike(1e-9, x, node, out);
  out.Emit(MakeSpec("Add", node, {deviation, tiny}, {divisor}));
  out.Emit(MakeSpec("Div", node, {centred, divisor}, {node.outputs[0]}));
  return {};
}

/// Words, positions (0, 1, ... where none are given) and segments looked up and added, then
/// normalized; mask_index counts each row of the mask, and is 0 where there is none.
Status LiftEmbedLayerNorm(NodeSpec node, int, LiftContext& out) {
  const std::string &ids = node.inputs[0], segments = InputOr(node, 1),
                    segment_table = InputOr(node, 4), mask = InputOr(node, 7),
                    positions = InputOr(node, 8);
  if (segments.empty() != segment_table.empty())
    return InvalidModel("segment_ids and segment_embedding must be given together");
  const std::string word = out.Fresh("word"), position = out.Fresh("position"),
                    wanted = OutputOf(node, 2);
  const auto shape_of_ids = [&](int64_t start) {
    std::string dim = out.Fresh("ids_extent");
    out.Emit(MakeSpec("Shape", node, {ids}, {dim}, {{"start", start}, {"end", start + 1}}));
    return dim;
  };
  out.Emit(MakeSpec("Gather", node, {node.inputs[2], ids}, {word}));
  if (positions.empty()) {
    const std::string zero = out.Constant(Tensor::Int64s({0}));
    out.Emit(MakeSpec("Slice", node, {node.inputs[3], zero, shape_of_ids(1), zero}, {position}));
  } else {
    out.Emit(MakeSpec("Gather", node, {node.inputs[3], positions}, {position}));
  }
  std::string sum = wanted.empty() ? out.Fresh("embedding_sum") : wanted;
  const std::string unsegmented = segments.empty() ? sum : out.Fresh("embedding_sum");
  out.Emit(MakeSpec("Add", node, {word, position}, {unsegmented}));
  if (!segments.empty()) {
    const std::string segment = out.Fresh("segment");
    out.Emit(MakeSpec("Gather", node, {segment_table, segments}, {segment}));
    out.Emit(MakeSpec("Add", node, {unsegmented, segment}, {sum}));
  }
  out.Emit(MakeSpec("LayerNormalization", node, {sum, node.inputs[5], node.inputs[6]},
                    {node.outputs[0]},
                    {{"axis", int64_t{-1}}, {"epsilon", FloatAttrOr(node, "epsilon", 1e-12f)}}));
  const std::string count = OutputOf(node, 1);
  if (count.empty()) return {};
  if (mask.empty()) {
    const std::string zero = out.Constant(Tensor::Scalar<int32_t>(0));
    out.Emit(MakeSpec("Expand", node, {zero, shape_of_ids(0)}, {count}));
  } else {
    const std::string axis = out.Constant(Tensor::Int64s({1}));
    out.Emit(MakeSpec("ReduceSum", node, {mask, axis}, {count}, {{"keepdims", int64_t{0}}}));
  }
  return {};
}

template <bool kSimplified>
OpDef SkipNorm(std::string_view name, std::string_view doc) {
  std::vector<ParamDef> inputs = {{"input", "T"}, {"skip", "T"}, {"gamma", "T"}};
  if (!kSimplified) inputs.push_back({"beta", "T", Arity::kOptional});
  inputs.push_back({"bias", "T", Arity::kOptional});
  return {.name = name,
          .domain = kMicrosoft,
          .doc = doc,
          .traits = Trait::kNormalization,
          .inputs = std::move(inputs),
          .outputs = {{"output", "T"},
                      {"mean", "U", Arity::kOptional},
                      {"inv_std_var", "U", Arity::kOptional},
                      {"input_skip_bias_sum", "T", Arity::kOptional}},
          .attrs = {{"epsilon", AttrKind::kFloat, 1e-12f}},
          .constraints = {{"T", kFloatsBF16}, {"U", TypeSet(DType::kF32)}},
          .lift = LiftSkipLayerNorm<kSimplified>};
}

/// With training_mode the statistics are the batch's own, which some networks use for their
/// weights: Y of them, and the running ones drawn towards them.
Status LiftBatchStatistics(NodeSpec node, LiftContext& out) {
  const ValueType* type = node.inputs.size() < 5 ? nullptr : out.Type(node.inputs[0]);
  if (!type || !type->is_tensor() || !type->tensor().shape.has_rank())
    return Unsupported(
        Cat("BatchNormalization '", node.name, "': training_mode=1 needs to know the rank of X"));
  std::vector<int64_t> others = {0};
  for (int64_t i = 2; i < type->tensor().shape.rank(); ++i) others.push_back(i);
  const std::string axes = out.Constant(Tensor::Int64s(others));
  const auto emit = [&](std::string_view op, std::vector<std::string> inputs, AttrMap attrs = {}) {
    std::string name = out.Fresh(Cat(node.outputs[0], "_batch"));
    out.Emit(MakeSpec(op, node, std::move(inputs), {name}, std::move(attrs)));
    return name;
  };
  const std::string& x = node.inputs[0];
  const std::string mean = emit("ReduceMean", {x, axes}), centred = emit("Sub", {x, mean});
  const std::string variance = emit("ReduceMean", {emit("Mul", {centred, centred}), axes});
  const std::string flat = out.Constant(Tensor::Int64s({-1}));
  const std::string batch[] = {emit("Reshape", {mean, flat}), emit("Reshape", {variance, flat})};
  const float momentum = FloatAttrOr(node, "momentum", 0.9f);
  for (size_t i = 1; i < std::min<size_t>(node.outputs.size(), 3); ++i) {
    if (node.outputs[i].empty()) continue;
    const std::string& running = node.inputs[2 + i];
    const std::string kept = emit("Mul", {running, ScalarLike(momentum, running, node, out)});
    const std::string drawn =
        emit("Mul", {batch[i - 1], ScalarLike(1 - momentum, batch[i - 1], node, out)});
    out.Emit(MakeSpec("Add", node, {kept, drawn}, {node.outputs[i]}));
  }
  node.inputs[3] = batch[0];
  node.inputs[4] = batch[1];
  node.outputs.resize(1);
  DropAttr(node, "training_mode");
  out.Emit(std::move(node));
  return {};
}

}  // namespace

/// Opset < 14: the further outputs of training are the statistics as they stand; < 9: spatial=1 and
/// is_test=1 are the meaning of inference.
Status LiftBatchNorm(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 9 && IntAttrOr(node, "spatial", 1) != 1)
    return Unsupported(
        Cat("BatchNormalization '", node.name, "': spatial=0 (one mean per element)"));
  for (std::string_view attr : {"spatial", "is_test", "consumed_inputs"})
    if (opset < 9) DropAttr(node, attr);
  if (opset >= 14) {
    if (IntAttrOr(node, "training_mode", 0) != 0) return LiftBatchStatistics(std::move(node), out);
  } else {
    for (size_t i = 1; i < node.outputs.size() && i < 5 && node.inputs.size() == 5; ++i)
      if (!node.outputs[i].empty())
        out.Emit(MakeSpec("Identity", node, {node.inputs[i % 2 == 1 ? 3 : 4]}, {node.outputs[i]}));
    node.outputs.resize(1);
  }
  out.Emit(std::move(node));
  return {};
}

std::span<const OpDef> LiftedNormalizationOps() {
  static const OpDef ops[] = {
      {
          .name = "MeanVarianceNormalization",
          .doc = "Mean 0 and deviation 1 over axes; becomes its parts on import.",
          .traits = Trait::kNormalization,
          .since = 9,
          .versions = {9, 13},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"axes", AttrKind::kInts, std::vector<int64_t>{0, 2, 3}}},
          .constraints = {{"T", kFloatsBF16}},
          .lift = LiftMeanVariance,
      },
      {
          .name = "SimplifiedLayerNormalization",
          .doc = "ONNX Runtime's name of RMSNormalization, which it becomes on import.",
          .traits = Trait::kNormalization,
          .inputs = {{"X", "T"}, {"scale", "V"}},
          .outputs = {{"Y", "V"}, {"inv_std_var", "U", Arity::kOptional}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{-1}},
                    {"epsilon", AttrKind::kFloat, 1e-5f},
                    {"stash_type", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T", kFloatsBF16}, {"U", kFloatsBF16}, {"V", kFloatsBF16}},
          .lift = LiftSimplifiedLayerNorm,
      },
      {
          .name = "EmbedLayerNormalization",
          .domain = kMicrosoft,
          .doc = "LayerNormalization of a sum of embeddings; becomes its parts on import.",
          .traits = Trait::kBlock,
          .inputs = {{"input_ids", "T1"},
                     {"segment_ids", "T1", Arity::kOptional},
                     {"word_embedding", "T"},
                     {"position_embedding", "T"},
                     {"segment_embedding", "T", Arity::kOptional},
                     {"gamma", "T"},
                     {"beta", "T"},
                     {"mask", "T1", Arity::kOptional},
                     {"position_ids", "T1", Arity::kOptional}},
          .outputs = {{"output", "T"},
                      {"mask_index", "T1", Arity::kOptional},
                      {"embedding_sum", "T", Arity::kOptional}},
          .attrs = {{"epsilon", AttrKind::kFloat, 1e-12f}, {"mask_index_type", AttrKind::kInt}},
          .constraints = {{"T", kFloats}, {"T1", TypeSet(DType::kI32)}},
          .lift = LiftEmbedLayerNorm,
      },
      SkipNorm<false>("SkipLayerNormalization",
                      "LayerNormalization of a sum; becomes its parts on import."),
      SkipNorm<true>("SkipSimplifiedLayerNormalization",
                     "RMSNormalization of a sum; becomes its parts on import."),
  };
  return ops;
}

}  // namespace infer
