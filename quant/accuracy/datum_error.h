#pragma once
/// Golden against candidate where a value is more than a tensor.
#include "lib/tensor/datum.h"
#include "quant/accuracy/metrics.h"

namespace infer {

/// Adds the tensors inside both to `comparer`: those of sequences one by one, the numbers of a map,
/// or of a sequence of maps, as one tensor in which a map is a row. Maps are the same in any order;
/// keys that one side alone has count as unequal elements. InvalidModel: values of different kinds,
/// or sequences of different lengths.
Status AddDatum(const Datum& golden, const Datum& candidate, TensorComparer& comparer);

}  // namespace infer
