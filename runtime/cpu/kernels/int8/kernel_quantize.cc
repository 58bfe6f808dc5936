/// Quantization outside groups, in f32: QuantizeLinear and DequantizeLinear of 8 and 16 bits with
/// scales per tensor or per axis, known or not; DynamicQuantizeLinear.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "lib/ir/roles.h"
#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/elements.h"
#include "runtime/cpu/simd/folds.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

bool IsNarrow(DType t) {
  return t == DType::kU8 || t == DType::kI8 || t == DType::kU16 || t == DType::kI16;
}

/// Calls f with the C++ type of `t`. Pre: IsNarrow(t).
template <typename F>
void Dispatch(DType t, F f) {
  if (t == DType::kU8) f(uint8_t{});
  if (t == DType::kI8) f(int8_t{});
  if (t == DType::kU16) f(uint16_t{});
  if (t == DType::kI16) f(int16_t{});
}

// ---- QuantizeLinear, DequantizeLinear --------------------------------------------------------

/// As the loops of 8 bits (simd/loops.inc): saturated first, then rounded to even by an addition.
template <typename T>
void Quantize(const float* x, T* y, int64_t n, float scale, int32_t zero) {
  const auto lo = static_cast<float>(std::numeric_limits<T>::min() - zero),
             hi = static_cast<float>(std::numeric_limits<T>::max() - zero);
  for (int64_t i = 0; i < n; ++i) {
    float v = x[i] / scale;
    v = v > lo ? v : lo;
    v = v < hi ? v : hi;
    y[i] = static_cast<T>(std::bit_cast<int32_t>(v + 12582912.0f) - 0x4B400000 + zero);
  }
}
template <typename T>
void Dequantize(const T* x, float* y, int64_t n, float scale, int32_t zero) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(int32_t{x[i]} - zero) * scale;
}

std::string RefuseConversion(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (ElementTypeOf(NumbersSide(n)) != DType::kF32) return "not f32";
  if (ElementTypeOf(n.input(1)) != DType::kF32) return "the scale is not f32";
  const DType narrow = ElementTypeOf(CodesSide(n));
  if (!IsNarrow(narrow)) return Cat("elements of ", Name(narrow));
  if (n.input(2) && ElementTypeOf(n.input(2)) != narrow) return "the zero point is of another type";
  return n.attrs().count("block_size") && n.Attr<int64_t>("block_size") != 0 ? "blocks of scales"
                                                                             : "";
}

std::unique_ptr<Kernel> MakeConversion(const StepCall& call) {
  const Node& n = call.main();
  const bool quantize = n.Is(Trait::kQuantize);
  const DType narrow = ElementTypeOf(CodesSide(n));
  const int64_t axis = n.Attr<int64_t>("axis");
  const int x = call.operand(n.input(0)), s = call.operand(n.input(1)),
            z = call.operand(n.input(2));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[static_cast<size_t>(x)].dims;
    const int64_t scales = NumElements(in[static_cast<size_t>(s)].dims);
    int64_t inner = NumElements(dims);
    if (scales == 0) return Unsupported("there is no scale");
    if (scales > 1) {
      if (in[static_cast<size_t>(s)].dims.size() != 1) return Unsupported("blocks of scales");
      INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
      if (dims[static_cast<size_t>(a)] != scales) return Unsupported("scales do not fit the axis");
      inner = NumElements(Dims(dims.begin() + a + 1, dims.end()));
    }
    if (z >= 0 && NumElements(in[static_cast<size_t>(z)].dims) != scales)
      return Unsupported("not as many zero points as scales");
    // Rows with one scale, cut where they are long.
    const int64_t chunk = std::min<int64_t>(inner, kElementGrain);
    const int64_t chunks = (inner + chunk - 1) / chunk, rows = NumElements(dims) / inner;
    const size_t y = in.size();
    Prepared p;
    p.name = "own:quantize";
    p.launch = LaunchOf([=](std::byte* const* args) {
      Dispatch(narrow, [&]<typename T>(T) {
        const float* scale = As<float>(static_cast<const std::byte*>(args[s]));
        const T* zero = z < 0 ? nullptr : As<T>(static_cast<const std::byte*>(args[z]));
        ForRange(rows * chunks, std::max<int64_t>(1, kElementGrain / chunk),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t row = i / chunks, at = row * inner + i % chunks * chunk;
                     const int64_t m = std::min(chunk, inner - i % chunks * chunk);
                     const auto k = static_cast<size_t>(row % scales);
                     const int32_t by = zero ? int32_t{zero[k]} : 0;
                     const std::byte* from = args[x];
                     if (quantize)
                       Quantize(As<float>(from) + at, As<T>(args[y]) + at, m, scale[k], by);
                     else
                       Dequantize(As<T>(from) + at, As<float>(args[y]) + at, m, scale[k], by);
                   }
                 });
      });
    });
    return p;
  });
}

// ---- DynamicQuantizeLinear -------------------------------------------------------------------

std::string RefuseDynamic(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  return ElementTypeOf(call.main().input(0)) == DType::kF32 ? "" : "the operand is not f32";
}

std::unique_ptr<Kernel> MakeDynamic(const StepCall& call) {
  // -1: nobody wants that result.
  int at[3] = {-1, -1, -1};
  for (size_t o = 0; o < 3; ++o) {
    const auto& made = call.step.outputs;
    const Value* const v = call.main().output(o);
    const auto found = v ? std::find(made.begin(), made.end(), call.plan.id(v)) : made.end();
    if (found != made.end()) at[o] = static_cast<int>(found - made.begin());
  }
  return KernelOf(
      [=, y = at[0], scale = at[1], zero = at[2]](
          std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const int64_t n = NumElements(in[0].dims);
        const size_t first = in.size();
        Prepared p;
        p.name = "own:quantize";
        // Channels last stay so: integer convolutions read them.
        const Dims& dims = in[0].dims;
        if (y >= 0 && !in[0].layout.plain() && dims.size() >= 3 &&
            in[0].layout == onednn::ChannelsLast(DType::kF32, dims)) {
          p.in_layouts = {in[0].layout};
          p.out_layouts.resize(out.size());
          p.out_layouts[static_cast<size_t>(y)] = onednn::ChannelsLast(DType::kU8, dims);
        }
        p.launch = LaunchOf([=](std::byte* const* args) {
          const simd::Loops& loops = simd::TheLoops();
          const float* x = As<float>(static_cast<const std::byte*>(args[0]));
          // 0 must be representable, so it takes part; a NaN does not.
          float least = 0, most = 0;
          simd::TheFolds().range(x, n, &least, &most);
          const float s = most > least ? (most - least) / 255.0f : 1.0f;
          const float z = std::nearbyint(std::clamp(-least / s, 0.0f, 255.0f));
          if (scale >= 0) As<float>(args[first + static_cast<size_t>(scale)])[0] = s;
          if (zero >= 0)
            As<uint8_t>(args[first + static_cast<size_t>(zero)])[0] = static_cast<uint8_t>(z);
          if (y < 0) return;
          auto* to = As<uint8_t>(args[first + static_cast<size_t>(y)]);
          ForRange(n, kElementGrain, [&](int64_t begin, int64_t end) {
            loops.quantize_u8(x + begin, to + begin, end - begin, s, static_cast<int32_t>(z));
          });
        });
        return p;
      });
}

}  // namespace

KernelList QuantizeKernels() {
  return {{"QuantizeLinear", "", "own", RefuseConversion, MakeConversion},
          {"DequantizeLinear", "", "own", RefuseConversion, MakeConversion},
          {"DynamicQuantizeLinear", "", "own", RefuseDynamic, MakeDynamic}};
}

}  // namespace infer
