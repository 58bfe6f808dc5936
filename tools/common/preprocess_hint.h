#pragma once
/// What --preprocess would make of stored images what an input wants.
#include <string>

#include "datasets/dataset.h"
#include "lib/ir/graph.h"

namespace infer {

/// "resize=32x32,scale=1/255,layout=nchw": what is given already, with the fewest further keys of
/// layout, order and resize that make the first sample fit `input`; scale where bytes become
/// floating-point numbers and nothing was said about them. "": several inputs, or nothing fits.
std::string PreprocessThatFits(const Dataset& data, const Value& input);

}  // namespace infer
