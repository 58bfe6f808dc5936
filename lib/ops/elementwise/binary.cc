/// Arithmetic of two operands with NumPy broadcasting. Integers wrap; floats follow IEEE 754.
#include "lib/ops/common.h"
#include "lib/ops/elements.h"
#include "lib/ops/op_def.h"
#include "lib/tensor/to_integer.h"

namespace infer {
namespace {

template <typename F>
Status RunBinary(OpRun& run, F f) {
  const Tensor &a = run.in(0), &b = run.in(1);
  INFER_TRY(CheckSameTypes(run, 0, 2));
  INFER_ASSIGN(Dims dims, Broadcast(a.dims(), b.dims()));
  Tensor& out = run.Out(0, a.dtype(), std::move(dims));
  return DispatchNumber(run, a.dtype(), [&]<typename T>(T) { MapBinary<T, T, T>(a, b, out, f); });
}

Status RunAdd(OpRun& run) {
  return RunBinary(run, []<typename T>(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    else
      return a + b;
  });
}

Status RunSub(OpRun& run) {
  return RunBinary(run, []<typename T>(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
    else
      return a - b;
  });
}

Status RunMul(OpRun& run) {
  return RunBinary(run, []<typename T>(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    else
      return a * b;
  });
}

/// Integers divide toward zero. ONNX leaves x/0 open: here it is 0, and min/-1 wraps to min.
Status RunDiv(OpRun& run) {
  return RunBinary(run, []<typename T>(T a, T b) -> T {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == T{-1}) return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  });
}

/// The remainder with the sign of the divisor (Python's %), or of the dividend with fmod=1 (C's).
Status RunMod(OpRun& run) {
  const bool c_like = run.Int("fmod") != 0;
  return RunBinary(run, [c_like]<typename T>(T a, T b) -> T {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == T{-1}) return 0;
      const T r = static_cast<T>(a % b);
      return !c_like && r != 0 && ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
    } else {
      const T r = std::fmod(a, b);
      return !c_like && r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
    }
  });
}

Status InferMod(OpCall& call) {
  return call.Int("fmod") != 0 ? InferBroadcast(call) : InferElementwise<ModDims>(call);
}

template <typename T>
T IntegerPower(T base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? T{1} : base == -1 ? (exponent & 1 ? T{-1} : T{1}) : T{0};
  using U = Wrapping<T>;
  U result = 1, square = static_cast<U>(base);
  for (; exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return static_cast<T>(result);
}

/// The result has the type of the base; integer powers of integers are exact.
Status RunPow(OpRun& run) {
  const Tensor &a = run.in(0), &b = run.in(1);
  INFER_ASSIGN(Dims dims, Broadcast(a.dims(), b.dims()));
  Tensor& out = run.Out(0, a.dtype(), std::move(dims));
  if (IsInteger(a.dtype()) && IsInteger(b.dtype())) {
    const Tensor exponent = b.Cast(DType::kI64);
    return DispatchNumber(run, a.dtype(), [&]<typename T>(T) {
      if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
        MapBinary<T, int64_t, T>(a, exponent, out, IntegerPower<T>);
    });
  }
  if (a.dtype() == DType::kF32 && b.dtype() == DType::kF32) {
    if (b.num_elements() == 1 && b.data<float>()[0] == 2) {
      MapBinary<float, float, float>(a, b, out, [](float x, float) { return x * x; });
    } else {
      MapBinary<float, float, float>(a, b, out, [](float x, float y) { return std::pow(x, y); });
    }
    return {};
  }
  const Tensor exponent = b.Cast(DType::kF64);
  return DispatchNumber(run, a.dtype(), [&]<typename T>(T) {
    MapBinary<T, double, T>(a, exponent, out, [](T x, double y) {
      const double power = std::pow(static_cast<double>(x), y);
      if constexpr (std::is_integral_v<T>)
        return ToInteger<T>(power);
      else
        return static_cast<T>(power);
    });
  });
}

OpDef Arithmetic(std::string_view name, std::string_view doc, bool commutative,
                 OpDef::InferFn infer, OpDef::ReferenceFn reference, std::string_view example) {
  return {.name = name,
          .doc = doc,
          .traits = Trait::kElementwise,
          .since = 7,
          .versions = {1, 6, 7, 13, 14},
          .inputs = {{"A", "T"}, {"B", "T"}},
          .outputs = {{"C", "T"}},
          .constraints = {{"T", kNumeric}},
          .commutative = commutative,
          .infer = infer,
          .reference = reference,
          .cost = CostPerOutput<1>,
          .lift = LiftAxisBroadcast,
          .example = example};
}

}  // namespace

std::span<const OpDef> BinaryOps() {
  static const OpDef ops[] = {
      Also(Trait::kAdditive | Trait::kSum,
           Arithmetic("Add", "C = A + B.", true, InferElementwise<AddDims>, Wide<RunAdd>,
                      "graph g(x: f32[2,3], y: f32[3]) -> (z) { z = Add(x, y) }")),
      Also(Trait::kAdditive,
           Arithmetic("Sub", "C = A - B.", false, InferElementwise<SubDims>, Wide<RunSub>,
                      "graph g(x: f32[2,1], y: f32[2,3]) -> (z) { z = Sub(x, y) }")),
      Also(Trait::kProduct,
           Arithmetic("Mul", "C = A * B.", true, InferElementwise<MulDims>, Wide<RunMul>,
                      "graph g(x: f32[2,3], y: f32[2,1]) -> (z) { z = Mul(x, y) }")),
      Arithmetic("Div", "C = A / B; integers divide toward zero.", false, InferElementwise<DivDims>,
                 Wide<RunDiv>, "graph g(x: f32[2,3], y: f32[]) -> (z) { z = Div(x, y) }"),
      {.name = "Pow",
       .doc = "Z = X to the power of Y, in the type of X.",
       .traits = Trait::kElementwise,
       .since = 7,
       .versions = {1, 7, 12, 13, 15},
       .inputs = {{"X", "T"}, {"Y", "T1"}},
       .outputs = {{"Z", "T"}},
       .constraints = {{"T", kFloatsBF16 | TypeSet(DType::kI32, DType::kI64)}, {"T1", kNumeric}},
       .infer = InferBroadcast,
       .reference = Wide<RunPow>,
       .cost = CostPerOutput<1>,
       .lift = LiftAxisBroadcast,
       .example = R"(graph g(x: f32[2,3]) -> (z) { y = const f32[] {2} z = Pow(x, y) })"},
      {.name = "Mod",
       .doc = "Remainder with the sign of B, or with fmod=1 of A.",
       .traits = Trait::kElementwise,
       .since = 10,
       .versions = {10, 13},
       .inputs = {{"A", "T"}, {"B", "T"}},
       .outputs = {{"C", "T"}},
       .attrs = {{"fmod", AttrKind::kInt, int64_t{0}}},
       .constraints = {{"T", kNumeric}},
       .infer = InferMod,
       .reference = Wide<RunMod>,
       .cost = CostPerOutput<1>,
       .example = "graph g(x: i64[4], y: i64[4]) -> (z) { z = Mod(x, y) }"},
  };
  return ops;
}

}  // namespace infer
