/// QuantizeLinear, DequantizeLinear (per tensor, per axis, in blocks) and DynamicQuantizeLinear.
/// Real value = scale (q - zero point).
#include <limits>

#include "lib/ops/common.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"
#include "lib/ops/quantized/quant_reference.h"

namespace infer {
namespace {

/// x seen as [outer, extent, inner] around the axis, and which scale each element has.
struct Granularity {
  int64_t outer = 1, extent = 1, inner = 1;
  int64_t block = 1;         // consecutive positions along the axis with one scale
  int64_t scale_extent = 1;  // scales along the axis
  bool blocked = false;      // scales also vary over outer and inner

  int64_t ScaleAt(int64_t o, int64_t d) const {  // of inner position 0
    return blocked ? (o * scale_extent + d / block) * inner : d / block;
  }
};

Result<Granularity> GranularityOf(const OpRun& run, const Tensor& x, const Tensor& scale) {
  Granularity g;
  if (scale.num_elements() == 1) {
    g.inner = x.num_elements();
    return g;
  }
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), x.rank()));
  const int64_t block = run.Int("block_size");
  const auto at = static_cast<size_t>(axis);
  for (size_t d = 0; d < at; ++d) g.outer *= x.dims()[d];
  for (size_t d = at + 1; d < x.dims().size(); ++d) g.inner *= x.dims()[d];
  g.extent = x.dims()[at];
  const auto refuse = [&] {
    return InvalidModel(Cat(run.call().def().name, ": scale ", ToString(scale.dims()),
                            " does not fit x ", ToString(x.dims()), " at axis ", axis,
                            " with block_size ", block));
  };
  if (block < 0) return refuse();
  if (scale.rank() == 1 && block == 0) {
    g.scale_extent = g.extent;
    return scale.dim(0) == g.extent ? Result<Granularity>(g) : refuse();
  }
  if (scale.rank() != x.rank()) return refuse();
  g.blocked = true;
  g.scale_extent = scale.dims()[at];
  if (g.scale_extent <= 0) return refuse();
  g.block = block > 0 ? block : (g.extent + g.scale_extent - 1) / g.scale_extent;
  for (size_t d = 0; d < x.dims().size(); ++d) {
    const int64_t wanted =
        d == at ? (g.extent + g.block - 1) / std::max<int64_t>(g.block, 1) : x.dims()[d];
    if (scale.dims()[d] != wanted) return refuse();
  }
  return g;
}

/// Calls row(first element, first scale, step of the scale, n) for every run along inner.
template <typename Row>
void ForEachRow(const Granularity& g, const Row& row) {
  const int64_t rows = g.outer * g.extent;
  if (rows == 1)
    return ParallelFor(g.inner, kElementGrain, [&](int64_t b, int64_t e) {
      row(b, g.ScaleAt(0, 0) + (g.blocked ? b : 0), g.blocked ? 1 : 0, e - b);
    });
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, g.inner));
  ParallelFor(rows, grain, [&](int64_t b, int64_t e) {
    for (int64_t r = b; r < e; ++r)
      row(r * g.inner, g.ScaleAt(r / g.extent, r % g.extent), g.blocked ? 1 : 0, g.inner);
  });
}

Status CheckZeroPoint(const OpRun& run, const Tensor& scale) {
  if (!run.has(2) || run.in(2).num_elements() == scale.num_elements()) return {};
  return InvalidModel(Cat(run.call().def().name, ": zero point ", ToString(run.in(2).dims()),
                          " and scale ", ToString(scale.dims()), " differ"));
}

/// The type that an attribute names; for a number that names none one that no set of types has.
DType NamedType(int64_t number) {
  return static_cast<DType>(number > 0 && number < kNumDTypes ? number : kNumDTypes);
}

DType QuantizedType(const OpCall& call) {
  if (call.has_input(2)) return call.dtype(2);
  const int64_t t = call.Int("output_dtype");
  return t != 0 ? NamedType(t) : DType::kU8;
}

Status InferQuantize(OpCall& call) {
  const DType to = QuantizedType(call);
  const TypeSet allowed = call.def().constraints[2].types;
  if (to != DType::kUndefined && (static_cast<int>(to) >= kNumDTypes || !allowed.Has(to)))
    return InvalidModel(
        Cat("QuantizeLinear: output_dtype ", call.Int("output_dtype"), " is no quantized type"));
  call.SetOut(0, to, call.shape(0));
  return {};
}

/// saturate(round-half-even(v) + zero_point); a NaN gives the smallest value.
template <typename T>
T Saturate(float v, float zero_point) {
  constexpr auto kLow = static_cast<float>(std::numeric_limits<T>::min());
  constexpr auto kHigh = static_cast<float>(std::numeric_limits<T>::max());
  const float r = std::nearbyint(v) + zero_point;
  return static_cast<T>(r > kLow ? (r < kHigh ? r : kHigh) : kLow);
}

Status RunQuantize(OpRun& run) {
  Tensor x = Widen(run.in(0));
  if (x.dtype() != DType::kF32) x = x.Cast(DType::kF32);
  const Tensor scale = run.in(1);
  INFER_TRY(CheckZeroPoint(run, scale));
  INFER_ASSIGN(const Granularity g, GranularityOf(run, x, scale));
  const std::vector<float> scales = scale.ToFloats();
  const std::vector<float> zeros =
      run.has(2) ? run.in(2).ToFloats() : std::vector<float>(scales.size());
  const DType to = run.has(2) ? run.in(2).dtype() : QuantizedType(run.call());
  const bool saturate = run.Int("saturate") != 0;
  Tensor& y = run.Out(0, to, x.dims());
  const float* px = x.data<float>().data();
  const auto fast = [&]<typename T>(T) {
    T* py = y.mutable_data<T>().data();
    ForEachRow(g, [&](int64_t at, int64_t s, int64_t step, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<size_t>(s + i * step);
        py[at + i] = Saturate<T>(px[at + i] / scales[k], zeros[k]);
      }
    });
  };
  switch (to) {
    case DType::kU8: fast(uint8_t{}); return {};
    case DType::kI8: fast(int8_t{}); return {};
    case DType::kU16: fast(uint16_t{}); return {};
    case DType::kI16: fast(int16_t{}); return {};
    default: break;
  }
  // Sub-byte and fp8 types: one lane, because neighbours share bytes.
  for (int64_t o = 0; o < g.outer; ++o)
    for (int64_t d = 0; d < g.extent; ++d)
      for (int64_t i = 0; i < g.inner; ++i) {
        const int64_t at = (o * g.extent + d) * g.inner + i;
        const auto k = static_cast<size_t>(g.ScaleAt(o, d) + (g.blocked ? i : 0));
        const float v = px[at] / scales[k];
        if (IsInteger(to))
          y.Set(at, static_cast<double>(std::nearbyint(v) + zeros[k]));
        else if (IsPacked(to))
          y.Set(at, v + zeros[k]);
        else
          y.mutable_raw()[at] =
              static_cast<std::byte>(FloatToMiniFloat(to, v + zeros[k], saturate));
      }
  return {};
}

DType DequantizedType(const OpCall& call, DType scale) {
  const int64_t t = call.Int("output_dtype");
  if (t != 0) return NamedType(t);
  return scale == DType::kF8E8M0 ? DType::kF32 : scale;
}

Status InferDequantize(OpCall& call) {
  const DType to = DequantizedType(call, call.dtype(1));
  if (to != DType::kUndefined &&
      (static_cast<int>(to) >= kNumDTypes || !call.def().constraints[2].types.Has(to)))
    return InvalidModel(Cat("DequantizeLinear: output_dtype ", call.Int("output_dtype"),
                            " is not f32, f16 or bf16"));
  call.SetOut(0, to, call.shape(0));
  return {};
}

Status RunDequantize(OpRun& run) {
  Tensor x = Widen(run.in(0));
  if (IsPacked(x.dtype())) x = x.Cast(DType::kI8);
  const Tensor& scale = run.in(1);
  INFER_TRY(CheckZeroPoint(run, scale));
  if (run.has(2) && run.in(2).dtype() != run.in(0).dtype())
    return InvalidModel("DequantizeLinear: x and its zero point have different types");
  INFER_ASSIGN(const Granularity g, GranularityOf(run, x, scale));
  const std::vector<float> scales = scale.ToFloats();
  std::vector<double> zeros(scales.size());
  if (run.has(2))
    for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = run.in(2).At(static_cast<int64_t>(i));
  Tensor y(DType::kF32, x.dims());
  float* py = y.mutable_data<float>().data();
  const auto convert = [&]<typename T>(T) {
    const T* px = x.data<T>().data();
    ForEachRow(g, [&](int64_t at, int64_t s, int64_t step, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<size_t>(s + i * step);
        py[at + i] = static_cast<float>(static_cast<double>(px[at + i]) - zeros[k]) * scales[k];
      }
    });
  };
  switch (x.dtype()) {
    case DType::kU8: convert(uint8_t{}); break;
    case DType::kI8: convert(int8_t{}); break;
    case DType::kU16: convert(uint16_t{}); break;
    case DType::kI16: convert(int16_t{}); break;
    case DType::kI32: convert(int32_t{}); break;
    case DType::kF32: convert(float{}); break;
    default: return Unsupported(Cat("DequantizeLinear: no reference kernel for ", Name(x.dtype())));
  }
  run.Set(0, Narrow(y, DequantizedType(run.call(), scale.dtype())));
  return {};
}

Status InferDynamicQuantize(OpCall& call) {
  call.SetOut(0, DType::kU8, call.shape(0));
  call.SetOut(1, DType::kF32, Shape(std::vector<Dim>{}));
  call.SetOut(2, DType::kU8, Shape(std::vector<Dim>{}));
  return {};
}

Status RunDynamicQuantize(OpRun& run) {
  const auto x = run.in(0).data<float>();
  float low = 0, high = 0;
  for (const float v : x) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  const auto [scale, zero] = DynamicRangeOf(low, high);
  MapUnary(x, run.Out(0, DType::kU8, run.in(0).dims()).mutable_data<uint8_t>(),
           [scale = scale, zero = zero](float v) { return Saturate<uint8_t>(v / scale, zero); });
  run.Set(1, Tensor::Scalar(scale));
  run.Set(2, Tensor::Scalar(static_cast<uint8_t>(zero)));
  return {};
}

constexpr TypeSet kQuantized = TypeSet(DType::kI8, DType::kU8, DType::kI16, DType::kU16) | kFloat8 |
                               kInt4 | TypeSet(DType::kF4E2M1, DType::kU2, DType::kI2);
constexpr TypeSet kReal{DType::kF32, DType::kF16, DType::kBF16};

/// Scales and zero points: one for all, one per index of an axis, or one per block of it.
void QuantizeAxes(const OpCall& call, AxisLinks& links) {
  LinkBroadcast(call, 0, links);
  const Shape& x = call.shape(0);
  if (!x.has_rank()) return;
  const auto axis = NormalizeAxis(call.Int("axis"), x.rank());
  const int64_t block = call.Int("block_size");
  for (size_t i = 1; axis.ok() && i < call.num_inputs(); ++i) {
    if (!call.has_input(i) || !call.shape(i).has_rank()) continue;
    const Shape& s = call.shape(i);
    if (block == 0) {
      if (s.rank() == 1) LinkSame(call, i, 0, 0, *axis, links);
      continue;
    }
    for (int a = 0; a < std::min(s.rank(), x.rank()); ++a)
      if (a != *axis)
        LinkSame(call, i, a, 0, a, links);
      else if (s[a].is_static())
        links.push_back({.labels = s[a].value(),
                         .from = {.value = i, .axis = a},
                         .to = {.axis = a, .inner = block}});
  }
}

PermuteResult PermuteQuantize(const OpCall& call, const Perm& perm, PermutedCall to) {
  const Shape& scale = call.shape(1);
  if (!scale.has_rank() || call.Int("block_size") != 0) return std::nullopt;
  if (scale.num_elements().KnownEqual(1)) return to;  // the axis is not used
  return PermuteAxis(call, perm, std::move(to));
}

}  // namespace

std::span<const OpDef> QuantizeLinearOps() {
  static const OpDef ops[] = {
      {.name = "QuantizeLinear",
       .doc = "y = saturate(round(x / y_scale) + y_zero_point).",
       .traits = Trait::kQuantization | Trait::kConversion | Trait::kQuantize,
       .axes = QuantizeAxes,
       .permute = PermuteQuantize,
       .since = 10,
       .versions = {10, 13, 19, 21, 23, 24, 25},
       .inputs = {{"x", "T1"}, {"y_scale", "T2"}, {"y_zero_point", "T3", Arity::kOptional}},
       .outputs = {{"y", "T3"}},
       .attrs = {{"axis", AttrKind::kInt, int64_t{1}, false, 13},
                 {"saturate", AttrKind::kInt, int64_t{1}, false, 19},
                 {"block_size", AttrKind::kInt, int64_t{0}, false, 21},
                 {"output_dtype", AttrKind::kInt, int64_t{0}, false, 21},
                 {"precision", AttrKind::kInt, int64_t{0}, false, 23}},
       .constraints = {{"T1", kReal | TypeSet(DType::kI32)},
                       {"T2", kReal | TypeSet(DType::kI32, DType::kF8E8M0)},
                       {"T3", kQuantized}},
       .infer = InferQuantize,
       .reference = RunQuantize,
       .cost = CostPerOutput<2>,
       .example = R"(graph g(x: f32[2,3]) -> (y) {
         s = const f32[] {0.05}
         z = const u8[] {128}
         y = QuantizeLinear(x, s, z) })"},
      {.name = "DequantizeLinear",
       .doc = "y = (x - x_zero_point) x_scale.",
       .traits = Trait::kQuantization | Trait::kConversion | Trait::kDequantize,
       .axes = QuantizeAxes,
       .permute = PermuteQuantize,
       .since = 10,
       .versions = {10, 13, 19, 21, 23, 24, 25},
       .inputs = {{"x", "T1"}, {"x_scale", "T2"}, {"x_zero_point", "T1", Arity::kOptional}},
       .outputs = {{"y", "T3"}},
       .attrs = {{"axis", AttrKind::kInt, int64_t{1}, false, 13},
                 {"block_size", AttrKind::kInt, int64_t{0}, false, 21},
                 {"output_dtype", AttrKind::kInt, int64_t{0}, false, 23}},
       .constraints = {{"T1", kQuantized | TypeSet(DType::kI32)},
                       {"T2", kReal | TypeSet(DType::kF8E8M0)},
                       {"T3", kReal}},
       .infer = InferDequantize,
       .reference = RunDequantize,
       .cost = CostPerOutput<2>,
       .example = R"(graph g(x: i8[2,3]) -> (y) {
         s = const f32[3] {0.5, 1, 2}
         y = DequantizeLinear(x, s) })"},
      {.name = "DynamicQuantizeLinear",
       .doc = "x as u8 with a scale and zero point chosen from its range.",
       .traits = Trait::kQuantization | Trait::kConversion,
       .since = 11,
       .versions = {11},
       .inputs = {{"x", "T1"}},
       .outputs = {{"y", "T2"}, {"y_scale", "f32"}, {"y_zero_point", "T2"}},
       .constraints = {{"T1", TypeSet(DType::kF32)}, {"T2", TypeSet(DType::kU8)}},
       .infer = InferDynamicQuantize,
       .reference = RunDynamicQuantize,
       .cost = CostPerInput<4>,
       .example = "graph g(x: f32[2,3]) -> (y, s, z) { y, s, z = DynamicQuantizeLinear(x) }"},
  };
  return ops;
}

}  // namespace infer
