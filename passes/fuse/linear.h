#pragma once
/// Linear layers with constant weights, seen alike: y = L(x) + b with one factor and one term per
/// output channel that can be folded into them.
#include "passes/rewrite/rule.h"

namespace infer {

/// y[.., m, ..] -> k[m] * y[.., m, ..] + c[m].
struct ChannelAffine {
  std::vector<double> k, c;
};

/// InvalidModel where a factor or term is infinite or no number.
Status CheckFinite(const ChannelAffine& a);
/// The factors and terms of a BatchNormalization with constant parameters:
/// k = scale / sqrt(var + epsilon), c = shift - mean * k.
ChannelAffine AffineOf(const Node& batchnorm);

/// Conv, ConvTranspose, Gemm or MatMul of matrices: x, constant weights, constant bias if any.
struct LinearPattern {
  LinearPattern();
  Pattern x, weight, bias, node;
};

/// The number of output channels (axis 1 of the result). InvalidModel for what cannot be folded
/// into, with the reason.
Result<int64_t> OutputChannels(const Node& linear);
/// The layer with `a` folded in; MatMul becomes Gemm.
Result<Value*> WithAffine(const Node& linear, const ChannelAffine& a, PatchBuilder& b);

}  // namespace infer
