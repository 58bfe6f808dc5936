/// Mathematical functions of one operand, element by element.
#include <numbers>

#include "lib/ops/elements.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// y = f(x) for f32 and f64 (f16 and bf16 through Wide).
template <auto kFn>
Status RunFloat(OpRun& run) {
  const Tensor& x = run.in(0);
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchF32F64(run, x.dtype(), [&]<typename T>(T) {
    MapUnary(x.data<T>(), y.mutable_data<T>(), [](T v) -> T { return kFn(v); });
  });
}

/// y = f(x) for floats and integers.
template <auto kFn>
Status RunNumber(OpRun& run) {
  const Tensor& x = run.in(0);
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchNumber(run, x.dtype(), [&]<typename T>(T) {
    MapUnary(x.data<T>(), y.mutable_data<T>(), [](T v) -> T { return kFn(v); });
  });
}

constexpr auto kNeg = []<typename T>(T v) -> T {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(v));
  else
    return -v;
};
constexpr auto kAbs = []<typename T>(T v) -> T {
  if constexpr (std::is_unsigned_v<T>)
    return v;
  else if constexpr (std::is_integral_v<T>)
    return v < 0 ? kNeg(v) : v;
  else
    return std::abs(v);
};
constexpr auto kSign = []<typename T>(T v) -> T {
  if constexpr (std::is_unsigned_v<T>)
    return v != 0;
  else
    return v > 0 ? T{1} : v < 0 ? T{-1} : v;  // a NaN stays; ONNX leaves it open
};
constexpr auto kRelu = []<typename T>(T v) -> T {
  if constexpr (std::is_unsigned_v<T>)
    return v;
  else
    return v < 0 ? T{0} : v;
};

OpDef Relu(OpDef def) {
  def.clamp = [](const OpCall&) { return std::optional(Clamp{.low = 0}); };
  return def;
}

OpDef Unary(std::string_view name, std::string_view doc, std::vector<int> versions, TypeSet types,
            OpDef::ReferenceFn reference, OpDef::CostFn cost, std::string_view example,
            std::string_view input = "input", std::string_view output = "output") {
  const bool from_1 = versions.front() == 1 && versions.size() > 1 && versions[1] == 6;
  return {.name = name,
          .doc = doc,
          .traits = Trait::kUnary,
          .since = versions.front(),
          .versions = std::move(versions),
          .inputs = {{input, "T"}},
          .outputs = {{output, "T"}},
          .constraints = {{"T", types}},
          .infer = InferSame,
          .reference = reference,
          .cost = cost,
          .lift = from_1 ? LiftConsumedInputs : nullptr,
          .example = example};
}

constexpr TypeSet kSigned = kFloatsBF16 | kSignedInts;

/// A start that counts from the end: x[-length:].
Status InferNeg(OpCall& call) {
  INFER_TRY(InferSame(call));
  auto e = IsFloat(call.dtype(0)) ? std::nullopt : call.elements(0);
  if (!e) return {};
  for (Dim& d : *e) {
    d = Dim(0) - d;
    if (d.is_static() && d.value() > IntegerMax(call.dtype(0))) d = Dim();  // it wraps
  }
  call.SetElements(0, *std::move(e));
  return {};
}

OpDef Neg(OpDef def) {
  def.infer = InferNeg;
  return def;
}

}  // namespace

// One entry per operator; versions and element types are the ONNX schema's.
#define FLOAT(name, doc, fn, in, out, ...)                                                \
  Unary(name, doc, {__VA_ARGS__}, kFloatsBF16, Wide<RunFloat<[](auto x) { return fn; }>>, \
        CostPerOutput<1>, "graph g(x: f32[2,3]) -> (y) { y = " name "(x) }", in, out)

std::span<const OpDef> UnaryOps() {
  static const OpDef ops[] = {
      FLOAT("Sqrt", "y = sqrt(x); NaN below 0.", std::sqrt(x), "X", "Y", 1, 6, 13),
      FLOAT("Exp", "y = e^x.", std::exp(x), "input", "output", 1, 6, 13),
      FLOAT("Log", "y = ln(x).", std::log(x), "input", "output", 1, 6, 13),
      FLOAT("Erf", "y = erf(x).", std::erf(x), "input", "output", 9, 13),
      FLOAT("Sin", "y = sin(x).", std::sin(x), "input", "output", 7, 22),
      FLOAT("Cos", "y = cos(x).", std::cos(x), "input", "output", 7, 22),
      FLOAT("Tan", "y = tan(x).", std::tan(x), "input", "output", 7, 22),
      FLOAT("Asin", "y = arcsin(x).", std::asin(x), "input", "output", 7, 22),
      FLOAT("Acos", "y = arccos(x).", std::acos(x), "input", "output", 7, 22),
      FLOAT("Atan", "y = arctan(x).", std::atan(x), "input", "output", 7, 22),
      FLOAT("Sinh", "y = sinh(x).", std::sinh(x), "input", "output", 9, 22),
      FLOAT("Cosh", "y = cosh(x).", std::cosh(x), "input", "output", 9, 22),
      FLOAT("Tanh", "y = tanh(x).", std::tanh(x), "input", "output", 1, 6, 13),
      FLOAT("Asinh", "y = arsinh(x).", std::asinh(x), "input", "output", 9, 22),
      FLOAT("Acosh", "y = arcosh(x).", std::acosh(x), "input", "output", 9, 22),
      FLOAT("Atanh", "y = artanh(x).", std::atanh(x), "input", "output", 9, 22),
      FLOAT("Reciprocal", "y = 1 / x.", 1 / x, "X", "Y", 1, 6, 13),
      FLOAT("Floor", "y = largest integer <= x.", std::floor(x), "X", "Y", 1, 6, 13),
      FLOAT("Ceil", "y = smallest integer >= x.", std::ceil(x), "X", "Y", 1, 6, 13),
      FLOAT("Round", "y = nearest integer, halves to even.", std::nearbyint(x), "X", "Y", 11, 22),
      Also(Trait::kHomogeneous | Trait::kAdditive,
           Neg(Unary("Neg", "y = -x.", {1, 6, 13}, kSigned, Wide<RunNumber<kNeg>>, CostPerOutput<1>,
                     "graph g(x: f32[2,3]) -> (y) { y = Neg(x) }", "X", "Y"))),
      Also(Trait::kHomogeneous | Trait::kNonNegative,
           Unary("Abs", "y = |x|.", {1, 6, 13}, kNumeric, Wide<RunNumber<kAbs>>, CostPerOutput<1>,
                 "graph g(x: f32[2,3]) -> (y) { y = Abs(x) }", "X", "Y")),
      Unary("Sign", "y = -1, 0 or 1.", {9, 13}, kNumeric, Wide<RunNumber<kSign>>, CostPerOutput<0>,
            "graph g(x: f32[2,3]) -> (y) { y = Sign(x) }"),
      Relu(Also(Trait::kHomogeneous | Trait::kNonNegative,
                Unary("Relu", "y = max(x, 0).", {1, 6, 13, 14}, kSigned, Wide<RunNumber<kRelu>>,
                      CostPerOutput<0>, "graph g(x: f32[2,3]) -> (y) { y = Relu(x) }", "X", "Y"))),
  };
  return ops;
}
#undef FLOAT

}  // namespace infer
