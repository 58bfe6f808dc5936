#pragma once
/// What a file declares of values beside what inference knows of them. No protobuf here.
#include <string>
#include <vector>

#include "lib/ir/editor.h"

namespace infer::onnx_io {

/// What `declared` adds where inference knows nothing. A symbol that inference derived is never
/// narrowed: declarations of inner values are often left over from another shape.
Shape FillUnknown(const Shape& inferred, const Shape& declared);

/// Adds what the file declares of `v` to its type. Another element type or kind is an error.
/// Another shape is a warning: inference is right about inner values, and files exist whose shapes,
/// ranks too, are left over from elsewhere.
Status AddDeclared(const ValueType& declared, Value* v, GraphEditor& editor,
                   std::vector<std::string>& warnings);

}  // namespace infer::onnx_io
