/// QLinearAdd, QLinearMul and other operators of com.microsoft on 8-bit codes, with constant scales
/// and zero points; what they round is rounded as lib/ops/quantized/contrib_qlinear.cc does it, bit
/// for bit. QLinearConv, QLinearMatMul, QGemm, QLinearConcat and QLinearWhere become other nodes
/// (qoperators.h).
#include <algorithm>
#include <array>
#include <cmath>

#include "lib/ir/eval.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/epilogue.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/int8/byte_binary.h"
#include "runtime/cpu/kernels/int8/byte_pool.h"
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
void MarkUsed(Prepared& p, size_t operands, std::initializer_list<int> used) {
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
  if (!Is8Bit(call.main().input(0)) || !Is8Bit(call.main().input(3))) return "not 8 bits";
  // Infinite factors make NaN of codes at the zero point, which the loops do not look for.
  const auto scale = [&](size_t i) {
    return static_cast<float>(call.constant(call.main().input(i))->At(0));
  };
  const float a = scale(1), b = scale(4), y = scale(6);
  const bool finite = call.main().Is("QLinearAdd", kMicrosoft)
                          ? std::isfinite(a / y * 255) && std::isfinite(b / y * 255)
                          : std::isfinite(a * b / y * 255 * 255);
  return finite ? "" : "numbers over the result's scale are beyond f32";
}

std::unique_ptr<Kernel> MakeBinary(const StepCall& call) {
  const Node& n = call.main();
  const Scaled8 a = ParamsOf(call, n.input(0), 1), b = ParamsOf(call, n.input(3), 4),
                y = ParamsOf(call, n.output(), 6);
  ByteBinary op;
  op.params = {a.flip(),          b.flip(),          y.flip(),
               a.unsigned_zero(), b.unsigned_zero(), y.unsigned_zero()};
  op.params.scale_a = a.scale;
  op.params.scale_b = b.scale;
  op.params.scale_y = y.scale;
  const simd::Loops& loops = simd::TheLoops();
  op.loop = n.Is("QLinearAdd", kMicrosoft) ? loops.linear_add_8 : loops.linear_mul_8;
  op.a = call.operand(n.input(0));
  op.b = call.operand(n.input(3));
  return KernelOf([op](std::span<const Operand> in, std::span<const Operand> out) {
    return PrepareByteBinary(op, in, out[0]);
  });
}

// ---- Of one operand: a table -----------------------------------------------------------------

std::string RefuseUnary(const StepCall& call) {
  if (std::string why = RefuseParams(call, {1, 3}); !why.empty()) return why;
  return Is8Bit(call.main().input(0)) ? "" : "not 8 bits";
}

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
    MarkUsed(p, in.size(), {x});
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
        const float scaled = mean * factor;  // NaN becomes the zero point
        const float q =
            (std::isnan(scaled) ? 0.0f : std::nearbyint(scaled)) + static_cast<float>(y.zero);
        to[c + i] = static_cast<T>(std::clamp(q, lo, hi));
      }
    }
  }
};

std::unique_ptr<Kernel> MakeMean(const StepCall& call) {
  const Node& n = call.main();
  const Scaled8 from = ParamsOf(call, n.input(0), 1), to = ParamsOf(call, n.output(), 3);
  const int x = call.operand(n.input(0));
  const bool last = n.Attr<int64_t>("channels_last") != 0;
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Operand& operand = in[static_cast<size_t>(x)];
    const Dims& dims = operand.dims;
    if (dims.size() < 3 || dims.size() > 5 || NumElements(dims) == 0) return Unsupported("rank");
    const int64_t images = dims[0], channels = last ? dims.back() : dims[1];
    const QLinearMean8 mean{from, to, NumElements(dims) / (images * channels), channels};
    Prepared p;
    p.name = "own:mean";
    MarkUsed(p, in.size(), {x});
    if (!last) p.in_layouts[static_cast<size_t>(x)] = onednn::ChannelsLast(operand.dtype, dims);
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

// ---- QLinearAveragePool ----------------------------------------------------------------------

std::unique_ptr<Kernel> MakeAverage(const StepCall& call) {
  const Node& n = call.main();
  const Scaled8 from = ParamsOf(call, n.input(0), 1), to = ParamsOf(call, n.output(), 3);
  ByteAverage average;
  average.from = {n.input(0)->dtype(), from.scale, from.zero};
  average.to = {n.output()->dtype(), to.scale, to.zero};
  average.x = call.operand(n.input(0));
  average.rounds_last = true;
  average.channels_last = n.Attr<int64_t>("channels_last") != 0;
  return KernelOf([average, &n](std::span<const Operand> in, std::span<const Operand> out) {
    return PrepareByteAverage(average, n, in, out[0]);
  });
}

// ---- QLinearSoftmax --------------------------------------------------------------------------

/// Shares of exponentials, in double as the reference has them: those of every code below every
/// largest code of a row come from a table. Codes are seen as unsigned, in their order.
struct QLinearShares {
  Scaled8 x, y;
  std::vector<double> exponentials;  ///< [largest][code]

  QLinearShares(const Scaled8& from, const Scaled8& to)
      : x(from), y(to), exponentials(size_t{256} * 256) {
    const auto real = [&](int code) {
      return static_cast<double>(static_cast<float>(code - x.unsigned_zero()) * x.scale);
    };
    for (int top = 0; top < 256; ++top)
      for (int code = 0; code <= top; ++code)
        exponentials[static_cast<size_t>(top) * 256 + static_cast<size_t>(code)] =
            std::exp(real(code) - real(top));
  }

  /// n codes `step` apart.
  void Line(const uint8_t* from, uint8_t* to, int64_t n, int64_t step) const {
    const uint8_t flip = x.flip();
    uint8_t top = 0;
    for (int64_t i = 0; i < n; ++i)
      top = std::max(top, static_cast<uint8_t>(from[i * step] ^ flip));
    const double* const e = exponentials.data() + int64_t{top} * 256;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += e[from[i * step] ^ flip];
    if (n < 256) {
      for (int64_t i = 0; i < n; ++i) to[i * step] = Code(e[from[i * step] ^ flip] / sum);
      return;
    }
    std::array<uint8_t, 256> codes;
    for (int code = 0; code <= top; ++code) codes[static_cast<size_t>(code)] = Code(e[code] / sum);
    for (int64_t i = 0; i < n; ++i) to[i * step] = codes[from[i * step] ^ flip];
  }

 private:
  uint8_t Code(double share) const {
    const float lo = y.is_signed ? -128.0f : 0.0f;
    const float q =
        std::nearbyint(static_cast<float>(share) / y.scale) + static_cast<float>(y.zero);
    if (std::isnan(q)) return static_cast<uint8_t>(y.zero);
    return static_cast<uint8_t>(static_cast<int32_t>(std::clamp(q, lo, lo + 255)));
  }
};

std::unique_ptr<Kernel> MakeShares(const StepCall& call) {
  const Node& n = call.main();
  const auto shares = std::make_shared<const QLinearShares>(ParamsOf(call, n.input(0), 1),
                                                            ParamsOf(call, n.output(), 3));
  const int x = call.operand(n.input(0));
  // Of opset 12 and older it runs over the axis and all behind it.
  const bool flattens = n.Attr<int64_t>("opset") < 13;
  const int64_t axis = n.Attr<int64_t>("axis");
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[static_cast<size_t>(x)].dims;
    const auto rank = static_cast<int64_t>(dims.size());
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) return Unsupported("rank");
    const auto first = dims.begin() + at;
    const int64_t inner = flattens ? 1 : NumElements(Dims(first + 1, dims.end()));
    const int64_t extent = flattens ? NumElements(Dims(first, dims.end())) : *first;
    const int64_t lines = NumElements(dims) / extent;
    Prepared p;
    p.name = "own:shares";
    MarkUsed(p, in.size(), {x});
    const size_t y = in.size();
    p.launch = LaunchOf([=](std::byte* const* args) {
      ForRange(lines, std::max<int64_t>(1, kLinearGrain / (16 * extent)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t from = i / inner * extent * inner + i % inner;
                   shares->Line(As<uint8_t>(args[x]) + from, As<uint8_t>(args[y]) + from, extent,
                                inner);
                 }
               });
    });
    return p;
  });
}

}  // namespace

KernelList QLinearKernels() {
  return {{"QLinearAdd", kMicrosoft, "own", RefuseBinary, MakeBinary},
          {"QLinearMul", kMicrosoft, "own", RefuseBinary, MakeBinary},
          {"QLinearSigmoid", kMicrosoft, "own", RefuseUnary, MakeQLinearTable},
          {"QLinearLeakyRelu", kMicrosoft, "own", RefuseUnary, MakeQLinearTable},
          {"QLinearGlobalAveragePool", kMicrosoft, "own", RefuseUnary, MakeMean},
          {"QLinearAveragePool", kMicrosoft, "own", RefuseUnary, MakeAverage},
          {"QLinearSoftmax", kMicrosoft, "own", RefuseUnary, MakeShares}};
}

}  // namespace infer
