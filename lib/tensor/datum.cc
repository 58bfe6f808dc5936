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

}  // namespace infer
