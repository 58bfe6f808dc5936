#include "runtime/cpu/kernels/common/packed.h"

namespace infer {

Result<WeightSource::Form> PackedFor(WeightSource& source, const onednn::Spec& spec,
                                     const Layout& to) {
  if (to.plain() && (spec.strides.empty() || spec.strides == Strides(spec.dims)))
    return source.Plain();
  onednn::Spec plain = spec;
  plain.any = plain.bf16 = false;
  WeightSource::UnpackFn unpack;
  if (onednn::CanUnpack(plain, to))
    unpack = [plain, to, dtype = source.dtype(),
              dims = source.dims()](const Buffer& form) -> Result<Tensor> {
      Tensor elements(dtype, dims);
      INFER_TRY(onednn::Unpack(plain, form, to, elements.mutable_raw()));
      return elements;
    };
  const std::string key = Cat("onednn:", ToString(spec.dims), ToString(spec.strides), ":", to.code);
  return source.Get(
      key, [&](const Tensor& elements) { return onednn::Pack(plain, elements.raw(), to); },
      std::move(unpack));
}

Tensor ChannelsInnermost(const Tensor& weights) {
  const Dims& d = weights.dims();
  const int64_t taps = d[2] * d[3];
  if (taps == 1) return weights;
  Tensor t(DType::kF32, {d[0], d[2], d[3], d[1]});
  const float* from = weights.data<float>().data();
  float* to = t.mutable_data<float>().data();
  for (int64_t o = 0; o < d[0]; ++o)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = 0; c < d[1]; ++c) *to++ = from[(o * d[1] + c) * taps + tap];
  return t;
}

Tensor ChannelsOutermost(const float* innermost, const Dims& dims) {
  Tensor t(DType::kF32, dims);
  float* const to = t.mutable_data<float>().data();
  const int64_t taps = dims[2] * dims[3];
  for (int64_t o = 0; o < dims[0]; ++o)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = 0; c < dims[1]; ++c) to[(o * dims[1] + c) * taps + tap] = *innermost++;
  return t;
}

}  // namespace infer
