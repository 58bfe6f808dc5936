#pragma once
/// What an opset can say, and which opset and IR version a file needs. No protobuf here.
#include <string>

#include "lib/ops/op_def.h"
#include "lib/tensor/value_type.h"

namespace infer::onnx_io {

/// The lowest opset of def's domain in which the canonical form can stand as `node` does.
int64_t OpsetOf(const OpDef& def, const NodeSpec& node);
/// The lowest opset of ai.onnx that has the element types of `type`.
int64_t OpsetOf(const ValueType& type);
/// The attributes that a file of `opset` can hold: younger ones at their default are left out.
AttrMap AttrsAt(const OpDef& def, const AttrMap& attrs, int64_t opset);
/// What a lift function may rely on: the operands that the form of `opset` has, and only these, and
/// no younger attribute but at its default. InvalidModel else.
Status CheckOperands(const NodeSpec& node, const OpDef& def, int opset);
/// Old forms whose result has the extents of operand 0; lifted, any operand may be broadcast.
bool BroadcastsToFirst(const OpDef& def, int opset);
/// The IR version that came with an opset of ai.onnx (onnx.helper's VERSION_TABLE).
int64_t IrVersionOf(int64_t opset);

}  // namespace infer::onnx_io
