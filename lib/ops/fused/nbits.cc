#include "lib/ops/fused/nbits.h"

#include "lib/support/strings.h"

namespace infer {

Result<NBits> ReadNBits(const OpCall& call) {
  const NBits w{call.Int("N"), call.Int("K"), call.Int("bits"), call.Int("block_size")};
  constexpr int64_t kMost = int64_t{1} << 31;
  if (w.n < 1 || w.k < 1 || w.n > kMost || w.k > kMost)
    return InvalidModel(Cat("N is ", w.n, ", K is ", w.k));
  if (w.bits != 2 && w.bits != 4 && w.bits != 8)
    return Unsupported(Cat("bits is ", w.bits, ", known are 2, 4 and 8"));
  if (call.Int("weight_prepacked") != 0)
    return Unsupported("weight_prepacked is set: the layout is private to another runtime");
  if (w.block < 8 || w.block > kMost || w.block * w.bits % 8 != 0)
    return InvalidModel(Cat("block_size is ", w.block));
  return w;
}

Result<Tensor> UnpackNBits(const NBits& w, const NBitsTensors& in) {
  return UnpackNBits(w, in, 0, w.n);
}

Result<Tensor> UnpackNBits(const NBits& w, const NBitsTensors& in, int64_t first, int64_t count) {
  const Tensor *zeros = in.zeros, *groups = in.groups;
  if (groups && groups->num_elements() < w.k) return InvalidModel("g_idx is shorter than K");
  const auto bytes = in.codes->data<uint8_t>();
  auto code = [&](std::span<const uint8_t> data, int64_t row_begin, int64_t i) {
    const auto byte = data[static_cast<size_t>(row_begin + i * w.bits / 8)];
    return (byte >> (i * w.bits % 8)) & ((1 << w.bits) - 1);
  };
  Tensor out(DType::kF32, {count, w.k});
  const auto values = out.mutable_data<float>();
  for (int64_t n = first; n < first + count; ++n)
    for (int64_t k = 0; k < w.k; ++k) {
      const int64_t group = groups ? groups->IntAt(k) : k / w.block;
      if (group < 0 || group >= w.blocks())
        return InvalidModel(Cat("g_idx[", k, "] is ", group, " of ", w.blocks(), " groups"));
      double zero = static_cast<double>(1 << (w.bits - 1));
      if (zeros && zeros->dtype() == DType::kU8)
        zero = code(zeros->data<uint8_t>(), n * w.zero_bytes(), group);
      else if (zeros)
        zero = zeros->At(n * w.blocks() + group);
      const double q = code(bytes, n * w.blocks() * w.block_bytes(), k);
      const double scale = in.scales ? in.scales->At(n * w.blocks() + group) : 1;
      values[static_cast<size_t>((n - first) * w.k + k)] = static_cast<float>((q - zero) * scale);
    }
  return out;
}

}  // namespace infer
