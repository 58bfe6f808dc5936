/// Primitives of oneDNN out of their descriptions.
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn_desc.h"
#include "runtime/cpu/onednn/onednn_primitive.h"
#include "runtime/cpu/onednn/openmp.h"

namespace infer::onednn {
namespace {

using dnnl::memory;
using Algorithm = dnnl::algorithm;

Result<dnnl::primitive_attr> AttrOf(const Attributes& a) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  for (const PostOp& p : a.post_ops) {
    switch (p.kind) {
      case PostOp::Kind::kEltwise:
        ops.append_eltwise(p.scale, static_cast<Algorithm>(p.algorithm), p.alpha, p.beta);
        break;
      case PostOp::Kind::kSum: ops.append_sum(p.scale, p.zero_point); break;
      case PostOp::Kind::kAdd:
      case PostOp::Kind::kMul: {
        INFER_ASSIGN(const memory::desc md, DescOf(p.operand));
        ops.append_binary(
            p.kind == PostOp::Kind::kAdd ? Algorithm::binary_add : Algorithm::binary_mul, md);
        break;
      }
    }
  }
  attr.set_post_ops(ops);
  if (!a.output_scales.empty())
    attr.set_output_scales(a.output_scales.size() > 1 ? 1 << 1 : 0, a.output_scales);
  if (a.src_zero_point) attr.set_zero_points(DNNL_ARG_SRC, 0, {a.src_zero_point});
  if (a.weights_zero_point) attr.set_zero_points(DNNL_ARG_WEIGHTS, 0, {a.weights_zero_point});
  if (a.dst_zero_point) attr.set_zero_points(DNNL_ARG_DST, 0, {a.dst_zero_point});
  return attr;
}

/// Whether it is cut into sums by the number of threads that it is made for, or runs with.
bool SumsByThreads(std::string_view impl) {
  return impl.starts_with("gemm") || impl.find(":gemm") != std::string_view::npos;
}

template <typename P, typename D>
Made Finish(const D& pd, std::vector<std::pair<int, memory::desc>> descs,
            const Attributes* attributes = nullptr) {
  auto p = std::make_shared<Primitive>();
  p->primitive = P(pd);
  p->descs = std::move(descs);
  if (attributes)
    for (size_t i = 0; i < attributes->post_ops.size(); ++i) {
      const auto kind = attributes->post_ops[i].kind;
      if (kind == PostOp::Kind::kAdd || kind == PostOp::Kind::kMul)
        p->descs.emplace_back(PostOpArg(static_cast<int>(i)),
                              *DescOf(attributes->post_ops[i].operand));
    }
  p->scratch = pd.scratchpad_desc();
  const std::string impl = pd.impl_info_str();
  p->one_thread = SumsByThreads(impl);
  Made made;
  made.name = Cat("onednn:", impl);
  made.scratch_bytes = static_cast<int64_t>(p->scratch.get_size());
  if (auto* d = p->Find(DNNL_ARG_SRC)) made.src = LayoutOf(*d);
  if (auto* d = p->Find(DNNL_ARG_SRC_1)) made.src1 = LayoutOf(*d);
  if (auto* d = p->Find(DNNL_ARG_WEIGHTS)) made.weights = LayoutOf(*d);
  if (auto* d = p->Find(DNNL_ARG_DST)) made.dst = LayoutOf(*d);
  made.primitive = std::move(p);
  return made;
}

/// oneDNN's plain reference code is slower than ours.
Result<Made> RefuseReference(Made made) {
  if (made.name.find("ref:") != std::string::npos ||
      made.name.find("ref_int8:") != std::string::npos ||
      made.name.rfind("onednn:simple:any", 0) == 0)
    return Unsupported("oneDNN would run its plain reference code");
  return made;
}

Prepared ReorderOf(const dnnl::reorder::primitive_desc& pd, const memory::desc& from,
                   const memory::desc& to) {
  const Made made = Finish<dnnl::reorder>(pd, {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
  Prepared p;
  p.name = made.name;
  p.scratch_bytes = made.scratch_bytes;
  p.launch = MakeLaunch(made, {{Arg::kSrc, 0}, {Arg::kDst, 1}}, 2);
  return p;
}

/// The numbers of a convolution or pool that oneDNN keeps in `int`.
Status CheckWindow(const Dims& src, const Dims& dst, std::initializer_list<const Dims*> counts) {
  for (const Dims* d : counts) INFER_TRY(CheckCounts(*d));
  INFER_TRY(CheckProduct(src, 2));  // pixels
  return CheckProduct(dst, 2);
}

/// What convolutions and matrix products have in common.
struct ProductDescs {
  memory::desc src, weights, dst, bias;  // no bias: zero
  dnnl::primitive_attr attr;
};
template <typename S>
Result<ProductDescs> DescsOf(const S& s, const Attributes& a) {
  ProductDescs d;
  INFER_ASSIGN(d.src, DescOf(s.src));
  INFER_ASSIGN(d.weights, DescOf(s.weights));
  INFER_ASSIGN(d.dst, DescOf(s.dst));
  INFER_ASSIGN(d.attr, AttrOf(a));
  if (!s.bias.dims.empty()) {
    INFER_ASSIGN(d.bias, DescOf(s.bias));
  }
  return d;
}
/// Below so many multiplications of bytes AMX's kernels take longer than the others, by what they
/// do around the product: 28 us for each 1x1 convolution, 8 us for a 3x3 one (oneDNN 2.6.3, Intel
/// Xeon, one thread, 2026-11-25; equal at 7 million, docs/performance.md).
constexpr int64_t kLeastForAmx = 6'500'000;

template <typename D>
void LeaveAmxToLargeProducts(D& pd, int64_t multiplications) {
  const auto is_amx = [](const D& d) {
    return std::string_view(d.impl_info_str()).find("amx") != std::string_view::npos;
  };
  // Of bf16 there are no faster ones.
  const bool is_bf16 = pd.weights_desc().data.data_type == dnnl_bf16;
  if (multiplications >= kLeastForAmx || is_bf16 || !is_amx(pd)) return;
  for (D other = pd; other.next_impl();)
    if (!is_amx(other)) {
      pd = std::move(other);
      return;
    }
}

template <typename P, typename D>
Result<Made> FinishProduct(D pd, const ProductDescs& d, const Attributes& a,
                           int64_t multiplications) {
  LeaveAmxToLargeProducts(pd, multiplications);
  std::vector<std::pair<int, memory::desc>> descs = {{DNNL_ARG_SRC, pd.src_desc()},
                                                     {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                     {DNNL_ARG_DST, pd.dst_desc()}};
  if (!d.bias.is_zero()) descs.emplace_back(DNNL_ARG_BIAS, pd.bias_desc());
  return RefuseReference(Finish<P>(pd, std::move(descs), &a));
}

/// f(tag of the primitive, its description, descriptions of its tensors).
template <typename F>
auto WithConvDesc(const ConvSpec& s, const ProductDescs& d, const F& f) {
  Dims dilations = s.dilations;
  for (int64_t& v : dilations) --v;  // oneDNN counts the gaps
  const auto make = [&](auto tag, Algorithm algorithm) {
    using P = typename decltype(tag)::type;
    constexpr auto kInference = dnnl::prop_kind::forward_inference;
    return f(tag, d.bias.is_zero()
                      ? typename P::desc(kInference, algorithm, d.src, d.weights, d.dst, s.strides,
                                         dilations, s.pads_begin, s.pads_end)
                      : typename P::desc(kInference, algorithm, d.src, d.weights, d.bias, d.dst,
                                         s.strides, dilations, s.pads_begin, s.pads_end));
  };
  return s.transposed
             ? make(std::type_identity<dnnl::deconvolution_forward>(),
                    Algorithm::deconvolution_direct)
             : make(std::type_identity<dnnl::convolution_forward>(), Algorithm::convolution_direct);
}

/// A product that is cut into sums by threads is made for as many as take whole ones of `products`
/// that are independent, alike: it has the same bits on any number.
template <typename P, typename Desc>
Result<Made> MakeProduct(const Desc& desc, const ProductDescs& d, const Attributes& a,
                         int64_t multiplications, int64_t products = 1) {
  typename P::primitive_desc pd(desc, d.attr, Engine());
  int threads = 0;
  if (SumsByThreads(pd.impl_info_str()))
    for (threads = CurrentLanes(); products % threads != 0;) --threads;
  const ThreadLimit limit(threads);
  if (threads > 0) pd = {desc, d.attr, Engine()};
  return FinishProduct<P>(std::move(pd), d, a, multiplications);
}

Status CheckConv(const ConvSpec& s) {
  INFER_TRY(
      CheckWindow(s.src.dims, s.dst.dims, {&s.strides, &s.dilations, &s.pads_begin, &s.pads_end}));
  return CheckProduct(s.weights.dims, 0);
}

}  // namespace

Result<Made> MakeConv(const ConvSpec& s, const Attributes& a) {
  return Guarded([&]() -> Result<Made> {
    INFER_TRY(CheckConv(s));
    INFER_ASSIGN(const ProductDescs d, DescsOf(s, a));
    // Each element of one side meets the weights of its channel.
    const Dims& one_side = s.transposed ? s.src.dims : s.dst.dims;
    const int64_t multiplications =
        NumElements(one_side) / std::max<int64_t>(one_side[1], 1) * NumElements(s.weights.dims);
    return WithConvDesc(s, d, [&](auto tag, const auto& desc) {
      using P = typename decltype(tag)::type;
      return MakeProduct<P>(desc, d, a, multiplications);
    });
  });
}

Result<std::string> ConvImplementation(const ConvSpec& s, const Attributes& a) {
  return Guarded([&]() -> Result<std::string> {
    INFER_TRY(CheckConv(s));
    INFER_ASSIGN(const ProductDescs d, DescsOf(s, a));
    return WithConvDesc(s, d, [&](auto tag, const auto& desc) {
      using P = typename decltype(tag)::type;
      return std::string(typename P::primitive_desc(desc, d.attr, Engine()).impl_info_str());
    });
  });
}

Result<Made> MakeWeightGradient(const ConvSpec& s) {
  return Guarded([&]() -> Result<Made> {
    INFER_TRY(CheckWindow(s.src.dims, s.dst.dims,
                          {&s.strides, &s.dilations, &s.pads_begin, &s.pads_end}));
    INFER_TRY(CheckProduct(s.weights.dims, 0));
    INFER_ASSIGN(const ProductDescs d, DescsOf(s, {}));
    Dims dilations = s.dilations;
    for (int64_t& v : dilations) --v;  // oneDNN counts the gaps
    const ThreadLimit alone(1);
    using Forward = dnnl::convolution_forward;
    using Backward = dnnl::convolution_backward_weights;
    constexpr auto kDirect = Algorithm::convolution_direct;
    const Forward::primitive_desc hint(
        Forward::desc(dnnl::prop_kind::forward_training, kDirect, d.src, d.weights, d.dst,
                      s.strides, dilations, s.pads_begin, s.pads_end),
        Engine());
    const Backward::primitive_desc pd(Backward::desc(kDirect, d.src, d.weights, d.dst, s.strides,
                                                     dilations, s.pads_begin, s.pads_end),
                                      d.attr, Engine(), hint);
    Made made = Finish<Backward>(pd, {{DNNL_ARG_SRC, pd.src_desc()},
                                      {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                                      {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}});
    auto primitive = std::make_shared<Primitive>(*made.primitive);
    primitive->one_thread = true;
    made.primitive = std::move(primitive);
    made.weights = LayoutOf(pd.diff_weights_desc());
    made.dst = LayoutOf(pd.diff_dst_desc());
    return RefuseReference(std::move(made));
  });
}

Result<Made> MakeMatMul(const MatMulSpec& s, const Attributes& a) {
  return Guarded([&]() -> Result<Made> {
    // Matrices of a batch are counted in `int`, too.
    const Dims& y = s.dst.dims;
    const Dims batch(y.begin(), y.end() - std::min<int64_t>(2, std::ssize(y)));
    INFER_TRY(CheckProduct(batch, 0));
    INFER_ASSIGN(const ProductDescs d, DescsOf(s, a));
    using P = dnnl::matmul;
    const P::desc desc = d.bias.is_zero() ? P::desc(d.src, d.weights, d.dst)
                                          : P::desc(d.src, d.weights, d.bias, d.dst);
    return MakeProduct<P>(desc, d, a, NumElements(y) * s.src.dims.back(), NumElements(batch));
  });
}

Result<Made> MakePool(const PoolSpec& s) {
  return Guarded([&]() -> Result<Made> {
    INFER_TRY(
        CheckWindow(s.src.dims, s.dst.dims, {&s.kernel, &s.strides, &s.pads_begin, &s.pads_end}));
    INFER_TRY(CheckProduct(s.kernel, 0));
    INFER_ASSIGN(const memory::desc src, DescOf(s.src));
    INFER_ASSIGN(const memory::desc dst, DescOf(s.dst));
    INFER_ASSIGN(const dnnl::primitive_attr attr, AttrOf({}));
    const Algorithm kind = s.kind == PoolSpec::Kind::kMax ? Algorithm::pooling_max
                           : s.kind == PoolSpec::Kind::kAverage
                               ? Algorithm::pooling_avg_exclude_padding
                               : Algorithm::pooling_avg_include_padding;
    using P = dnnl::pooling_forward;
    const P::desc d(dnnl::prop_kind::forward_inference, kind, src, dst, s.strides, s.kernel,
                    s.pads_begin, s.pads_end);
    const P::primitive_desc pd(d, attr, Engine());
    return RefuseReference(
        Finish<P>(pd, {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_DST, pd.dst_desc()}}));
  });
}

Result<Made> MakeEltwise(const Spec& s, const PostOp& op) {
  return Guarded([&]() -> Result<Made> {
    INFER_ASSIGN(const memory::desc src, DescOf(s));
    INFER_ASSIGN(const dnnl::primitive_attr attr, AttrOf({}));
    using P = dnnl::eltwise_forward;
    const P::desc d(dnnl::prop_kind::forward_inference, static_cast<Algorithm>(op.algorithm), src,
                    op.alpha, op.beta);
    const P::primitive_desc pd(d, attr, Engine());
    return RefuseReference(Finish<P>(pd, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, pd.dst_desc()}}));
  });
}

Result<Made> MakeBinary(BinaryKind kind, const Spec& a, const Spec& b, const Spec& dst,
                        const Attributes& attributes) {
  return Guarded([&]() -> Result<Made> {
    static constexpr Algorithm kAlgorithms[] = {Algorithm::binary_add, Algorithm::binary_sub,
                                                Algorithm::binary_mul, Algorithm::binary_div,
                                                Algorithm::binary_max, Algorithm::binary_min};
    INFER_ASSIGN(const memory::desc src0, DescOf(a));
    INFER_ASSIGN(const memory::desc src1, DescOf(b));
    INFER_ASSIGN(const memory::desc out, DescOf(dst));
    INFER_ASSIGN(const dnnl::primitive_attr attr, AttrOf(attributes));
    using P = dnnl::binary;
    const P::desc d(kAlgorithms[static_cast<size_t>(kind)], src0, src1, out);
    const P::primitive_desc pd(d, attr, Engine());
    return RefuseReference(Finish<P>(
        pd, {{DNNL_ARG_SRC, src0}, {DNNL_ARG_SRC_1, src1}, {DNNL_ARG_DST, pd.dst_desc()}}));
  });
}

Result<Made> MakeBatchNorm(const Spec& s, float epsilon) {
  return Guarded([&]() -> Result<Made> {
    using Flags = dnnl::normalization_flags;
    INFER_ASSIGN(const memory::desc src, DescOf(s));
    INFER_ASSIGN(const dnnl::primitive_attr attr, AttrOf({}));
    using P = dnnl::batch_normalization_forward;
    const P::desc d(dnnl::prop_kind::forward_inference, src, epsilon,
                    Flags::use_global_stats | Flags::use_scale | Flags::use_shift);
    const P::primitive_desc pd(d, attr, Engine());
    const memory::desc channel = PlainDesc(memory::data_type::f32, {s.dims[1]});
    return RefuseReference(Finish<P>(pd, {{DNNL_ARG_SRC, src},
                                          {DNNL_ARG_DST, pd.dst_desc()},
                                          {DNNL_ARG_SCALE, channel},
                                          {DNNL_ARG_SHIFT, channel},
                                          {DNNL_ARG_MEAN, channel},
                                          {DNNL_ARG_VARIANCE, channel}}));
  });
}

Result<Made> MakeConcat(const std::vector<Spec>& sources, const Spec& dst, int axis) {
  return Guarded([&]() -> Result<Made> {
    std::vector<memory::desc> src;
    for (const Spec& s : sources) {
      INFER_ASSIGN(src.emplace_back(), DescOf(s));
    }
    INFER_ASSIGN(memory::desc out, DescOf(dst));
    INFER_ASSIGN(const dnnl::primitive_attr attr, AttrOf({}));
    const dnnl::concat::primitive_desc pd(out, axis, src, Engine(), attr);
    std::vector<std::pair<int, memory::desc>> descs = {{DNNL_ARG_DST, pd.dst_desc()}};
    for (size_t i = 0; i < src.size(); ++i)
      descs.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), src[i]);
    return Finish<dnnl::concat>(pd, std::move(descs));  // its reference code is made of reorders
  });
}

Result<Prepared> MakeReorder(DType dtype, const Dims& dims, const Layout& from, const Layout& to) {
  if (from == to)
    return MakeCopy(from.plain() ? PackedBytes(dtype, NumElements(dims)) : from.bytes);
  return Guarded([&]() -> Result<Prepared> {
    INFER_ASSIGN(const memory::desc src, DescOf({dtype, dims, from}));
    INFER_ASSIGN(const memory::desc dst, DescOf({dtype, dims, to}));
    const dnnl::primitive_attr attr = *AttrOf({});
    return ReorderOf(dnnl::reorder::primitive_desc(Engine(), src, Engine(), dst, attr), src, dst);
  });
}

}  // namespace infer::onednn
