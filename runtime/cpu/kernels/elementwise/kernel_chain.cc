/// Chains of element-wise operators (runtime/cpu/kernels/elementwise/chain.h): one walk over
/// memory, block by block.
#include <algorithm>
#include <array>

#include "lib/ops/common.h"
#include "lib/support/parallel.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/rms_row.h"
#include "runtime/cpu/kernels/common/unary_function.h"
#include "runtime/cpu/kernels/elementwise/chain.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {
namespace {

using simd::Loops;

constexpr size_t kMaxRank = 8, kMaxReads = 12;  // chain.cc refuses more
constexpr int64_t kSmallFloats = 512;

/// How operands are walked: outer dimensions, and runs of `run` elements in which each operand
/// either steps by one or stays.
struct Walk {
  int64_t size = 1, run = 1;
  Dims outer;
  std::vector<Dims> strides;  ///< by operand, over `outer`
  std::vector<bool> steps;    ///< by operand
};

/// Pre: `strides` are those over `dims`. nullopt: an operand neither steps by one nor stays.
std::optional<Walk> WalkOf(const Dims& dims, const std::vector<Dims>& strides) {
  Walk w;
  Dims extents;
  std::vector<Dims> merged(strides.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    w.size *= dims[d];
    if (dims[d] == 1) continue;
    bool merge = !extents.empty();
    for (size_t k = 0; k < strides.size(); ++k)
      merge = merge && merged[k].back() == strides[k][d] * dims[d];
    if (!merge) extents.push_back(1);
    extents.back() *= dims[d];
    for (size_t k = 0; k < strides.size(); ++k) {
      if (!merge) merged[k].push_back(0);
      merged[k].back() = strides[k][d];
    }
  }
  if (!extents.empty()) {
    w.run = extents.back();
    extents.pop_back();
  }
  for (Dims& m : merged) {
    const int64_t inner = m.empty() ? 1 : m.back();
    if (inner != 0 && inner != 1) return std::nullopt;
    w.steps.push_back(inner == 1);
    if (!m.empty()) m.pop_back();
  }
  w.outer = std::move(extents);
  w.strides = std::move(merged);
  return w;
}

/// Strides over `dims` of a plain tensor of extents `own` broadcast to them.
Dims StridesOf(const Dims& dims, const Dims& own) {
  Dims strides(dims.size(), 0);
  int64_t at = 1;
  for (size_t i = 0; i < own.size(); ++i) {
    const size_t o = own.size() - 1 - i;
    strides[dims.size() - 1 - i] = own[o] == 1 ? 0 : at;
    at *= own[o];
  }
  return strides;
}

Dims ToChannelsLast(Dims d) {
  std::rotate(d.begin() + 1, d.begin() + 2, d.end());
  return d;
}

/// An operator with the loop that its operands want.
struct BoundOp {
  ChainOp op;
  Loops::UnaryFn unary = nullptr;
  Loops::BinaryFn binary = nullptr;
};

class ChainLaunch final : public Launch {
 public:
  ChainLaunch(const Chain& chain, Walk walk, size_t operands)
      : walk_(std::move(walk)), operands_(operands) {
    block_ = chain.by_rows ? walk_.run : kChainBlock;
    pieces_ = (walk_.run + block_ - 1) / block_;
    is_small_ = chain.slots * std::min(block_, walk_.run) <= kSmallFloats;
    std::vector<int> read_as(operands, -1);
    for (size_t k = 0; k < operands; ++k)
      if (chain.reads[k]) {
        read_as[k] = static_cast<int>(reads_.size());
        reads_.push_back(k);
      }
    const Loops& loops = simd::TheLoops();
    for (const ChainOp& op : chain.ops) {
      BoundOp b{op};
      if (op.kind == ChainOp::Kind::kUnary) b.unary = loops.unary[static_cast<int>(op.unary)];
      if (op.kind == ChainOp::Kind::kBinary) {
        const auto kind = static_cast<int>(op.binary);
        b.binary = !Steps(op.in[0])   ? loops.scalar_binary[kind]
                   : !Steps(op.in[1]) ? loops.binary_scalar[kind]
                                      : loops.binary[kind];
      }
      for (ChainPlace& p : b.op.in)
        if (p.kind == ChainPlace::Kind::kOperand) p.index = read_as[static_cast<size_t>(p.index)];
      ops_.push_back(b);
    }
  }

  Status Run(std::byte* const* args, LaunchState*) const override {
    const int64_t length = std::min(walk_.run, block_), units = walk_.size / walk_.run * pieces_;
    ForRange(units, std::max<int64_t>(1, kElementGrain / 2 / length),
             [&](int64_t begin, int64_t end) {
               is_small_ ? RunUnits<kSmallFloats>(args, begin, end)
                         : RunUnits<kChainFloats>(args, begin, end);
             });
    return {};
  }

 private:
  bool Steps(const ChainPlace& p) const {
    return p.kind != ChainPlace::Kind::kOperand || walk_.steps[static_cast<size_t>(p.index)];
  }

  /// A large stack frame is touched page by page: not for a handful of elements.
  template <int64_t kFloats>
  void RunUnits(std::byte* const* args, int64_t begin, int64_t end) const {
    alignas(64) float slots[kFloats];
    std::array<int64_t, kMaxRank> index;
    std::array<int64_t, kMaxReads> offset;
    std::array<const float*, kMaxReads> from;
    const size_t rank = walk_.outer.size();
    int64_t row = begin / pieces_, piece = begin % pieces_;
    for (int64_t rest = row, d = static_cast<int64_t>(rank); d-- > 0;) {
      index[static_cast<size_t>(d)] = rest % walk_.outer[static_cast<size_t>(d)];
      rest /= walk_.outer[static_cast<size_t>(d)];
    }
    for (size_t k = 0; k < reads_.size(); ++k) {
      offset[k] = 0;
      for (size_t d = 0; d < rank; ++d) offset[k] += index[d] * walk_.strides[reads_[k]][d];
    }
    for (int64_t u = begin; u < end; ++u) {
      const int64_t first = piece * block_, n = std::min(block_, walk_.run - first);
      for (size_t k = 0; k < reads_.size(); ++k)
        from[k] = As<float>(static_cast<const std::byte*>(args[reads_[k]])) + offset[k] +
                  (walk_.steps[reads_[k]] ? first : 0);
      RunBlock(args, from.data(), slots, row * walk_.run + first, n);
      if (++piece < pieces_) continue;
      piece = 0;
      ++row;
      for (size_t d = rank; d-- > 0;) {
        const bool carries = ++index[d] == walk_.outer[d];
        const int64_t by = carries ? 1 - walk_.outer[d] : 1;
        for (size_t k = 0; k < reads_.size(); ++k) offset[k] += by * walk_.strides[reads_[k]][d];
        if (!carries) break;
        index[d] = 0;
      }
    }
  }

  void RunBlock(std::byte* const* args, const float* const* from, float* slots, int64_t at,
                int64_t n) const {
    const Loops& loops = simd::TheLoops();
    const int64_t stride = std::min(walk_.run, block_);
    auto place = [&](const ChainPlace& p) -> float* {
      const auto i = static_cast<size_t>(p.index);
      return p.kind == ChainPlace::Kind::kSlot ? slots + p.index * stride
                                               : As<float>(args[operands_ + i]) + at;
    };
    auto read = [&](const ChainPlace& p) -> const float* {
      if (p.kind == ChainPlace::Kind::kNone) return nullptr;
      return p.kind == ChainPlace::Kind::kOperand ? from[p.index] : place(p);
    };
    for (const BoundOp& b : ops_) {
      const ChainOp& op = b.op;
      const float* x = read(op.in[0]);
      switch (op.kind) {
        case ChainOp::Kind::kUnary: b.unary(x, place(op.out), n, op.a, op.b); break;
        case ChainOp::Kind::kBinary: b.binary(x, read(op.in[1]), place(op.out), n); break;
        case ChainOp::Kind::kLayerNorm:
          loops.layer_norm(x, read(op.in[1]), read(op.in[2]), place(op.out), n, op.a);
          break;
        case ChainOp::Kind::kRmsNorm:
          RmsRow(loops, x, read(op.in[1]), place(op.out), n, op.a);
          break;
        case ChainOp::Kind::kQuantize: {
          std::byte* to = args[operands_ + static_cast<size_t>(op.out.index)] + at;
          if (op.is_signed)
            loops.quantize_s8(x, As<int8_t>(to), n, op.a, op.zero_point);
          else
            loops.quantize_u8(x, As<uint8_t>(to), n, op.a, op.zero_point);
          break;
        }
      }
    }
  }

  Walk walk_;
  size_t operands_;
  std::vector<size_t> reads_;  // operands that are walked
  bool is_small_ = false;
  int64_t block_ = 1, pieces_ = 1;
  std::vector<BoundOp> ops_;
};

class ChainKernel final : public Kernel {
 public:
  explicit ChainKernel(Chain chain) : chain_(std::move(chain)) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    if (!chain_.by_rows) {
      if (auto p = AsItLies(in, out)) return *std::move(p);
    }
    const Dims& dims = out[0].dims;
    std::vector<Dims> strides;
    for (size_t k = 0; k < in.size(); ++k)
      strides.push_back(chain_.reads[k] ? StridesOf(dims, in[k].dims) : Dims(dims.size(), 0));
    return Make(in, out, dims, strides, {});
  }

 private:
  bool Reads(size_t k) const { return chain_.reads[k]; }

  /// In the layout of the first operand that has one.
  std::optional<Prepared> AsItLies(std::span<const Operand> in,
                                   std::span<const Operand> out) const {
    const Dims& dims = out[0].dims;
    const Operand* lead = nullptr;
    bool flat = true;
    for (size_t k = 0; k < in.size(); ++k) {
      if (!Reads(k)) continue;
      if (!lead && !in[k].layout.plain() && in[k].dims == dims) lead = &in[k];
      flat &= in[k].dims == dims || NumElements(in[k].dims) == 1;
    }
    if (!lead) return std::nullopt;
    const bool padded = lead->layout.bytes != lead->plain_bytes();
    const bool by_channel = dims.size() >= 3 && dims.size() <= 5 && !padded &&
                            lead->layout == onednn::ChannelsLast(DType::kF32, dims);
    if (chain_.quantizes && !by_channel) return std::nullopt;
    if (flat && (!padded || chain_.keeps_zero)) {
      const Dims one = {lead->layout.bytes / 4};
      std::vector<Dims> strides;
      for (size_t k = 0; k < in.size(); ++k)
        strides.push_back({Reads(k) && in[k].dims == dims ? 1 : 0});
      return Make(in, out, one, strides, lead->layout);
    }
    if (!by_channel) return std::nullopt;
    std::vector<Dims> strides;
    const Dims last = ToChannelsLast(dims);
    for (size_t k = 0; k < in.size(); ++k) {
      if (!Reads(k))
        strides.emplace_back(dims.size(), 0);
      else if (in[k].dims == dims)
        strides.push_back(StridesOf(last, last));
      else
        strides.push_back(ToChannelsLast(StridesOf(dims, in[k].dims)));
    }
    if (!WalkOf(last, strides)) return std::nullopt;
    return Make(in, out, last, strides, lead->layout);
  }

  /// Full operands and results in `layout`, all others plain.
  Prepared Make(std::span<const Operand> in, std::span<const Operand> out, const Dims& walked,
                const std::vector<Dims>& strides, const Layout& layout) const {
    const Dims& dims = out[0].dims;
    Prepared p;
    p.name = std::string("own:chain:") + simd::TheLoops().isa;
    for (size_t k = 0; k < in.size(); ++k) {
      p.in_layouts.push_back(Reads(k) && in[k].dims == dims ? layout : Layout());
      p.unused.push_back(!Reads(k));
    }
    for (const Operand& o : out)
      p.out_layouts.push_back(
          layout.plain() || o.dtype == DType::kF32 ? layout : onednn::ChannelsLast(o.dtype, dims));
    // A second result may be written before an operand has been read for the last time; of a single
    // row scale and bias are as large as the result.
    p.in_place = out.size() == 1 && out[0].dtype == DType::kF32 &&
                 (!chain_.by_rows || NumElements(dims) > dims.back());
    p.launch = std::make_shared<ChainLaunch>(chain_, *WalkOf(walked, strides), in.size());
    return p;
  }

  const Chain chain_;
};

std::string Refuse(const StepCall& call) {
  if (call.step.nodes.size() == 1) return "a single operator";
  auto chain = DecodeChain(call);
  return chain.ok() ? "" : chain.status().message();
}

std::unique_ptr<Kernel> Make(const StepCall& call) {
  return std::make_unique<ChainKernel>(*DecodeChain(call));
}

}  // namespace

KernelList ChainKernels() {
  KernelList list;
  for (const auto& [op, domain] : UnaryOperators())
    list.push_back({op, domain, kChainKernel, Refuse, Make});
  for (const std::string_view op : ChainBinaryOperators())
    list.push_back({op, "", kChainKernel, Refuse, Make});
  list.push_back({"Pow", "", kChainKernel, Refuse, Make});  // a square
  for (const std::string_view op : {"LayerNormalization", "RMSNormalization"})
    list.push_back({op, "", kChainKernel, Refuse, Make});
  return list;
}

}  // namespace infer
