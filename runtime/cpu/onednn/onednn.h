#pragma once
/// The only door to oneDNN (2.6; what 3.x does otherwise stays behind this file). Describes
/// primitives as data, makes them, and wraps them as launches. No exception leaves it.
#include "runtime/plan_ir/kernel.h"

namespace infer::onednn {

/// oneDNN runs on the lanes of the thread that calls it (runtime/cpu/onednn/openmp.h). A primitive
/// must not run with more than it was made with.

/// Applies INFER_MAX_ISA (sse4, avx2, avx512, vnni, bf16, ...) to oneDNN; once, before anything
/// else. InvalidArgument when the name is unknown.
Status CapIsa();
/// u8 x s8 products of oneDNN do not saturate on this machine.
bool HasExactInt8();

/// By which instructions oneDNN multiplies bf16 here.
enum class Bf16Unit : uint8_t { kNone, kAvx512, kAmx };
Bf16Unit Bf16UnitHere();
/// f32 values that lie as bf16, row-major.
Layout PlainBf16(const Dims& dims);
bool IsBf16(const Layout& layout);

/// [N, C / block, spatial.., block] of f32 [N, C, spatial..], C padded with zeros: what oneDNN's
/// kernels call nChw16c for a block of 16.
Layout ChannelBlocked(const Dims& dims, int block);
/// [N, spatial.., C] of [N, C, spatial..]. Pre: oneDNN has the type.
Layout ChannelsLast(DType dtype, const Dims& dims);
/// Which of the two, with the block's size (all channels for the latter), or 0 for plain; nullopt:
/// neither.
std::optional<int64_t> ChannelBlockOf(DType dtype, const Dims& dims, const Layout& layout);

/// As oneDNN names formats: "acdb" is channels last, "aBcd16b" has blocks of 16 of dimension b.
std::string NameOf(const Layout& layout);

/// A tensor of a primitive. With `any` the primitive chooses the layout.
struct Spec {
  DType dtype = DType::kF32;
  Dims dims = {};
  Layout layout = {};  ///< plain unless given
  Dims strides = {};   ///< in elements; overrides `layout` when not empty
  bool any = false;
  bool bf16 = false;  ///< f32 values that lie as bf16
};

struct PostOp {
  enum class Kind : uint8_t { kEltwise, kSum, kAdd, kMul };
  Kind kind;
  int algorithm = 0;  ///< kEltwise: from EltwiseOf
  float alpha = 0, beta = 0;
  float scale = 1;         ///< kSum
  int32_t zero_point = 0;  ///< kSum
  Spec operand = {};       ///< kAdd, kMul
};

/// The eltwise of an activation node (Relu, Clip, Gelu, ...) when oneDNN has it.
std::optional<PostOp> EltwiseOf(const Node& node);
/// y = alpha * x + beta.
PostOp Linear(float alpha, float beta);
/// y = min(max(x, lo), hi).
PostOp Clip(float lo, float hi);
/// y = max(x, 0).
PostOp Relu();
/// The nearest integer, halves to even.
PostOp RoundHalfEven();

/// Whether oneDNN computes `ops` with the parameters that they have: in 2.6 all activations of one
/// algorithm behind a primitive take those of the first.
bool KeepsParameters(std::span<const PostOp> ops);
inline constexpr std::string_view kLosesParameters =
    "oneDNN gives two activations of one kind the same parameters";

/// Attributes common to all primitives.
struct Attributes {
  std::vector<PostOp> post_ops = {};
  std::vector<float> output_scales = {};  ///< one, or one per channel (dimension 1)
  int32_t src_zero_point = 0, dst_zero_point = 0, weights_zero_point = 0;
};

/// Convolution and its transpose. weights are [G, OC/G, IC/G, k...] when groups > 1, else
/// [OC, IC, k...]; for the transpose OC and IC are those of the transposed operator.
struct ConvSpec {
  Spec src, weights, bias, dst;  ///< bias.dims empty: none
  Dims strides, dilations, pads_begin, pads_end;
  bool transposed = false;
};
struct MatMulSpec {
  Spec src, weights, bias, dst;
};
struct PoolSpec {
  Spec src, dst;
  Dims kernel, strides, pads_begin, pads_end;
  enum class Kind : uint8_t { kMax, kAverage, kAverageWithPadding } kind = Kind::kMax;
};

/// Which tensor of a primitive an argument is.
enum class Arg : uint8_t {
  kSource,
  kSrc,
  kSrc1,
  kWeights,
  kBias,
  kDst,
  kScale,
  kShift,
  kMean,
  kVariance,
  kWeightGradient,
  kDstGradient
};

class Primitive;  // immutable
struct Made {
  std::shared_ptr<const Primitive> primitive;
  std::string name;  ///< "onednn:jit:avx512_core"
  Layout src, src1, weights, dst;
  int64_t scratch_bytes = 0;
};

Result<Made> MakeConv(const ConvSpec& spec, const Attributes& attributes);
/// As oneDNN names what MakeConv would make ("jit:avx2"), without making it.
Result<std::string> ConvImplementation(const ConvSpec& spec, const Attributes& attributes);
/// The gradient of a convolution's weights, by src and dst (its gradient); all tensors in the
/// layouts that oneDNN likes. On one thread, so that its sums are cut by nothing but their extents.
Result<Made> MakeWeightGradient(const ConvSpec& spec);
Result<Made> MakeMatMul(const MatMulSpec& spec, const Attributes& attributes);
Result<Made> MakePool(const PoolSpec& spec);
Result<Made> MakeEltwise(const Spec& src, const PostOp& op);
enum class BinaryKind : uint8_t { kAdd, kSub, kMul, kDiv, kMax, kMin };
Result<Made> MakeBinary(BinaryKind kind, const Spec& a, const Spec& b, const Spec& dst,
                        const Attributes& attributes);
Result<Made> MakeBatchNorm(const Spec& src, float epsilon);
/// Along `axis`; the sources may lie in different layouts.
Result<Made> MakeConcat(const std::vector<Spec>& sources, const Spec& dst, int axis);

/// An argument that comes from `args[index]` of a launch, or from a buffer of its own.
struct Binding {
  Arg arg = Arg::kSrc;
  int index = -1;  ///< -1: `constant`
  std::shared_ptr<const Buffer> constant = {};
  int post_op = -1;  ///< operand of this post-op instead of `arg`
  int source = 0;    ///< which one, of Arg::kSource
};
/// `scratch_index`: where the scratch pointer stands among the arguments.
std::shared_ptr<const Launch> MakeLaunch(const Made& made, std::vector<Binding> bindings,
                                         int scratch_index);

/// A copy of constant data in another layout.
Result<std::shared_ptr<const Buffer>> Pack(const Spec& from, const std::byte* data,
                                           const Layout& to);
/// The data that Pack made `packed` of; the bytes that `to` covers lie as it says. Unsupported
/// where Pack writes more than the elements, or other ones.
Status Unpack(const Spec& to, const Buffer& packed, const Layout& from, std::byte* data);
/// Whether Unpack can.
bool CanUnpack(const Spec& to, const Layout& from);
/// A copy of operand 0 to result 0 in another layout.
Result<Prepared> MakeReorder(DType dtype, const Dims& dims, const Layout& from, const Layout& to);

}  // namespace infer::onednn
