#include "lib/ops/quantized/quant_reference.h"

#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"

namespace infer {

Dims QuantParamDims(const Dims& param, int rank, int axis) {
  if (NumElements(param) == 1) return {};
  if (param.size() != 1) return param;
  Dims dims(static_cast<size_t>(std::max(rank - axis, 1)), 1);
  dims[0] = param[0];
  return dims;
}

Result<BroadcastReader> BroadcastReader::Make(const Tensor& t, Dims dims, const Dims& target) {
  auto both = Broadcast(dims, target);
  if (!both.ok() || *both != target)
    return InvalidModel(Cat("a scale or zero point of shape ", ToString(t.dims()),
                            " does not broadcast to ", ToString(target)));
  BroadcastReader r;
  r.t_ = t;
  r.target_ = target;
  r.strides_.assign(target.size(), 0);
  const Dims own = Strides(dims);
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1) r.strides_[target.size() - dims.size() + d] = own[d];
  return r;
}

double BroadcastReader::At(int64_t flat) const {
  if (t_.num_elements() == 1) return t_.At(0);
  int64_t at = 0;
  for (size_t d = target_.size(); d-- > 0; flat /= target_[d])
    at += flat % target_[d] * strides_[d];
  return t_.At(at);
}

Result<Tensor> Centered(const Tensor& x, const Tensor* zero_point, int axis) {
  Tensor out = x.Cast(DType::kF32);
  if (!zero_point) return out;
  INFER_ASSIGN(const BroadcastReader z,
               BroadcastReader::Make(*zero_point,
                                     QuantParamDims(zero_point->dims(), x.rank(), axis), x.dims()));
  const auto y = out.mutable_data<float>();
  ParallelFor(out.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[static_cast<size_t>(i)] -= static_cast<float>(z.At(i));
  });
  return out;
}

void StoreQuantized(Tensor& out, int64_t i, float value, double zero_point) {
  if (!IsInteger(out.dtype())) {
    out.Set(i, static_cast<double>(value) + zero_point);
    return;
  }
  const double low = static_cast<double>(IntegerMin(out.dtype()));
  const double high = static_cast<double>(IntegerMax(out.dtype()));
  // std::nearbyint rounds half to even in the default mode. NaN becomes the zero point.
  const double v = std::isnan(value) ? zero_point : std::nearbyint(value) + zero_point;
  out.SetInt(i, static_cast<int64_t>(std::clamp(v, low, high)));
}

float DynamicRange::Rounded(float v) const {
  const float q = std::nearbyint(v / scale) + zero_point;
  return (std::clamp(q, 0.f, 255.f) - zero_point) * scale;
}

DynamicRange DynamicRangeOf(double low, double high) {
  const float l = std::min(static_cast<float>(low), 0.f),
              h = std::max(static_cast<float>(high), 0.f);
  DynamicRange r;
  if (h > l) r.scale = (h - l) / 255;
  const float zero = -l / r.scale;  // of infinite numbers none
  r.zero_point = std::isnan(zero) ? 0 : std::nearbyint(std::clamp(zero, 0.f, 255.f));
  return r;
}

Result<Tensor> RunReference(std::span<const OpDef> family, std::string_view op,
                            const AttrMap& attrs, const std::vector<Tensor>& inputs) {
  const auto def =
      std::find_if(family.begin(), family.end(), [&](const OpDef& d) { return d.name == op; });
  INFER_CHECK(def != family.end());
  OpCall call(*def, attrs, inputs.size(), 1);
  std::vector<ValueType> types(inputs.size());
  std::vector<Datum> data(inputs.begin(), inputs.end());
  std::vector<const Datum*> operands(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    types[i] = inputs[i].type();
    operands[i] = &data[i];
    call.BindInput(i, &types[i], &inputs[i]);
  }
  INFER_TRY(def->infer(call));
  OpRun run(call, operands, 1);
  INFER_TRY(def->reference(run));
  return std::move(run.outputs()[0].tensor());
}

}  // namespace infer
