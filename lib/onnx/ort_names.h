#pragma once
/// `--target ort`: what ONNX Runtime has under a name of its own, where that is faster or spares
/// the file a newer opset. Measured with ONNX Runtime 1.30 (docs/fusion.md); what is neither stays
/// standard. No protobuf here.
#include <optional>

#include "lib/ops/op_def.h"

namespace infer::onnx_io {

struct OrtContext {
  int64_t opset = 0;               ///< of the file
  bool opset_asked = false;        ///< the user wants this opset, else it may rise
  bool lacks = false;              ///< the opset has no such operator
  bool zero_without_keys = false;  ///< MustMakeZeroWithoutKeys
  int ort_minor = 0;               ///< ONNX Runtime 1.x reads the file; 0: the newest
};

/// Attention whose mask has a row for every query: the standard broadcasts it, ONNX Runtime refuses
/// the file else. Nothing where it has them already, or is no such node. For standard files, too.
std::optional<NodeSpec> WithMaskRows(const OpCall& call, const NodeSpec& node, LiftContext& out);

/// Attention whose mask, of type `mask`, is multiplied by the largest number below 1, so that the
/// lowest finite number is not in it: ONNX Runtime makes 0 of a query whose keys all have that one,
/// the standard and every other spelling the mean of the values. -inf and 0 stay what they are.
NodeSpec WithMaskOffTheEdge(DType mask, NodeSpec node, LiftContext& out);

/// The node that ONNX Runtime shall run in place of `node`, whose call is `call`; nodes before it
/// go to `out`. Nothing where the standard form is as good.
std::optional<NodeSpec> OrtForm(const OpCall& call, const NodeSpec& node, const OrtContext& context,
                                LiftContext& out);

}  // namespace infer::onnx_io
