#pragma once
/// The extents and strides of MatMul and Gemm, as shaders for products take them.
#include "runtime/vulkan/kernels/shader_kernel.h"

namespace infer::vulkan {

/// [m, k] x [k, n], for each of two batch axes. Strides count elements; 0: one operand for all.
struct Product {
  int64_t m = 1, n = 1, k = 1;
  int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  Dims batch = {1, 1}, a_batch = {0, 0}, b_batch = {0, 0};
  int64_t bias_row = 0, bias_column = 0;
  float alpha = 1, beta = 1;
  int64_t batches() const { return batch[0] * batch[1]; }
};

/// Of `node`, a MatMul or a Gemm, with operands of these extents. Unsupported: no shader takes it.
Result<Product> ProductOf(const Node& node, const Dims& a, const Dims& b);

}  // namespace infer::vulkan
