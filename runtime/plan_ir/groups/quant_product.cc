#include "runtime/plan_ir/groups/quant_product.h"

#include <algorithm>
#include <cmath>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// q - z into `to`; whether that fits 8 bits. Rows of `inner` numbers share a zero point, and the
/// next rows have the next ones, round and round.
template <typename T>
bool Subtract(const Tensor& q, std::span<const int32_t> zero_points, int64_t inner, int8_t* to) {
  const T* from = q.data<T>().data();
  const int64_t rows = inner > 0 ? q.num_elements() / inner : 0;
  const auto points = static_cast<int64_t>(zero_points.size());
  int lowest = 0, highest = 0;
  for (int64_t r = 0, point = 0; r < rows; ++r, point = point + 1 == points ? 0 : point + 1) {
    const int z = zero_points[static_cast<size_t>(point)];
    for (int64_t i = r * inner; i < (r + 1) * inner; ++i) {
      const int v = from[i] - z;
      lowest = std::min(lowest, v);
      highest = std::max(highest, v);
      to[i] = static_cast<int8_t>(v);
    }
  }
  return lowest >= -128 && highest <= 127;
}

/// The bias in units of the sum.
Tensor BiasOf(const StepCall& call, const QuantGroup& group, int64_t channels,
              const std::vector<float>& unit) {
  const auto& q = group.inputs[2];
  const Tensor& c = q ? *q->constant : *call.constant(call.main().input(2));
  Tensor bias(DType::kF32, {channels});
  for (int64_t i = 0; i < channels; ++i) {
    const auto k = static_cast<size_t>(i);
    double v = c.At(i);
    if (q)
      v = (v - q->params.zero_points[q->params.per_tensor() ? 0 : k]) *
          static_cast<double>(q->params.scales[q->params.per_tensor() ? 0 : k]);
    bias.Set(i, v / static_cast<double>(unit[unit.size() == 1 ? 0 : k]));
  }
  return bias;
}

}  // namespace

bool AreSymmetric(const QuantInput& w) {
  const std::vector<int32_t>& z = w.params.zero_points;
  return w.constant->dtype() == DType::kI8 &&
         std::all_of(z.begin(), z.end(), [](int32_t v) { return v == 0; });
}

Tensor SymmetricWeights(const QuantInput& w, int64_t channels, bool channels_first) {
  return SymmetricWeights(w, *w.constant, channels, channels_first);
}

Tensor SymmetricWeights(const QuantInput& w, const Tensor& elements, int64_t channels,
                        bool channels_first) {
  const Tensor& q = elements;
  const std::vector<int32_t>& z = w.params.zero_points;
  if (AreSymmetric(w)) return q;
  Tensor out(DType::kI8, q.dims());
  const int64_t inner = w.params.per_tensor() ? q.num_elements()
                        : channels_first      ? q.num_elements() / std::max<int64_t>(channels, 1)
                                              : 1;
  int8_t* to = out.mutable_data<int8_t>().data();
  const bool fits = q.dtype() == DType::kI8 ? Subtract<int8_t>(q, z, inner, to)
                                            : Subtract<uint8_t>(q, z, inner, to);
  return fits ? out : Tensor();
}

bool ChannelsFirst(const Node& n) { return WeightLayoutOf(n)->rows_are_outputs(); }

SumIn8Bits::SumIn8Bits(const QuantGroup& g)
    : lo(static_cast<float>(Lowest(g.residual->between) - g.residual->between.zero_point())),
      hi(lo + 255),
      scale(g.residual->between.scale() / g.output->scale()),
      other_scale(g.residual->other.params.scale() / g.output->scale()) {}

std::string RefuseQuantProduct(const StepCall& call, FunctionRef<bool(const Node&)> folds) {
  auto group = DecodeQuantGroup(call);
  if (!group.ok()) return group.status().message();
  const Node& n = call.main();
  if (group->inputs.size() < 2 || !group->inputs[0] || !group->inputs[1])
    return "an operand is not quantized";
  const QuantInput& x = *group->inputs[0];
  const QuantInput& w = *group->inputs[1];
  if (!x.params.per_tensor() || x.params.dtype == DType::kI32) return "activations per channel";
  if (!w.constant || w.params.dtype == DType::kI32) return "weights are not 8-bit constants";
  const int rank = w.constant->rank();
  if (IsConvolution(n) ? rank < 3 || rank > 5 : rank != 2) return "the rank of the weights";
  const bool first = ChannelsFirst(n);
  const int64_t channels = w.constant->dim(first ? 0 : -1);
  if (!w.params.per_tensor()) {
    const int64_t axis = w.params.axis < 0 ? w.params.axis + rank : w.params.axis;
    if (axis != (first ? 0 : rank - 1)) return "weights are not scaled by output channel";
    if (static_cast<int64_t>(w.params.scales.size()) != channels) return "scales do not fit";
  }
  if (const auto l = WeightLayoutOf(n); l->alpha != 1 || l->beta != 1 || l->data_transposed)
    return "alpha, beta or transA";
  if (const Value* b = n.input(2)) {
    const Tensor* c = group->inputs[2] ? group->inputs[2]->constant : call.constant(b);
    if (!c || c->num_elements() != channels) return "the bias is not one constant per channel";
    if (group->inputs[2] && !group->inputs[2]->params.per_tensor() &&
        static_cast<int64_t>(group->inputs[2]->params.scales.size()) != channels)
      return "the scales of the bias";
  }
  for (const Node* a : group->activations)
    if (!folds(*a)) return Cat(a->op(), " cannot be folded");
  if (w.constant->num_elements() / std::max<int64_t>(channels, 1) > kMostByteProducts)
    return "a sum may exceed 32 bits";
  if (!SymmetricWeights(w, channels, first).defined())
    return "weights minus zero point do not fit 8 bits";
  return "";
}

ProductScales ScalesOf(const StepCall& call, const QuantGroup& group, int64_t channels) {
  ProductScales s;
  // Each step rounded to f32, in the order that QLinearConv, QLinearMatMul and QGemm have.
  const float x_scale = group.inputs[0]->params.scale();
  std::vector<float> unit;
  for (float w : group.inputs[1]->params.scales) unit.push_back(x_scale * w);
  if (call.main().input(2)) s.bias = BiasOf(call, group, channels, unit);
  const QuantParams8* first = group.residual ? &group.residual->between
                              : group.output ? &*group.output
                                             : nullptr;
  const auto clamp = group.activations.size() == 1 ? ClampOf(*group.activations[0]) : std::nullopt;
  if (first && clamp && !clamp->is_relu()) {
    // Rounding keeps the order: bounds of reals are bounds of quanta.
    const auto quanta = [&](double v) {
      return std::nearbyint(std::clamp(static_cast<float>(v) / first->scale(), -512.0f, 512.0f));
    };
    s.bounds = {quanta(clamp->low), quanta(clamp->high)};
  }
  // f(k x) = k f(x) for k > 0: the output scale may come first.
  const bool scales_through =
      s.bounds || std::all_of(group.activations.begin(), group.activations.end(),
                              [](const Node* a) { return IsRelu(*a) || a->Is("LeakyRelu"); });
  for (float u : unit) s.scales.push_back(scales_through && first ? u / first->scale() : u);
  if (!scales_through && first) s.to_quanta = static_cast<float>(1.0 / first->scale());
  return s;
}

}  // namespace infer
