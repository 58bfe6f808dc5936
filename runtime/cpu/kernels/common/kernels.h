#pragma once
/// The kernels of the CPU backend, one list per family. Adding one: docs/adding-a-kernel.md.
#include "runtime/plan_ir/groups/grouping.h"

namespace infer {

KernelList SparseByteKernels();       ///< DQ -> Conv, MatMul, Gemm -> Q by weights with zeros (own)
KernelList Int8ByteKernels();         ///< DQ -> Conv 1x1 -> Q (own)
KernelList Int8ProductKernels();      ///< DQ -> Conv, MatMul, Gemm -> Q (oneDNN)
KernelList Int8PairKernels();         ///< the same without VNNI (own)
KernelList Int8ElementwiseKernels();  ///< DQ -> Add, Mul, activations, pooling, Concat -> Q; Q; DQ
KernelList QLinearKernels();          ///< QLinearAdd, QLinearMul, QLinearSigmoid, ...
KernelList IntegerKernels();          ///< MatMulInteger, ConvInteger and what makes their sums real
KernelList Bf16ConvKernels();         ///< Conv, ConvTranspose in bf16 (oneDNN)
KernelList Bf16MatMulKernels();       ///< MatMul, Gemm in bf16 (oneDNN)
KernelList SparseKernels();           ///< Conv 1x1, MatMul, Gemm by weights with zeros (own)
KernelList TransposedProductKernels();  ///< ConvTranspose by one product of all taps (own)
KernelList FewResultKernels();          ///< Conv, ConvTranspose of few results; 1x1, strided (own)
KernelList WinogradKernels();           ///< Conv 3x3 (own)
KernelList ConvProductKernels();        ///< Conv as a product (own)
KernelList DepthwiseKernels();          ///< Conv, ConvTranspose of one channel per group (own)
KernelList ConvTransposeKernels();      ///< ConvTranspose as a convolution
KernelList TileKernels();               ///< Conv, ConvTranspose that oneDNN would gather (own)
KernelList ConvKernels();               ///< Conv, ConvTranspose (oneDNN)
KernelList DeformConvKernels();         ///< DeformConv, channels last (own)
KernelList DeformPlanesKernels();       ///< DeformConv, plane by plane (own)
KernelList WeightGradientKernels();     ///< ConvWeightGradient (oneDNN)
KernelList SkinnyKernels();             ///< MatMul, Gemm of few columns or few terms (own)
KernelList MatMulKernels();             ///< MatMul, Gemm (oneDNN)
KernelList WeightOnlyKernels();         ///< MatMulNBits (own)
KernelList GatherBlockKernels();        ///< GatherBlockQuantized (own)
KernelList GroupAttentionKernels();     ///< GroupQueryAttention (own)
KernelList PoolKernels();               ///< MaxPool, AveragePool, GlobalAveragePool, ... (oneDNN)
KernelList NormKernels();               ///< BatchNormalization (oneDNN)
KernelList ChainKernels();              ///< element-wise operators and norms of rows in a chain
KernelList AttentionKernels();          ///< around Softmax
KernelList RotaryKernels();             ///< RotaryEmbedding (own)
KernelList RmsKernels();                ///< RMSNormalization (own)
KernelList RowKernels();                ///< Softmax, LayerNormalization, reductions
KernelList IntegerReduceKernels();      ///< reductions of integers (own)
KernelList RunningKernels();            ///< CumSum, CumProd (own)
KernelList LpNormKernels();             ///< LpNormalization (own)
KernelList ArgKernels();                ///< ArgMax, ArgMin
KernelList RecurrentKernels();          ///< LSTM, GRU, RNN
KernelList ConcatKernels();             ///< of blocks of channels
KernelList MoveKernels();         ///< Transpose, Slice, Concat, Pad, Gather, nearest Resize, ...
KernelList ViewKernels();         ///< Reshape, Flatten, ...: no copy
KernelList ElementwiseKernels();  ///< unary and binary f32 with broadcasting
KernelList TopKKernels();         ///< TopK (own)
KernelList IndexKernels();        ///< OneHot, GatherND, GatherElements
KernelList ScatterKernels();      ///< ScatterND, ScatterElements, with reductions, too (own)
KernelList ChannelNormKernels();  ///< BatchNormalization, Instance-, GroupNormalization
KernelList QuantizeKernels();   ///< Q and DQ of 8 and 16 bits outside groups, DynamicQuantizeLinear
KernelList ResizeKernels();     ///< linear
KernelList ResizeTapKernels();  ///< linear and cubic, with antialias, too; bytes (own)
KernelList GridSampleKernels();
KernelList AffineGridKernels();  ///< of a constant size (own)
KernelList RoiAlignKernels();    ///< RoiAlign, channels last (own)
KernelList Col2ImKernels();
KernelList FillKernels();  ///< ConstantOfShape (own)
KernelList DftKernels();
KernelList StftKernels();
KernelList LrnKernels();
KernelList PowKernels();
KernelList FeatureKernels();      ///< ArrayFeatureExtractor, Scaler, Normalizer, Imputer, ... (own)
KernelList ForestKernels();       ///< TreeEnsemble, TreeEnsembleClassifier, -Regressor (own)
KernelList LabelKernels();        ///< LabelEncoder of numbers (own)
KernelList LinearModelKernels();  ///< LinearClassifier, LinearRegressor (own)
KernelList SvmKernels();          ///< SVMClassifier, SVMRegressor (own)
KernelList ElementKernels();      ///< any type: arithmetic, comparisons, logic, Cast, Where

/// The name of those in ChainKernels.
constexpr std::string_view kChainKernel = "own:chain";

/// The name of those in Bf16ConvKernels and Bf16MatMulKernels.
constexpr std::string_view kBf16Kernel = "bf16";

/// The names of those in SparseKernels and SparseByteKernels, and whether the weights of the main
/// node are constant with enough zeros among them that they are asked.
constexpr std::string_view kSparseKernel = "sparse", kInt8SparseKernel = "int8:sparse";
bool HasManyZeros(const StepCall& call);

/// All of them in order of preference for one operator.
KernelList CpuKernels();

/// Whether some kernel takes a step whole. Chains are not asked: they form last, of what groups
/// have left.
inline KernelsAccept AnyKernel(const Plan& plan, const KernelList& kernels,
                               const CompileOptions& options) {
  return {plan, kernels, options, kChainKernel};
}

/// "" or "operand i is f16": whether all operands and results of the step's nodes are f32 tensors.
std::string RefuseUnlessF32(const StepCall& call);

}  // namespace infer
