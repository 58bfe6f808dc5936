/// Unary and binary f32 operators on our own loops. Unary ones, and binary ones of equal extents,
/// take any layout; broadcasting over a blocked layout goes to oneDNN.
#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"
#include "lib/support/parallel.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/unary_function.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

using simd::Binary;
using simd::Unary;

/// Loops are cut at multiples of this, so that an element is computed by the same instructions
/// (vector body or tail) for any number of lanes.
constexpr int64_t kBlock = 64;

int64_t StoredBytesOf(const Operand& o) {
  return o.layout.plain() ? o.plain_bytes() : o.layout.bytes;
}

/// Angles beyond what the loops reduce: by the library, block by block.
void WideAngles(Unary kind, const float* x, float* y, int64_t n, simd::Loops::UnaryFn loop) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    bool narrow = true;
    for (int64_t k = i; k < i + m; ++k) narrow &= std::abs(x[k]) <= simd::kMaxAngle;
    if (narrow) {
      loop(x + i, y + i, m, 0, 0);
      continue;
    }
    const auto of = [kind](float v) {
      return kind == Unary::kSin ? std::sin(v) : kind == Unary::kCos ? std::cos(v) : std::tan(v);
    };
    std::transform(x + i, x + i + m, y + i, of);
  }
}

Prepared UnaryLaunch(const UnaryFunction& f, const Operand& in) {
  const bool padded = !in.layout.plain() && in.layout.bytes != in.plain_bytes();
  const bool as_is = !padded || f.keeps_zero;
  const int64_t n = (as_is ? StoredBytesOf(in) : in.plain_bytes()) / 4;
  Prepared p;
  p.name = std::string("own:") + simd::TheLoops().isa;
  p.in_place = true;
  p.in_layouts = {as_is ? in.layout : Layout()};
  p.out_layouts = p.in_layouts;
  const auto loop = simd::TheLoops().unary[static_cast<int>(f.kind)];
  p.launch = LaunchOf([=](std::byte* const* args) {
    // The operand stands first, the result last; what lies between are known parameters.
    const float* x = As<float>(static_cast<const std::byte*>(args[0]));
    float* y = As<float>(args[1]);
    ParallelFor((n + kBlock - 1) / kBlock, kElementGrain / kBlock, [=](int64_t u, int64_t v) {
      const int64_t begin = u * kBlock, end = std::min(n, v * kBlock);
      if (simd::TakesAngles(f.kind))
        WideAngles(f.kind, x + begin, y + begin, end - begin, loop);
      else
        loop(x + begin, y + begin, end - begin, f.a, f.b);
    });
  });
  return p;
}

std::string RefuseF32Unary(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  auto f = UnaryFunctionOf(call, call.main());
  return f.ok() ? "" : f.status().message();
}

std::unique_ptr<Kernel> MakeF32Unary(const StepCall& call) {
  const Node& n = call.main();
  const UnaryFunction f = *UnaryFunctionOf(call, n);
  const int x = call.operand(n.input(0));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    if (x != 0) return Unsupported("the operand is not the first");
    Prepared p = UnaryLaunch(f, in[0]);
    if (in.size() > 1) {
      // Parameters stand between operand and result; the launch must not see them.
      p.unused.assign(in.size(), true);
      p.unused[0] = false;
      auto inner = p.launch;
      const size_t result = in.size();
      p.launch = LaunchOf([inner, result](std::byte* const* args) {
        std::byte* const two[] = {args[0], args[result]};
        (void)inner->Run(two, nullptr);
      });
    }
    return p;
  });
}

/// FastGelu with a bias, BiasGelu: over rows as long as the bias.
std::string RefuseBiasGelu(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  return call.main().input(1) ? "" : "it has no bias";
}

std::unique_ptr<Kernel> MakeBiasGelu(const StepCall& call) {
  const Unary kind = call.main().Is("FastGelu", "com.microsoft") ? Unary::kGeluTanh : Unary::kGelu;
  const int x = call.operand(call.main().input(0)), b = call.operand(call.main().input(1));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& dims = in[static_cast<size_t>(x)].dims;
        const int64_t n = NumElements(in[static_cast<size_t>(b)].dims);
        if (dims != out[0].dims || dims.empty() || dims.back() != n)
          return Unsupported("the bias is not as long as a row");
        const int64_t rows = NumElements(dims) / n;
        const auto add = simd::TheLoops().binary[static_cast<int>(Binary::kAdd)];
        const auto gelu = simd::TheLoops().unary[static_cast<int>(kind)];
        const size_t y = in.size();
        Prepared p;
        p.name = std::string("own:") + simd::TheLoops().isa;
        p.launch = LaunchOf([=](std::byte* const* args) {
          const float* from = As<float>(static_cast<const std::byte*>(args[x]));
          const float* bias = As<float>(static_cast<const std::byte*>(args[b]));
          float* to = As<float>(args[y]);
          ForRange(rows, std::max<int64_t>(1, kElementGrain / n), [=](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
              add(from + r * n, bias, to + r * n, n);
              gelu(to + r * n, to + r * n, n, 0, 0);
            }
          });
        });
        return p;
      });
}

struct F32Operator {
  std::string_view op;
  Binary kind;
  int onednn;  ///< onednn::BinaryKind, or -1
  bool keeps_zero;
};
constexpr F32Operator kF32Operators[] = {
    {"Add", Binary::kAdd, static_cast<int>(onednn::BinaryKind::kAdd), true},
    {"Sub", Binary::kSub, static_cast<int>(onednn::BinaryKind::kSub), true},
    {"Mul", Binary::kMul, static_cast<int>(onednn::BinaryKind::kMul), true},
    {"Div", Binary::kDiv, static_cast<int>(onednn::BinaryKind::kDiv), false},
    {"Max", Binary::kMax, static_cast<int>(onednn::BinaryKind::kMax), true},
    {"Min", Binary::kMin, static_cast<int>(onednn::BinaryKind::kMin), true},
    {"PRelu", Binary::kPRelu, -1, true},
};

std::string RefuseF32Binary(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (call.main().inputs().size() != 2) return "not two operands";
  return "";
}

class BinaryKernel final : public Kernel {
 public:
  explicit BinaryKernel(const StepCall& call)
      : op_(*std::find_if(std::begin(kF32Operators), std::end(kF32Operators),
                          [&](const F32Operator& b) { return call.main().Is(b.op); })),
        a_(call.operand(call.main().input(0))),
        b_(call.operand(call.main().input(1))) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Operand& a = in[static_cast<size_t>(a_)];
    const Operand& b = in[static_cast<size_t>(b_)];
    if (a.dims == b.dims) return Same(in, a, b);
    if (b.layout.plain() && NumElements(b.dims) == 1 && a.dims == out[0].dims && Unpadded(a))
      return Scalar(in, a, true);
    if (a.layout.plain() && NumElements(a.dims) == 1 && b.dims == out[0].dims && Unpadded(b))
      return Scalar(in, b, false);
    if (auto p = PerChannel(in, a, b, out[0]); p.ok()) return p;
    if (!a.layout.plain() && a.dims == out[0].dims && a.dims.size() == b.dims.size()) {
      auto p = Blocked(in, a, b, out[0]);
      if (p.ok()) return p;
    }
    return Broadcast(in, a, b, out[0]);
  }

 private:
  static bool Unpadded(const Operand& o) {
    return o.layout.plain() || o.layout.bytes == o.plain_bytes();
  }
  Prepared Base(size_t operands, const Layout& layout) const {
    Prepared p;
    p.name = std::string("own:") + simd::TheLoops().isa;
    p.in_layouts.assign(operands, Layout());
    p.out_layouts = {layout};
    p.in_place = true;
    return p;
  }

  /// One loop over n stored elements, on several lanes. Who does not step is a single number.
  std::shared_ptr<const Launch> Over(int64_t n, simd::Loops::BinaryFn loop, size_t operands,
                                     bool a_steps, bool b_steps) const {
    return LaunchOf([=, a = a_, b = b_](std::byte* const* args) {
      const float* x = As<float>(static_cast<const std::byte*>(args[a]));
      const float* z = As<float>(static_cast<const std::byte*>(args[b]));
      float* y = As<float>(args[operands]);
      ParallelFor((n + kBlock - 1) / kBlock, kElementGrain / kBlock, [=](int64_t u, int64_t v) {
        const int64_t begin = u * kBlock, end = std::min(n, v * kBlock);
        loop(x + (a_steps ? begin : 0), z + (b_steps ? begin : 0), y + begin, end - begin);
      });
    });
  }

  /// Equal extents: in the layout of the blocked one.
  Prepared Same(std::span<const Operand> in, const Operand& a, const Operand& b) const {
    const Operand& lead = a.layout.plain() ? b : a;
    const bool as_is = Unpadded(lead) || op_.keeps_zero;
    Prepared p = Base(in.size(), as_is ? lead.layout : Layout());
    std::fill(p.in_layouts.begin(), p.in_layouts.end(), p.out_layouts[0]);
    const int64_t n = (as_is ? StoredBytesOf(lead) : lead.plain_bytes()) / 4;
    p.launch = Over(n, simd::TheLoops().binary[static_cast<int>(op_.kind)], in.size(), true, true);
    return p;
  }

  Prepared Scalar(std::span<const Operand> in, const Operand& wide, bool scalar_second) const {
    Prepared p = Base(in.size(), wide.layout);
    p.in_layouts[static_cast<size_t>(scalar_second ? a_ : b_)] = wide.layout;
    const int64_t n = StoredBytesOf(wide) / 4;
    const simd::Loops& loops = simd::TheLoops();
    const auto loop = scalar_second ? loops.binary_scalar[static_cast<int>(op_.kind)]
                                    : loops.scalar_binary[static_cast<int>(op_.kind)];
    p.in_place = n > 1;
    p.launch = Over(n, loop, in.size(), scalar_second, !scalar_second);
    return p;
  }

  /// One number per channel beside channels last. Where oneDNN has the operator, its loop over a
  /// plane is faster than one call per pixel.
  Result<Prepared> PerChannel(std::span<const Operand> in, const Operand& a, const Operand& b,
                              const Operand& out) const {
    const size_t rank = a.dims.size();
    if (op_.onednn >= 0 || a.layout.plain() || rank < 3 || rank > 5 || a.dims != out.dims ||
        a.layout != onednn::ChannelsLast(DType::kF32, a.dims))
      return Unsupported("");
    Dims channel(rank - 1, 1);
    channel[0] = a.dims[1];
    Dims given = b.dims;
    if (given.size() == rank && given[0] == 1) given.erase(given.begin());
    if (given != channel) return Unsupported("");
    Prepared p = Base(in.size(), a.layout);
    p.in_layouts[static_cast<size_t>(a_)] = a.layout;
    const int64_t n = a.dims[1], pixels = NumElements(a.dims) / n;
    const auto loop = simd::TheLoops().binary[static_cast<int>(op_.kind)];
    p.launch = LaunchOf([=, x = a_, z = b_, y = in.size()](std::byte* const* args) {
      const float* from = As<float>(static_cast<const std::byte*>(args[x]));
      const float* factors = As<float>(static_cast<const std::byte*>(args[z]));
      float* to = As<float>(args[y]);
      ForRange(pixels, std::max<int64_t>(1, kElementGrain / n), [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) loop(from + r * n, factors, to + r * n, n);
      });
    });
    return p;
  }

  Result<Prepared> Blocked(std::span<const Operand> in, const Operand& a, const Operand& b,
                           const Operand& out) const {
    if (op_.onednn < 0) return Unsupported("");
    INFER_ASSIGN(const onednn::Made made,
                 onednn::MakeBinary(
                     static_cast<onednn::BinaryKind>(op_.onednn), {DType::kF32, a.dims, a.layout},
                     {DType::kF32, b.dims, b.layout}, {DType::kF32, out.dims, a.layout}, {}));
    Prepared p = Base(in.size(), made.dst);
    p.name = made.name;
    p.scratch_bytes = made.scratch_bytes;
    p.in_place = false;
    p.in_layouts[static_cast<size_t>(a_)] = a.layout;
    p.in_layouts[static_cast<size_t>(b_)] = b.layout;
    const int n = static_cast<int>(in.size());
    p.launch = MakeLaunch(
        made, {{onednn::Arg::kSrc, a_}, {onednn::Arg::kSrc1, b_}, {onednn::Arg::kDst, n}}, n + 1);
    return p;
  }

  Prepared Broadcast(std::span<const Operand> in, const Operand& a, const Operand& b,
                     const Operand& out) const {
    Prepared p = Base(in.size(), {});
    p.in_place = false;
    const Dims operands[] = {a.dims, b.dims};
    const StridedLoop rows = StridedLoop::Broadcast(out.dims, operands);
    const simd::Loops& loops = simd::TheLoops();
    const auto k = static_cast<int>(op_.kind);
    const auto loop = rows.inner_stride(0) == 0   ? loops.scalar_binary[k]
                      : rows.inner_stride(1) == 0 ? loops.binary_scalar[k]
                                                  : loops.binary[k];
    const int ai = a_, bi = b_, yi = static_cast<int>(in.size());
    p.launch = LaunchOf([=](std::byte* const* args) {
      const float* x = As<float>(static_cast<const std::byte*>(args[ai]));
      const float* z = As<float>(static_cast<const std::byte*>(args[bi]));
      float* y = As<float>(args[yi]);
      rows.Run([=](int64_t at, const int64_t* offsets, int64_t n) {
        loop(x + offsets[0], z + offsets[1], y + at, n);
      });
    });
    return p;
  }

  const F32Operator& op_;
  int a_, b_;
};

std::unique_ptr<Kernel> MakeBinaryKernel(const StepCall& call) {
  return std::make_unique<BinaryKernel>(call);
}

/// x^2 in any layout; other exponents: kernel_pow.cc.
std::string RefuseSquare(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const Tensor* c = call.constant(call.main().input(1));
  if (!c || c->num_elements() != 1) return "the exponent is not a constant scalar";
  if (c->At(0) != 2) return "the exponent is not 2";
  return c->rank() > 1 ? "the exponent may add dimensions" : "";
}

std::unique_ptr<Kernel> MakeSquare(const StepCall& call) {
  const int x = call.operand(call.main().input(0)), e = call.operand(call.main().input(1));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (x != 0 || e != 1 || in[0].dims != out[0].dims) return Unsupported("operands");
        Prepared p = UnaryLaunch({Unary::kSquare, 0, 0, true}, in[0]);
        p.unused = {false, true};
        p.in_layouts.push_back({});
        auto inner = p.launch;
        p.launch = LaunchOf([inner](std::byte* const* args) {
          std::byte* const two[] = {args[0], args[2]};
          (void)inner->Run(two, nullptr);
        });
        return p;
      });
}

}  // namespace

KernelList ElementwiseKernels() {
  KernelList list;
  for (const auto& [op, domain] : UnaryOperators())
    list.push_back({op, domain, "own", RefuseF32Unary, MakeF32Unary});
  for (const F32Operator& b : kF32Operators)
    list.push_back({b.op, "", "own", RefuseF32Binary, MakeBinaryKernel});
  for (std::string_view op : {"FastGelu", "BiasGelu"})
    list.push_back({op, "com.microsoft", "own", RefuseBiasGelu, MakeBiasGelu});
  list.push_back({"Pow", "", "own", RefuseSquare, MakeSquare});
  return list;
}

}  // namespace infer
