#pragma once
/// Reads types and tensors of the text form (lib/ir/text.h). Internal to lib/ir.
#include "lib/ir/text_cursor.h"
#include "lib/tensor/tensor.h"
#include "lib/tensor/value_type.h"

namespace infer {

/// f32[2,N+1] | f32[*] | ?[..] | seq(TYPE) | optional(TYPE) | map(KEY,TYPE)
Result<ValueType> ParseType(TextCursor& in);

/// What stands behind "const": TYPE {v, v, ...} | TYPE ~seed
Result<Tensor> ParseConstant(TextCursor& in);

}  // namespace infer
