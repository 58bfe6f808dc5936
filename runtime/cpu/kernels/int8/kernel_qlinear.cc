/// QLinearAdd, QLinearMul and other operators of com.microsoft on 8-bit codes, with constant scales
/// and zero points; what they round is rounded as lib/ops/quantized/contrib_qlinear.cc does it, bit
/// for bit. QLinearConv, QLinearMatMul and QGemm become other nodes (qoperators.h).
#include <algorithm>
#include <array>
#include <cmath>

#include "lib/ir/eval.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/epilogue.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/look_up.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {
namespace {

constexpr int64_t kLinearGrain = 65536;

/// Operand `i` (a result where it stands among the outputs) and its constants at i + 1, i + 2.
struct Scaled8 {
  float scale = 1;
  int32_t zero = 0;
  bool is_signed = false;
  uint8_t flip() const { return is_signed ? 128 : 0; }
  int32_t unsigned_zero() const { return zero + flip(); }
};

std::string RefuseParams(const StepCall& call, std::initializer_list<size_t> scales) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  for (const size_t i : scales) {
    const Node& n = call.main();
    const Tensor* const scale = call.constant(n.input(i));
    if (!scale || (n.input(i + 1) && !call.constant(n.input(i + 1))))
      return "a scale or zero point is not constant";
    if (scale->dtype() != DType::kF32 || scale->num_elements() != 1)
      return "a scale is not one f32 number";
  }
  return Is8Bit(call.main().output()) ? "" : "not 8 bits";
}

Scaled8 ParamsOf(const StepCall& call, const Value* codes, size_t scale) {
  const Node& n = call.main();
  const Value* const zero = n.input(scale + 1);
  return {static_cast<float>(call.constant(n.input(scale))->At(0)),
          zero ? static_cast<int32_t>(call.constant(zero)->IntAt(0)) : 0,
          codes->dtype() == DType::kI8};
}

/// All operands but these are constants that the launch does not read.
void Use(Prepared& p, size_t operands, std::initializer_list<int> used) {
  p.unused.assign(operands, true);
  p.in_layouts.resize(operands);
  for (const int i : used) p.unused[static_cast<size_t>(i)] = false;
}

int64_t StoredBytes(const Operand& o) {
  return o.layout.plain() ? o.plain_bytes() : o.layout.bytes;
}

// ---- QLinearAdd, QLinearMul ------------------------------------------------------------------

std::string RefuseBinary(const StepCall& call) {
  if (std::string why = RefuseParams(call, {1, 4, 6}); !why.empty()) return why;
  const Node& n = call.main();
  if (call.constant(n.input(0)) || call.constant(n.input(3))) return "an operand is constant";
  return SameShape(*n.input(0), *n.input(3)) ? "" : "it broadcasts";
}

std::unique_ptr<Kernel> MakeBinary(const StepCall& call) {
  const Node& n = call.main();
  const Scaled8 a = ParamsOf(call, n.input(0), 1), b = ParamsOf(call, n.input(3), 4),
                y = ParamsOf(call, n.output(), 6);
  simd::Int8Params p{a.flip(),          b.flip(),          y.flip(),
                     a.unsigned_zero(), b.unsigned_zero(), y.unsigned_zero()};
  p.scale_a = a.scale;
  p.scale_b = b.scale;
  p.scale_y = y.scale;
  const simd::Loops& loops = simd::TheLoops();
  const auto loop = n.Is("QLinearAdd", kMicrosoft) ? loops.linear_add_8 : loops.linear_mul_8;
  const int ai = call.operand(n.input(0)), bi = call.operand(n.input(3));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Operand& left = in[static_cast<size_t>(ai)];
        const Operand& right = in[static_cast<size_t>(bi)];
        if (left.dims != right.dims) return Unsupported("it broadcasts");
        Prepared prepared;
        prepared.name = Cat("own:", simd::TheLoops().isa);
        prepared.in_place = true;
        Use(prepared, in.size(), {ai, bi});
        const Operand& lead = left.layout.plain() ? right : left;
        int64_t count = left.plain_bytes();
        // A layout names its element type.
        if (!lead.layout.plain() && left.dtype == right.dtype && left.dtype == out[0].dtype) {
          count = StoredBytes(lead);
          prepared.in_layouts[static_cast<size_t>(ai)] =
              prepared.in_layouts[static_cast<size_t>(bi)] = lead.layout;
          prepared.out_layouts = {lead.layout};
        }
        const size_t to = in.size();
        prepared.launch = LaunchOf([=](std::byte* const* args) {
          ParallelFor((count + 63) / 64, kLinearGrain / 64, [&](int64_t u, int64_t v) {
            const int64_t begin = u * 64, end = std::min(count, v * 64);
            const std::byte *x = args[ai] + begin, *z = args[bi] + begin;
            loop(As<uint8_t>(x), As<uint8_t>(z), As<uint8_t>(args[to] + begin), end - begin, p);
          });
        });
        return prepared;
      });
}

// ---- Of one operand: a table -----------------------------------------------------------------

std::string RefuseQLinearTable(const StepCall& call) { return RefuseParams(call, {1, 3}); }

/// The results of the 256 codes, by the operator's reference kernel.
Result<std::array<uint8_t, 256>> QLinearTableOf(const StepCall& call) {
  const Node& n = call.main();
  Tensor all(n.input(0)->dtype(), {256});
  for (int i = 0; i < 256; ++i) all.mutable_raw()[i] = static_cast<std::byte>(i);
  std::vector<Datum> values{all};
  for (size_t i = 1; i < n.inputs().size(); ++i)
    values.push_back(n.input(i) ? Datum(*call.constant(n.input(i))) : Datum());
  std::vector<const Datum*> operands;
  for (size_t i = 0; i < values.size(); ++i) operands.push_back(n.input(i) ? &values[i] : nullptr);
  INFER_ASSIGN(const auto results, EvaluateNode(n, operands, call.plan.graph.ops()));
  std::array<uint8_t, 256> table;
  for (size_t i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(results[0].tensor().raw()[i]);
  return table;
}

std::unique_ptr<Kernel> MakeQLinearTable(const StepCall& call) {
  const auto table = QLinearTableOf(call);
  const int x = call.operand(call.main().input(0));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    if (!table.ok()) return table.status();
    const Operand& operand = in[static_cast<size_t>(x)];
    Prepared p;
    p.name = "own:table";
    p.in_place = true;
    Use(p, in.size(), {x});
    p.in_layouts[static_cast<size_t>(x)] = operand.layout;
    p.out_layouts = {operand.layout};
    const int64_t n = StoredBytes(operand);
    const size_t y = in.size();
    p.launch = LaunchOf([=, look_up = simd::TheLookUp(), t = *table](std::byte* const* args) {
      ParallelFor(n, kLinearGrain, [&](int64_t begin, int64_t end) {
        look_up(As<uint8_t>(args[x]) + begin, As<uint8_t>(args[y]) + begin, end - begin, t.data());
      });
    });
    return p;
  });
}

// ---- QLinearGlobalAveragePool ----------------------------------------------------------------

/// Sums of codes, whose mean is scaled once: exact until then.
struct QLinearMean8 {
  Scaled8 x, y;
  int64_t rows, channels;

  template <typename T>
  void Image(const T* from, T* to, int64_t begin, int64_t end) const {
    constexpr int64_t kTile = 256;
    const float factor = x.scale / y.scale;
    const auto lo = static_cast<float>(y.is_signed ? -128 : 0), hi = lo + 255;
    for (int64_t c = begin; c < end; c += kTile) {
      const int64_t n = std::min(kTile, end - c);
      int64_t sum[kTile] = {};
      int32_t part[kTile] = {};
      for (int64_t r = 0; r < rows; ++r) {
        const T* at = from + r * channels + c;
        for (int64_t i = 0; i < n; ++i) part[i] += at[i];
        if (r % (1 << 20) != (1 << 20) - 1 && r != rows - 1) continue;
        for (int64_t i = 0; i < n; ++i) {
          sum[i] += part[i];
          part[i] = 0;
        }
      }
      for (int64_t i = 0; i < n; ++i) {
        const auto mean = static_cast<float>(static_cast<double>(sum[i] - rows * x.zero) /
                                             static_cast<double>(rows));
        const float q = std::nearbyint(mean * factor) + static_cast<float>(y.zero);
        to[c + i] = static_cast<T>(std::clamp(q, lo, hi));
      }
    }
  }
};

std::string RefuseMean(const StepCall& call) {
  if (std::string why = RefuseParams(call, {1, 3}); !why.empty()) return why;
  if (call.main().Attr<int64_t>("channels_last") != 0) return "channels come last";
  return Is8Bit(call.main().input(0)) ? "" : "not 8 bits";
}

std::unique_ptr<Kernel> MakeMean(const StepCall& call) {
  const Node& n = call.main();
  const Scaled8 from = ParamsOf(call, n.input(0), 1), to = ParamsOf(call, n.output(), 3);
  const int x = call.operand(n.input(0));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Operand& operand = in[static_cast<size_t>(x)];
    const Dims& dims = operand.dims;
    if (dims.size() < 3 || dims.size() > 5 || NumElements(dims) == 0) return Unsupported("rank");
    const int64_t images = dims[0], channels = dims[1];
    const QLinearMean8 mean{from, to, NumElements(dims) / (images * channels), channels};
    Prepared p;
    p.name = "own:mean";
    Use(p, in.size(), {x});
    p.in_layouts[static_cast<size_t>(x)] = onednn::ChannelsLast(operand.dtype, dims);
    const size_t y = in.size();
    p.launch = LaunchOf([=](std::byte* const* args) {
      for (int64_t i = 0; i < images; ++i) {
        const std::byte* const image = args[x] + i * mean.rows * channels;
        std::byte* const result = args[y] + i * channels;
        ForRange(channels, std::max<int64_t>(64, kLinearGrain / mean.rows),
                 [&](int64_t begin, int64_t end) {
                   if (mean.x.is_signed)
                     mean.Image(As<int8_t>(image), As<int8_t>(result), begin, end);
                   else
                     mean.Image(As<uint8_t>(image), As<uint8_t>(result), begin, end);
                 });
      }
    });
    return p;
  });
}

}  // namespace

KernelList QLinearKernels() {
  return {{"QLinearAdd", kMicrosoft, "own", RefuseBinary, MakeBinary},
          {"QLinearMul", kMicrosoft, "own", RefuseBinary, MakeBinary},
          {"QLinearSigmoid", kMicrosoft, "own", RefuseQLinearTable, MakeQLinearTable},
          {"QLinearLeakyRelu", kMicrosoft, "own", RefuseQLinearTable, MakeQLinearTable},
          {"QLinearGlobalAveragePool", kMicrosoft, "own", RefuseMean, MakeMean}};
}

}  // namespace infer
