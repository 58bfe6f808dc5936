#include <algorithm>
#include <cmath>

#include "lib/ir/ort_kernels.h"
#include "lib/support/strings.h"
#include "quant/scheme/names.h"
#include "quant/scheme/qdq_writer.h"

namespace infer {
namespace {

/// Bias codes stay within 2^30, so that the sum of products has room in int32.
constexpr double kBiasReach = 0x1p30;
constexpr int kNewestOrt = 99;  // whatever the minor version: a file is read by newer ones, too

}  // namespace

QdqWriter::BiasPlace QdqWriter::PlaceOfBias(const PlannedNode& p, int64_t channels) {
  if (const auto operand = BiasOperand(*p.node)) return {p.node, *operand};
  if (!p.bias || !p.node->input(1)->is_constant()) return {};
  if (AddOfOrtGemm(*p.node, kNewestOrt) != p.bias) return {};
  const size_t at = p.bias->input(0) == p.node->output(0) ? 1 : 0;
  if (p.bias->input(at)->constant()->num_elements() != channels) return {};
  return {p.bias, at};
}

/// The codes that an algorithm chose for weights `w`, where their scales are not below those that
/// the bias needs.
const RoundedCodes* QdqWriter::RoundedFor(const Node& node, const Tensor& w,
                                          const QuantParams& plain) const {
  const auto it = scheme_.rounded.find(node.output(0)->name());
  if (it == scheme_.rounded.end()) return nullptr;
  const QuantParams& p = it->second.params;
  const bool fits =
      p.axis == plain.axis && p.scale.size() == plain.scale.size() && p.dtype == plain.dtype &&
      it->second.codes.dims() == w.dims() && WeightLayoutOf(node)->alpha == 1.0f &&
      std::equal(p.scale.begin(), p.scale.end(), plain.scale.begin(), std::greater_equal<>());
  return fits ? &it->second : nullptr;
}

/// The bias per channel with Gemm's beta; empty when there is none.
std::vector<float> QdqWriter::BiasOf(const PlannedNode& p, const BiasPlace& at, int64_t channels) {
  if (!at.node) return {};
  std::vector<float> b = at.node->input(at.operand)->constant()->ToFloats();
  if (b.size() == 1) b.resize(static_cast<size_t>(channels), b[0]);
  if (const float beta = WeightLayoutOf(*p.node)->beta; beta != 1)
    for (float& v : b) v *= beta;
  return b;
}

Result<Value*> QdqWriter::WriteBias(const std::string& name, const std::vector<float>& bias,
                                    float x_scale, const QuantParams& w) {
  const auto n = static_cast<int64_t>(bias.size());
  const bool per_channel = w.axis >= 0;  // opsets below 13 have one scale only
  std::vector<float> scales;
  for (const float weight_scale : w.scale) scales.push_back(x_scale * weight_scale);
  Tensor q(DType::kI32, {n});
  for (size_t c = 0; c < bias.size(); ++c) {
    const double scale = scales[per_channel ? c : 0];
    const double code = std::isfinite(bias[c]) ? static_cast<double>(bias[c]) / scale : 0.0;
    q.SetInt(static_cast<int64_t>(c),
             static_cast<int64_t>(std::nearbyint(std::clamp(code, -kBiasReach, kBiasReach))));
  }
  Value* codes = editor_.AddConstant(std::move(q), name + "_quantized");
  Tensor scale = per_channel ? Tensor::Of<float>({n}, scales) : Tensor::Scalar(scales[0]);
  // A zero point of 0 may be left out, and integer kernels expect that for the bias.
  const Scaled s{Constant(std::move(scale), NameBeside(name, "scale")), nullptr};
  return AddDequantize(codes, s, per_channel ? 0 : -1, NameBeside(name, "dequantized"));
}

/// Parameters of weights whose scales are wide enough for the bias in int32.
QuantParams QdqWriter::WidenedForBias(const Tensor& w, const QuantParams& plain, int axis,
                                      std::span<const float> bias, float x_scale) const {
  std::vector<double> least(plain.scale.size(), 0.0);
  for (size_t c = 0; c < bias.size(); ++c) {
    double& l = least[axis < 0 ? 0 : c];
    const double reach = std::fabs(static_cast<double>(bias[c])) / static_cast<double>(x_scale);
    if (std::isfinite(reach)) l = std::max(l, reach / kBiasReach);
  }
  return ChooseWeightParams(w, axis, scheme_.weights, least);
}

/// DequantizeLinear of the codes of `original`; of equal ones once, where they are `shared`.
Result<Value*> QdqWriter::DequantizedOf(const Value* original, Tensor codes,
                                        const QuantParams& params, int axis, bool shared) {
  for (auto [it, end] = weights_.equal_range(original); it != end && shared; ++it)
    if (it->second.params == params) return it->second.dequantized;
  const std::string& name = original->name();
  Value* const constant = editor_.AddConstant(std::move(codes), name + "_quantized");
  INFER_ASSIGN(Value * made, AddDequantize(constant, ParamsOf(name, params), axis,
                                           NameBeside(name, "dequantized")));
  if (shared) weights_.emplace(original, SharedWeights{params, made});
  return made;
}

Status QdqWriter::WriteLayerWeights(const PlannedNode& p, QuantizedLayer& layer) {
  Node& node = *p.node;
  const auto operand = WeightOperand(*p.op, node);
  if (!operand) return {};
  Value* const original = node.input(*operand);
  Tensor w = *original->constant();
  const WeightLayout layout = *WeightLayoutOf(node);
  if (layout.alpha != 1.0f) {
    w = w.Clone();
    for (float& v : w.mutable_data<float>()) v *= layout.alpha;
  }
  // Channels of the result; the bias has one element for each.
  const int channel_axis = WeightAxis(node, *operand);
  const int axis = scheme_.per_channel ? channel_axis : -1;
  int64_t channels = channel_axis >= 0 ? w.dim(channel_axis) : 1;
  if (layout.outputs_in_groups) channels = layout.OutputChannels(w.dims());
  const BiasPlace place = PlaceOfBias(p, channels);
  const std::vector<float> bias = BiasOf(p, place, channels);
  const Value* x = node.input(*operand == 0 ? 1 : 0);
  const float x_scale = ScaleOf(x);
  // No kernel sums 16-bit activations in int32, and their fine scale would leave int32 too small
  // for many a bias: it stays f32.
  bool integer_bias = !bias.empty() && BitWidth(scheme_.activations.dtype) == 8;
  QuantParams params = ChooseWeightParams(w, axis, scheme_.weights);
  if (integer_bias) {
    QuantParams wide = WidenedForBias(w, params, axis, bias, x_scale);
    int64_t wider = 0;
    for (size_t c = 0; c < wide.scale.size(); ++c) wider += wide.scale[c] > params.scale[c] ? 1 : 0;
    // The bias of an Add may stay f32, at no cost for the weights.
    integer_bias = place.node == &node || wider == 0;
    if (integer_bias) {
      layer.widened_channels += wider;
      params = std::move(wide);
    }
  }
  const RoundedCodes* const rounded = RoundedFor(node, w, params);
  if (rounded) params = rounded->params;
  layer.per_channel = axis >= 0;
  layer.weight_bytes_before += original->constant()->byte_size();
  layer.weight_bytes_after +=
      w.num_elements() + static_cast<int64_t>(params.scale.size()) * 5;  // f32 scale, 8-bit zero

  Tensor q = rounded ? rounded->codes : QuantizeTensor(w, params);
  layer.lost_channels = LostChannels(w, q, channel_axis, params.zero_point[0]);
  const bool shared = layout.alpha == 1.0f && !rounded;
  editor_.InsertBefore(node);
  INFER_ASSIGN(Value * dequantized, DequantizedOf(original, std::move(q), params, axis, shared));
  editor_.SetOperand(node, *operand, dequantized);
  if (integer_bias) {
    const Value& before = *place.node->input(place.operand);
    const int64_t bytes = static_cast<int64_t>(bias.size()) * 4;
    layer.weight_bytes_before += before.constant()->byte_size();
    layer.weight_bytes_after += 2 * bytes;
    INFER_ASSIGN(Value * b, WriteBias(before.name(), bias, x_scale, params));
    editor_.SetOperand(*place.node, place.operand, b);
  }
  if (node.def().FindAttr("alpha")) {
    editor_.SetAttr(node, "alpha", 1.0f);
    if (integer_bias || bias.empty()) editor_.SetAttr(node, "beta", 1.0f);
  }
  return {};
}

Status QdqWriter::WriteWeights() {
  for (const PlannedNode& p : plan_.nodes) {
    if (!IsLayer(*p.node)) continue;
    QuantizedLayer layer;
    layer.name = !p.node->name().empty() ? p.node->name()
                 : p.node->output(0)     ? p.node->output(0)->name()
                                         : std::string(p.node->op());
    layer.op = p.node->op();
    for (const Node* f : p.followers) layer.op += Cat("+", f->op());
    layer.precision = p.integer ? "int8" : "f32";
    layer.reason = p.reason;
    layer.quantizable = p.op != nullptr;
    if (p.op != nullptr && p.integer)
      if (Status s = WriteLayerWeights(p, layer); !s.ok()) return std::move(s).In(layer.name);
    report_.layers.push_back(std::move(layer));
  }
  return {};
}

Status QdqWriter::WriteConstants() {
  for (const auto& [constant, group] : plan_.constants) {
    Value* v = g_.FindValue(constant->name());
    const QuantParams& p =
        group >= 0 ? params_[static_cast<size_t>(group)] : constant_params_.at(constant);
    editor_.InsertBefore(*g_.nodes().front());
    Value* codes = editor_.AddConstant(QuantizeTensor(*v->constant(), p), v->name() + "_quantized");
    const Scaled s = group >= 0 ? GroupParams(group, v->name()) : ParamsOf(v->name(), p);
    INFER_ASSIGN(Value * dequantized,
                 AddDequantize(codes, s, -1, NameBeside(v->name(), "dequantized")));
    const std::vector<Use> uses = v->uses();
    for (const Use& use : uses) {
      const auto it = integer_.find(use.user);
      if (it != integer_.end() && IsQuantizedOperand(*it->second->op, *use.user, use.operand))
        editor_.SetOperand(*use.user, use.operand, dequantized);
    }
  }
  return {};
}

}  // namespace infer
