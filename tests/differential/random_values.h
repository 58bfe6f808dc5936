#pragma once
/// Values for the inputs of random models.
#include <map>
#include <optional>
#include <string>

#include "lib/support/random.h"
#include "lib/tensor/datum.h"

namespace infer {

/// Small normal numbers, often round ones; small integers; short strings.
Tensor RandomTensor(DType dtype, const Dims& dims, Random& random);

/// Open extents become numbers, the same for the same symbol.
ValueType RunType(const ValueType& t, std::map<std::string, int64_t>& symbols, Random& random);

/// Of any kind of value; nullopt where the type says too little, or the value would be large.
std::optional<Datum> RandomDatum(const ValueType& type, Random& random);

}  // namespace infer
