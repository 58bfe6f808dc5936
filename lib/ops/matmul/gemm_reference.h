#pragma once
/// The blocked matrix product behind every reference kernel that multiplies and adds: MatMul, Gemm,
/// convolutions, recurrent layers, quantized forms. It knows no operator and no tensor: operands
/// come from packing functions, results go to a store function.
///
/// Law: every result is one sum in double over k = 0, 1, ..., K-1 in this order. A product of two
/// f32 (or narrower, or 8-bit integer) values is exact in double, so the result has the same bits
/// for every block size, instruction set (fused or separate multiply-add) and number of threads.
#include <cstdint>
#include <functional>

namespace infer {

/// Writes out[(k - k0) * width + j] = operand(batch, i0 + j, k) for k in [k0, k0 + kc) and
/// j in [0, count); the remaining columns j in [count, width) are set to 0.
/// For operand A the index i is a row of A, for operand B a column of B.
using PackPanel = std::function<void(int64_t batch, int64_t i0, int64_t count, int64_t width,
                                     int64_t k0, int64_t kc, double* out)>;
/// Takes results (row, col0 ... col0 + count - 1) of one batch. Called from several threads, once
/// per result.
using StoreRow = std::function<void(int64_t batch, int64_t row, int64_t col0, int64_t count,
                                    const double* sums)>;

/// C[b] = A[b] (m x k) * B[b] (k x n) for b in [0, batch). k == 0 stores zeros.
void GemmReference(int64_t batch, int64_t m, int64_t n, int64_t k, const PackPanel& pack_a,
                   const PackPanel& pack_b, const StoreRow& store);

/// A packing function over a strided array: operand(b, i, k) = data[offset(b) + i * stride_i +
/// k * stride_k]. `data` must outlive the function.
template <typename T, typename Offset>
PackPanel PackStrided(const T* data, int64_t stride_i, int64_t stride_k, Offset offset) {
  return [=](int64_t batch, int64_t i0, int64_t count, int64_t width, int64_t k0, int64_t kc,
             double* out) {
    const T* src = data + offset(batch) + i0 * stride_i + k0 * stride_k;
    for (int64_t k = 0; k < kc; ++k, out += width, src += stride_k) {
      int64_t j = 0;
      if (stride_i == 1)
        for (; j < count; ++j) out[j] = static_cast<double>(src[j]);
      else
        for (; j < count; ++j) out[j] = static_cast<double>(src[j * stride_i]);
      for (; j < width; ++j) out[j] = 0;
    }
  };
}

}  // namespace infer
