#pragma once
/// The kernels of the Vulkan backend, one list per family.
#include "runtime/vulkan/kernels/shader_kernel.h"

namespace infer::vulkan {

KernelList QuantProductKernels(const Facts& facts);  ///< quantized Conv, MatMul, Gemm
KernelList QuantCodeKernels(const Facts& facts);     ///< Q, DQ, and what stands between products
KernelList ElementwiseKernels(const Facts& facts);   ///< functions of one, two, three operands
KernelList ChainKernels(const Facts& facts);         ///< several of these as one dispatch
KernelList MoveKernels(const Facts& facts);          ///< views, Transpose, Slice, Concat, Pad, ...
KernelList CastKernels(const Facts& facts);          ///< Cast between types
KernelList GatherKernels(const Facts& facts);        ///< Gather by indices of the run
KernelList HalfKernels(const Facts& facts);          ///< products in f16 (Compute::kF16)
KernelList MatMulKernels(const Facts& facts);        ///< MatMul, Gemm
KernelList MatMulBitsKernels(const Facts& facts);    ///< products with weights of few bits
KernelList WinogradKernels(const Facts& facts);      ///< Conv 3x3 of stride 1
KernelList ConvKernels(const Facts& facts);          ///< Conv, ConvTranspose
KernelList PoolKernels(const Facts& facts);          ///< MaxPool, AveragePool, Resize, GridSample
KernelList AttentionKernels(const Facts& facts);     ///< products around a Softmax, Attention
KernelList GroupAttentionKernels(const Facts& facts);  ///< attention of grouped heads with caches
KernelList RecurrentKernels(const Facts& facts);       ///< LSTM
KernelList RowKernels(const Facts& facts);             ///< Softmax, normalizations, reductions

/// All of them, in order of preference for one operator.
KernelList AllKernels(const Facts& facts);
/// Kernels of products that choose otherwise among their shaders than those of AllKernels do, for
/// who measures which is faster.
KernelList ProductVariants(const Facts& facts);
/// The launch that copies an operand to a result of the same size.
Prepared MakeCopy();

}  // namespace infer::vulkan
