#include "tools/bench/numbers.h"

#include "lib/tensor/tensor.h"

namespace infer::bench {
namespace {

/// By the bits, whatever the processor makes of denormals: `exponent` and `mantissa` are the masks.
template <typename Bits>
void Count(const Tensor& t, Bits exponent, Bits mantissa, NumberCounts& c) {
  const auto* p = reinterpret_cast<const Bits*>(t.raw());
  c.elements += t.num_elements();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const auto e = static_cast<Bits>(p[i] & exponent), m = static_cast<Bits>(p[i] & mantissa);
    if (e == 0) ++(m == 0 ? c.zeros : c.denormals);
    if (e == exponent) ++(m == 0 ? c.infinities : c.nans);
  }
}

void Add(const Datum& d, NumberCounts& c) {
  if (d.is_sequence()) {
    for (const Datum& element : d.sequence()) Add(element, c);
  } else if (d.is_optional()) {
    if (d.optional().value) Add(*d.optional().value, c);
  } else if (d.is_map()) {
    if (d.map().values) Add(*d.map().values, c);
  } else {
    const Tensor& t = d.tensor();
    switch (t.dtype()) {
      case DType::kF32: Count<uint32_t>(t, 0x7f800000u, 0x007fffffu, c); break;
      case DType::kF64: Count<uint64_t>(t, 0x7ff0000000000000u, 0x000fffffffffffffu, c); break;
      case DType::kF16: Count<uint16_t>(t, 0x7c00, 0x03ff, c); break;
      case DType::kBF16: Count<uint16_t>(t, 0x7f80, 0x007f, c); break;
      default: break;
    }
  }
}

}  // namespace

NumberCounts CountNumbers(std::span<const Datum> values) {
  NumberCounts c;
  for (const Datum& d : values) Add(d, c);
  return c;
}

}  // namespace infer::bench
