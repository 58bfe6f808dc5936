#pragma once
/// Values of requests, whatever they are made of: tensors, sequences, optionals, maps.
#include <functional>
#include <vector>

#include "lib/tensor/datum.h"

namespace infer::engine {

/// The same value with every tensor in it replaced by what `f` makes of it.
Datum WithTensors(const Datum& d, const std::function<Tensor(const Tensor&)>& f);
/// In memory that nobody else holds.
Datum Copied(const Datum& d);

/// Of the elements of all.
int64_t BytesOf(const std::vector<Datum>& inputs);

}  // namespace infer::engine
