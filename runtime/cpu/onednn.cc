#include "runtime/cpu/onednn.h"

#include <cstdlib>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

#include "lib/support/strings.h"
#include "runtime/cpu/launch.h"
#include "runtime/cpu/openmp_threads.h"

namespace infer::onednn {
namespace {

using dnnl::memory;
using Algorithm = dnnl::algorithm;

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Result<memory::data_type> TypeOf(DType t) {
  switch (t) {
    case DType::kF32: return memory::data_type::f32;
    case DType::kU8: return memory::data_type::u8;
    case DType::kI8: return memory::data_type::s8;
    case DType::kI32: return memory::data_type::s32;
    default: return Unsupported(Cat("oneDNN has no ", Name(t)));
  }
}

memory::desc FromCode(const Layout& layout) {
  memory::desc md;
  std::memcpy(&md.data, layout.code.data(), sizeof md.data);
  return md;
}

memory::desc PlainDesc(memory::data_type type, const Dims& dims) {
  return memory::desc(dims, type, Strides(dims));
}

/// Plain when the bytes are those of the dense row-major form.
Layout LayoutOf(const memory::desc& md) {
  const Dims dims = md.dims();
  if (md == PlainDesc(md.data_type(), dims)) return {};
  const auto bytes = static_cast<int64_t>(md.get_size());
  const auto& d = md.data;
  const int64_t plain_bytes =
      NumElements(dims) * static_cast<int64_t>(memory::data_type_size(md.data_type()));
  // A blocked or channels-last form of [N, C, 1, ...] without padding orders nothing otherwise.
  bool flat = bytes == plain_bytes && d.ndims >= 2 && d.format_kind == dnnl_blocked;
  for (int i = 2; i < d.ndims; ++i) flat &= d.dims[i] == 1;
  flat &= d.format_desc.blocking.inner_nblks == 0 ||
          (d.format_desc.blocking.inner_nblks == 1 && d.format_desc.blocking.inner_idxs[0] == 1);
  flat &= d.dims[0] == 1 || d.format_desc.blocking.strides[0] == d.dims[1];
  if (flat) return {};
  return {std::string(reinterpret_cast<const char*>(&md.data), sizeof md.data), bytes};
}

Result<memory::desc> DescOf(const Spec& s) {
  INFER_ASSIGN(const memory::data_type type, TypeOf(s.dtype));
  if (s.any) return memory::desc(s.dims, type, memory::format_tag::any);
  if (!s.strides.empty()) return memory::desc(s.dims, type, s.strides);
  if (!s.layout.plain()) return FromCode(s.layout);
  return PlainDesc(type, s.dims);
}

/// Runs `f`; what oneDNN throws becomes a Status.
template <typename F>
auto Guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    return Unsupported(Cat("oneDNN has no implementation (", e.what(), ")"));
  }
}

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

int DnnlArg(Arg a) {
  switch (a) {
    case Arg::kSource: return DNNL_ARG_MULTIPLE_SRC;
    case Arg::kSrc: return DNNL_ARG_SRC;
    case Arg::kSrc1: return DNNL_ARG_SRC_1;
    case Arg::kWeights: return DNNL_ARG_WEIGHTS;
    case Arg::kBias: return DNNL_ARG_BIAS;
    case Arg::kDst: return DNNL_ARG_DST;
    case Arg::kScale: return DNNL_ARG_SCALE;
    case Arg::kShift: return DNNL_ARG_SHIFT;
    case Arg::kMean: return DNNL_ARG_MEAN;
    case Arg::kVariance: return DNNL_ARG_VARIANCE;
  }
  return 0;
}

int PostOpArg(int i) { return DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1; }

}  // namespace

class Primitive {
 public:
  dnnl::primitive primitive;
  std::vector<std::pair<int, memory::desc>> descs;  // by oneDNN argument
  memory::desc scratch;
  bool one_thread = false;  // its sums depend on the number of threads
  const memory::desc* Find(int arg) const {
    for (const auto& [a, d] : descs)
      if (a == arg) return &d;
    return nullptr;
  }
};

namespace {

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
  p->one_thread = impl.rfind("gemm", 0) == 0;
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
  if (made.name.rfind("onednn:ref", 0) == 0 || made.name.rfind("onednn:simple:any", 0) == 0)
    return Unsupported("oneDNN would run its plain reference code");
  return made;
}

struct State final : LaunchState {
  ~State() override {
    for (auto& a : args) dnnl_memory_destroy(a.memory);
    if (stream) dnnl_stream_destroy(stream);
  }
  dnnl_stream_t stream = nullptr;
  std::vector<dnnl_exec_arg_t> args;  // bindings in order, then scratch
  std::vector<const void*> handles;
};

class PrimitiveLaunch final : public Launch {
 public:
  PrimitiveLaunch(const Made& made, std::vector<Binding> bindings, int scratch_index)
      : primitive_(made.primitive), bindings_(std::move(bindings)), scratch_(scratch_index) {
    if (made.scratch_bytes == 0) scratch_ = -1;
  }

  std::unique_ptr<LaunchState> NewState() const override {
    auto state = std::make_unique<State>();
    dnnl_stream_create(&state->stream, Engine().get(), dnnl_stream_default_flags);
    for (const Binding& b : bindings_) {
      const int arg = b.post_op >= 0 ? PostOpArg(b.post_op) : DnnlArg(b.arg) + b.source;
      const memory::desc* md = primitive_->Find(arg);
      INFER_CHECK(md);
      Add(*state, arg, *md,
          b.constant ? const_cast<std::byte*>(b.constant->data()) : DNNL_MEMORY_NONE);
    }
    if (scratch_ >= 0) Add(*state, DNNL_ARG_SCRATCHPAD, primitive_->scratch, DNNL_MEMORY_NONE);
    return state;
  }

  Status Run(std::byte* const* args, LaunchState* base) const override {
    auto& state = static_cast<State&>(*base);
    for (size_t i = 0; i < bindings_.size(); ++i)
      if (bindings_[i].index >= 0) Point(state, i, args[bindings_[i].index]);
    if (scratch_ >= 0) Point(state, bindings_.size(), args[scratch_]);
    const int threads = primitive_->one_thread ? omp_get_max_threads() : 0;
    if (threads > 1) omp_set_num_threads(1);
    const dnnl_status_t s =
        dnnl_primitive_execute(primitive_->primitive.get(), state.stream,
                               static_cast<int>(state.args.size()), state.args.data());
    if (threads > 1) omp_set_num_threads(threads);
    if (s != dnnl_success) return Internal(Cat("oneDNN failed with status ", int{s}));
    return {};
  }

 private:
  static void Add(State& state, int arg, const memory::desc& md, void* handle) {
    dnnl_memory_t m = nullptr;
    if (dnnl_memory_create(&m, &md.data, Engine().get(), handle) != dnnl_success)
      throw std::bad_alloc();
    state.args.push_back({arg, m});
    state.handles.push_back(handle);
  }
  static void Point(State& state, size_t i, const std::byte* p) {
    if (state.handles[i] == p) return;
    // The plain setter of 2.x zeroes the padding of blocked tensors: the data is not there yet.
    dnnl_memory_set_data_handle(state.args[i].memory, const_cast<std::byte*>(p));
    state.handles[i] = p;
  }

  std::shared_ptr<const Primitive> primitive_;
  std::vector<Binding> bindings_;
  int scratch_;
};

Prepared ReorderOf(const dnnl::reorder::primitive_desc& pd, const memory::desc& from,
                   const memory::desc& to) {
  const Made made = Finish<dnnl::reorder>(pd, {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
  Prepared p;
  p.name = made.name;
  p.scratch_bytes = made.scratch_bytes;
  p.launch = MakeLaunch(made, {{Arg::kSrc, 0}, {Arg::kDst, 1}}, 2);
  return p;
}

}  // namespace

ThreadScope::ThreadScope(int threads) : previous_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
}
ThreadScope::~ThreadScope() { omp_set_num_threads(previous_); }

Status CapIsa() {
  const char* text = std::getenv("INFER_MAX_ISA");
  if (!text || !*text) return {};
  struct Cap {
    std::string_view name;
    dnnl::cpu_isa isa;
  };
  static constexpr Cap kCaps[] = {{"sse4", dnnl::cpu_isa::sse41},
                                  {"avx", dnnl::cpu_isa::avx},
                                  {"avx2", dnnl::cpu_isa::avx2},
                                  {"avx2_vnni", dnnl::cpu_isa::avx2_vnni},
                                  {"avx512", dnnl::cpu_isa::avx512_core},
                                  {"vnni", dnnl::cpu_isa::avx512_core_vnni},
                                  {"all", dnnl::cpu_isa::all}};
  for (const Cap& c : kCaps)
    if (c.name == text) {
      dnnl::set_max_cpu_isa(c.isa);  // refused after the first primitive: then it is set already
      return {};
    }
  return InvalidArgument(Cat("INFER_MAX_ISA is '", text,
                             "'; it can be sse4, avx, avx2, avx2_vnni, avx512, vnni or all"));
}

bool HasExactInt8() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  auto has = [isa](dnnl::cpu_isa wanted) {
    const auto w = static_cast<unsigned>(wanted);
    return (isa & w) == w;
  };
  return has(dnnl::cpu_isa::avx512_core_vnni) || has(dnnl::cpu_isa::avx2_vnni);
}

Layout ChannelBlocked(const Dims& dims, int block) {
  using Tag = memory::format_tag;
  static constexpr Tag k16[] = {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c};
  static constexpr Tag k8[] = {Tag::nCw8c, Tag::nChw8c, Tag::nCdhw8c};
  INFER_CHECK((block == 8 || block == 16) && dims.size() >= 3 && dims.size() <= 5);
  const Tag tag = (block == 16 ? k16 : k8)[dims.size() - 3];
  return LayoutOf(memory::desc(dims, memory::data_type::f32, tag));
}

Layout ChannelsLast(DType dtype, const Dims& dims) {
  using Tag = memory::format_tag;
  static constexpr Tag kTags[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  INFER_CHECK(dims.size() >= 3 && dims.size() <= 5);
  return LayoutOf(memory::desc(dims, *TypeOf(dtype), kTags[dims.size() - 3]));
}

PostOp Linear(float alpha, float beta) {
  return {PostOp::Kind::kEltwise, static_cast<int>(Algorithm::eltwise_linear), alpha, beta};
}

PostOp Clip(float lo, float hi) {
  return {PostOp::Kind::kEltwise, static_cast<int>(Algorithm::eltwise_clip_v2), lo, hi};
}

PostOp RoundHalfEven() {
  return {PostOp::Kind::kEltwise, static_cast<int>(Algorithm::eltwise_round)};
}

std::optional<PostOp> EltwiseOf(const Node& n) {
  auto eltwise = [](Algorithm a, float alpha = 0, float beta = 0) {
    return PostOp{PostOp::Kind::kEltwise, static_cast<int>(a), alpha, beta};
  };
  const bool microsoft = n.def().domain == "com.microsoft";
  if (!n.def().domain.empty() && n.def().domain != "infer" && !microsoft) return {};
  if (n.Is("Clip")) {
    float bound[2] = {-std::numeric_limits<float>::max(), std::numeric_limits<float>::max()};
    for (size_t i = 1; i <= 2; ++i) {
      const Value* v = n.input(i);
      if (!v) continue;
      if (!v->constant() || v->dtype() != DType::kF32 || v->constant()->num_elements() != 1)
        return {};
      bound[i - 1] = static_cast<float>(v->constant()->At(0));
    }
    if (!(bound[0] <= bound[1])) return {};
    return eltwise(Algorithm::eltwise_clip_v2, bound[0], bound[1]);
  }
  if (n.inputs().size() != 1) return {};
  if (n.Is("Relu")) return eltwise(Algorithm::eltwise_relu);
  if (n.Is("LeakyRelu")) return eltwise(Algorithm::eltwise_relu, n.Attr<float>("alpha"));
  if (n.Is("Elu")) return eltwise(Algorithm::eltwise_elu, n.Attr<float>("alpha"));
  if (n.Is("Sigmoid")) return eltwise(Algorithm::eltwise_logistic);
  if (n.Is("Tanh")) return eltwise(Algorithm::eltwise_tanh);
  if (n.Is("HardSwish")) return eltwise(Algorithm::eltwise_hardswish);
  if (n.Is("Abs")) return eltwise(Algorithm::eltwise_abs);
  if (n.Is("Gelu"))
    return eltwise(n.Attr<std::string>("approximate") == "tanh" ? Algorithm::eltwise_gelu_tanh
                                                                : Algorithm::eltwise_gelu_erf);
  if (n.Is("Swish") || n.Is("QuickGelu", "com.microsoft"))
    return eltwise(Algorithm::eltwise_swish, n.Attr<float>("alpha"));
  if (n.Is("SiLU", "infer") || n.Is("Silu", "infer"))
    return eltwise(Algorithm::eltwise_swish, 1.0f);
  return {};
}

Result<Made> MakeConv(const ConvSpec& s, const Attributes& a) {
  return Guarded([&]() -> Result<Made> {
    INFER_ASSIGN(const memory::desc src, DescOf(s.src));
    INFER_ASSIGN(const memory::desc weights, DescOf(s.weights));
    INFER_ASSIGN(const memory::desc dst, DescOf(s.dst));
    INFER_ASSIGN(const dnnl::primitive_attr attr, AttrOf(a));
    memory::desc bias;
    if (!s.bias.dims.empty()) {
      INFER_ASSIGN(bias, DescOf(s.bias));
    }
    Dims dilations = s.dilations;
    for (int64_t& d : dilations) --d;  // oneDNN counts the gaps
    auto finish = [&](auto tag, const auto& pd) {
      std::vector<std::pair<int, memory::desc>> descs = {{DNNL_ARG_SRC, pd.src_desc()},
                                                         {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                         {DNNL_ARG_DST, pd.dst_desc()}};
      if (!s.bias.dims.empty()) descs.emplace_back(DNNL_ARG_BIAS, pd.bias_desc());
      return RefuseReference(Finish<typename decltype(tag)::type>(pd, std::move(descs), &a));
    };
    constexpr auto kInference = dnnl::prop_kind::forward_inference;
    if (s.transposed) {
      using P = dnnl::deconvolution_forward;
      const P::desc d = bias.is_zero()
                            ? P::desc(kInference, Algorithm::deconvolution_direct, src, weights,
                                      dst, s.strides, dilations, s.pads_begin, s.pads_end)
                            : P::desc(kInference, Algorithm::deconvolution_direct, src, weights,
                                      bias, dst, s.strides, dilations, s.pads_begin, s.pads_end);
      return finish(std::type_identity<P>(), P::primitive_desc(d, attr, Engine()));
    }
    using P = dnnl::convolution_forward;
    const P::desc d = bias.is_zero()
                          ? P::desc(kInference, Algorithm::convolution_direct, src, weights, dst,
                                    s.strides, dilations, s.pads_begin, s.pads_end)
                          : P::desc(kInference, Algorithm::convolution_direct, src, weights, bias,
                                    dst, s.strides, dilations, s.pads_begin, s.pads_end);
    return finish(std::type_identity<P>(), P::primitive_desc(d, attr, Engine()));
  });
}

Result<Made> MakeMatMul(const MatMulSpec& s, const Attributes& a) {
  return Guarded([&]() -> Result<Made> {
    INFER_ASSIGN(const memory::desc src, DescOf(s.src));
    INFER_ASSIGN(const memory::desc weights, DescOf(s.weights));
    INFER_ASSIGN(const memory::desc dst, DescOf(s.dst));
    INFER_ASSIGN(const dnnl::primitive_attr attr, AttrOf(a));
    memory::desc bias;
    if (!s.bias.dims.empty()) {
      INFER_ASSIGN(bias, DescOf(s.bias));
    }
    using P = dnnl::matmul;
    const P::desc d =
        bias.is_zero() ? P::desc(src, weights, dst) : P::desc(src, weights, bias, dst);
    const P::primitive_desc pd(d, attr, Engine());
    std::vector<std::pair<int, memory::desc>> descs = {{DNNL_ARG_SRC, pd.src_desc()},
                                                       {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                       {DNNL_ARG_DST, pd.dst_desc()}};
    if (!bias.is_zero()) descs.emplace_back(DNNL_ARG_BIAS, pd.bias_desc());
    return RefuseReference(Finish<P>(pd, std::move(descs), &a));
  });
}

Result<Made> MakePool(const PoolSpec& s) {
  return Guarded([&]() -> Result<Made> {
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

std::shared_ptr<const Launch> MakeLaunch(const Made& made, std::vector<Binding> bindings,
                                         int scratch_index) {
  return std::make_shared<PrimitiveLaunch>(made, std::move(bindings), scratch_index);
}

Result<std::shared_ptr<const Buffer>> Pack(const Spec& from, const std::byte* data,
                                           const Layout& to) {
  return Guarded([&]() -> Result<std::shared_ptr<const Buffer>> {
    INFER_ASSIGN(const memory::desc src, DescOf(from));
    Spec target{from.dtype, from.dims, to};
    INFER_ASSIGN(const memory::desc dst, DescOf(target));
    auto buffer = Buffer::Allocate(dst.get_size());
    dnnl::stream stream(Engine());
    memory a(src, Engine(), const_cast<std::byte*>(data));
    memory b(dst, Engine(), buffer->mutable_data());
    dnnl::reorder(a, b).execute(stream, a, b);
    stream.wait();
    return std::shared_ptr<const Buffer>(std::move(buffer));
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
