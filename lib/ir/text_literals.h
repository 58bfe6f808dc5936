#pragma once
/// Reads and writes types, tensors and attributes of the text form (lib/ir/text.h). For lib/ir and
/// for readers of texts that hold graphs (passes/user).
#include "lib/ir/text_cursor.h"
#include "lib/ops/op_def.h"

namespace infer {

/// f32[2,N+1] | f32[*] | ?[..] | seq(TYPE) | optional(TYPE) | map(KEY,TYPE)
Result<ValueType> ParseType(TextCursor& in);

/// What stands behind "const": TYPE {v, v, ...} | TYPE ~seed
Result<Tensor> ParseConstant(TextCursor& in);

/// An attribute's value where the schema has one of `kind`: a number, a string, a list, a tensor, a
/// type.
Result<AttrValue> ParseAttribute(TextCursor& in, AttrKind kind);

/// What they read (text_print.cc); names in quotes where they need them.
std::string PrintName(const std::string& name);
std::string PrintConstant(const Tensor& t);
std::string PrintAttribute(const AttrValue& v);

}  // namespace infer
