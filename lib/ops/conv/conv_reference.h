#pragma once
/// The reference convolution of every operator that convolves (Conv, ConvTranspose, ConvInteger,
/// QLinearConv, ...): an implicit im2col in front of GemmReference, in bounded memory.
#include <functional>

#include "lib/ops/conv/conv_geometry.h"

namespace infer {

/// Takes sums of products for outputs [begin, begin + count) (flat over the spatial axes) of one
/// sample and output channel. Called from several threads, once per output.
using ConvStore = std::function<void(int64_t sample, int64_t channel, int64_t begin, int64_t count,
                                     const double* sums)>;

/// Pre: x and w are both f32 or both f64, with the shapes of `g`. Padding counts as 0.
void ConvolveReference(const ConvGeometry& g, const Tensor& x, const Tensor& w,
                       const ConvStore& store);

/// out[begin + i] = values[i], rounded once to the element type. Pre: a float type.
void StoreRounded(Tensor& out, int64_t begin, int64_t count, const double* values);

}  // namespace infer
