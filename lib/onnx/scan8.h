#pragma once
/// Scan as opset 8 had it, in the form of today.
#include "lib/onnx/subgraphs.h"

namespace infer::onnx_io {

/// Opset 8 had a batch in axis 0 of every operand and result of a Scan. The newer form of that is
/// a Scan over the batch, without states, whose body holds the Scan proper. With `has_lengths`
/// the last operand holds the length of each sample: the rest is cut off, and zeros stand for it
/// in the results. Rewrites `attrs` and the one subgraph. InvalidModel for what cannot be a Scan of
/// opset 8.
Status ScanOverBatch(const OpDef& def, const std::vector<Value*>& operands, bool has_lengths,
                     const std::vector<Value*>& captured, AttrMap& attrs,
                     std::vector<Subgraph>& subgraphs, const OpRegistry& ops);

}  // namespace infer::onnx_io
