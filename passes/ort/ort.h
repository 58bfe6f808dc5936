#pragma once
/// Rules for files that only ONNX Runtime reads (--target ort): they make the operators of
/// com.microsoft that it makes by itself while it loads a file. The file holds them already, and so
/// no more nodes than ONNX Runtime runs; what it would run slower than the standard form stays
/// standard (docs/fusion.md).
#include "passes/fuse/fusions.h"

namespace infer {

/// In order. They run last: no other rule knows what they make.
std::vector<RuleGroup> OrtRules();
/// The operators that these rules make, as what they are made of, so that other rules see them.
Rule TakeApartFused();

Rule CastBehindF16();
Rule FuseProductScale();
Rule FuseOperandScale();
Rule FuseOperandTranspose();
Rule FuseProductTranspose();
Rule FuseConvActivation();
Rule FuseGemmActivation();
Rule FuseBiasGelu();
Rule FuseSkipBias();
Rule ExpandMaskRows();
Rule FuseSelfAttention();

}  // namespace infer
