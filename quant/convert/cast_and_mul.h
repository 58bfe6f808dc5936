#pragma once
/// Weights of 8 bits spelled as Cast and Mul.
#include <set>
#include <string>

#include "lib/ir/graph.h"

namespace infer {

/// DequantizeLinear of i8 codes becomes Cast -> Mul by the scales where nothing but layers computed
/// in f32 read it, as their weights; the numbers are the same bit for bit. Runtimes fold the pair
/// when they load the file; ONNX Runtime would run DequantizeLinear in every run (ADR 48).
///
/// These stay as they are: weights of layers whose data come from codes, directly or through views,
/// moves and pools, because kernels compute such layers in integers; scales in blocks; zero points
/// other than 0; weights of matrix products unless `products`.
///
/// Convolutions of `in_f32` (names of first results) are to compute in f32 whatever their data come
/// from: theirs become the pair where the result is not quantized, since ONNX Runtime has no
/// integer convolution that returns floats.
///
/// Without `has_channel_scales` (a file below opset 13) DequantizeLinear cannot have a scale per
/// channel: each one that has becomes the pair, wherever the data of its layer come from.
Status SpellAsCastAndMul(Graph& g, bool products, bool has_channel_scales = true,
                         const std::set<std::string>& in_f32 = {});

}  // namespace infer
