#include "lib/tensor/datum.h"

namespace infer {

Datum::Datum() = default;
Datum::Datum(const Datum&) = default;
Datum::Datum(Datum&&) noexcept = default;
Datum& Datum::operator=(const Datum&) = default;
Datum& Datum::operator=(Datum&&) noexcept = default;
Datum::~Datum() = default;

Datum::Datum(Tensor t) : v_(std::move(t)) {}
Datum::Datum(SequenceDatum s) : v_(std::make_shared<const SequenceDatum>(std::move(s))) {}
Datum::Datum(OptionalDatum o) : v_(std::move(o)) {}
Datum::Datum(MapDatum m) : v_(std::make_shared<const MapDatum>(std::move(m))) {}

Tensor& WritableAs(Datum& d, DType dtype, const Dims& dims) {
  const bool fits = d.is_tensor() && d.tensor().dtype() == dtype && d.tensor().dims() == dims;
  if (!fits || !d.tensor().HeldAlone()) d = Tensor(dtype, dims);
  return d.tensor();
}

}  // namespace infer
