/// Cast and CastLike.
#include "lib/ops/elementwise/cast.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "lib/ops/decompositions.h"
#include "lib/ops/elements.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// Power-of-two scale 2^(code-127); 0xff is NaN (OCP Microscaling Formats 1.0).
uint8_t ToE8M0(float v, const CastOptions& options) {
  constexpr uint8_t kNan = 0xff;
  if (std::isnan(v) || v < 0) return kNan;
  if (v == 0) return options.saturate ? 0 : kNan;
  if (std::isinf(v)) return options.saturate ? 0xfe : kNan;
  int e = 0;
  const float m = std::frexp(v, &e);  // v = m 2^e with m in [0.5, 1)
  const bool up = options.round_mode == "up"     ? m > 0.5f
                  : options.round_mode == "down" ? false
                                                 : m >= 0.75f;
  const int code = e - 1 + (up ? 1 : 0) + 127;
  if (code < 0) return options.saturate ? 0 : kNan;
  if (code > 0xfe) return options.saturate ? 0xfe : kNan;
  return static_cast<uint8_t>(code);
}

Result<double> ParseNumber(std::string_view text) {
  std::string_view t = Trim(text);
  const bool negative = t.starts_with('-');
  if (negative || t.starts_with('+')) t.remove_prefix(1);
  std::string lower(t);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  double v = 0;
  if (lower == "inf" || lower == "infinity") {
    v = std::numeric_limits<double>::infinity();
  } else if (lower == "nan") {
    v = std::numeric_limits<double>::quiet_NaN();
  } else if (const auto number = ParseDouble(lower)) {
    v = *number;
  } else {
    return InvalidModel(Cat("Cast: \"", text, "\" is not a number"));
  }
  return negative ? -v : v;
}

/// Digits alone, up to 2^64 - 1.
std::optional<uint64_t> ParseUnsigned(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

Result<Tensor> FromStrings(const Tensor& x, DType to, const CastOptions& options) {
  if (IsInteger(to)) {
    Tensor y(to, x.dims());
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const std::string& s = x.strings()[static_cast<size_t>(i)];
      if (const auto large = to == DType::kU64 ? ParseUnsigned(Trim(s)) : std::nullopt) {
        y.mutable_data<uint64_t>()[static_cast<size_t>(i)] = *large;
        continue;
      }
      if (const auto exact = ParseInt(Trim(s))) {
        y.SetInt(i, *exact);
        continue;
      }
      INFER_ASSIGN(const double v, ParseNumber(s));
      y.Set(i, v);
    }
    return y;
  }
  Tensor wide(DType::kF64, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    INFER_ASSIGN(const double v, ParseNumber(x.strings()[static_cast<size_t>(i)]));
    wide.Set(i, v);
  }
  return CastTensor(wide, to, options);
}

Tensor ToStrings(const Tensor& x) {
  Tensor y(DType::kString, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    std::string& s = y.mutable_strings()[static_cast<size_t>(i)];
    if (x.dtype() == DType::kF64)
      s = FormatDouble(x.At(i));
    else if (x.dtype() == DType::kU64)
      s = std::to_string(x.data<uint64_t>()[static_cast<size_t>(i)]);
    else if (IsFloat(x.dtype()))
      s = FormatFloat(static_cast<float>(x.At(i)));
    else
      s = std::to_string(x.IntAt(i));
  }
  return y;
}

/// To fp8, fp4 or e8m0. There are at most 2^16 codes of a narrow source, but most sources are f32.
Tensor ToMiniFloat(const Tensor& x, DType to, const CastOptions& options) {
  Tensor y(to, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const auto v = static_cast<float>(x.At(i));
    if (IsPacked(to)) {
      y.Set(i, v);
      continue;
    }
    y.mutable_raw()[i] = static_cast<std::byte>(
        to == DType::kF8E8M0 ? ToE8M0(v, options) : FloatToMiniFloat(to, v, options.saturate));
  }
  return y;
}

/// Integers to a packed integer keep their low bits. So do floats, after truncation: outside the
/// range the standard leaves the result open, and its own test cases keep the low bits.
Tensor ToPackedInteger(const Tensor& x, DType to) {
  Tensor y(to, x.dims());
  const int unused = 64 - BitWidth(to);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const uint64_t low = static_cast<uint64_t>(x.IntAt(i)) << unused;
    y.SetInt(i, IsSignedInteger(to) ? static_cast<int64_t>(low) >> unused
                                    : static_cast<int64_t>(low >> unused));
  }
  return y;
}

template <typename In, typename Out>
bool Convert(const Tensor& x, Tensor& y) {
  if (x.dtype() != DTypeOf<In>() || y.dtype() != DTypeOf<Out>()) return false;
  MapUnary(x.data<In>(), y.mutable_data<Out>(), [](In v) {
    if constexpr (std::is_same_v<Out, bool>)
      return v != In{0};
    else
      return static_cast<Out>(v);
  });
  return true;
}

/// The conversions that models are full of, in one vectorised loop each.
bool ConvertFast(const Tensor& x, Tensor& y) {
  return Convert<int64_t, float>(x, y) || Convert<int32_t, float>(x, y) ||
         Convert<uint8_t, float>(x, y) || Convert<int8_t, float>(x, y) ||
         Convert<bool, float>(x, y) || Convert<float, double>(x, y) ||
         Convert<double, float>(x, y) || Convert<int64_t, int32_t>(x, y) ||
         Convert<int32_t, int64_t>(x, y) || Convert<float, bool>(x, y) ||
         Convert<int64_t, bool>(x, y) || Convert<bool, int64_t>(x, y);
}

Status CheckTarget(int64_t to) {
  if (to <= 0 || to >= kNumDTypes || to == static_cast<int64_t>(DType::kC64) ||
      to == static_cast<int64_t>(DType::kC128))
    return InvalidModel(Cat("Cast: there is no conversion to data type ", to));
  return {};
}

void InferElements(OpCall& call, DType to) {
  auto e = KnownElements(call, 0);
  if (!e || (!IsInteger(to) && to != DType::kBool)) return;
  for (Dim& d : *e) {
    if (to == DType::kBool)
      d = d.is_static() ? Dim(int64_t{d.value() != 0}) : Dim();
    else if (d.is_static() && (d.value() < IntegerMin(to) || d.value() > IntegerMax(to)))
      d = Dim();
  }
  call.SetElements(0, *std::move(e));
}

Status CheckRounding(std::string_view mode) {
  if (mode == "up" || mode == "down" || mode == "nearest") return {};
  return InvalidModel(Cat("unknown round_mode '", mode, "'"));
}

Status InferCast(OpCall& call) {
  INFER_TRY(CheckRounding(call.Str("round_mode")));
  INFER_TRY(CheckTarget(call.Int("to")));
  const auto to = static_cast<DType>(call.Int("to"));
  call.SetOut(0, to, call.shape(0));
  InferElements(call, to);
  return {};
}

Status InferCastLike(OpCall& call) {
  INFER_TRY(CheckRounding(call.Str("round_mode")));
  call.SetOut(0, call.dtype(1), call.shape(0));
  if (call.dtype(1) != DType::kUndefined) InferElements(call, call.dtype(1));
  return {};
}

Status RunTo(OpRun& run, DType to) {
  const CastOptions options{run.Int("saturate") != 0, run.Str("round_mode")};
  INFER_ASSIGN(Tensor y, CastTensor(run.in(0), to, options));
  run.Set(0, std::move(y));
  return {};
}

Status RunCast(OpRun& run) {
  INFER_TRY(CheckTarget(run.Int("to")));
  return RunTo(run, static_cast<DType>(run.Int("to")));
}

Status RunCastLike(OpRun& run) {
  INFER_TRY(CheckTarget(static_cast<int64_t>(run.in(1).dtype())));
  return RunTo(run, run.in(1).dtype());
}

/// Before opset 6 the target is the name of the enumerator.
Status LiftCast(NodeSpec node, int opset, LiftContext& out) {
  constexpr std::array<std::string_view, 17> kNames = {
      "UNDEFINED", "FLOAT",  "UINT8",     "INT8",       "UINT16",  "INT16",
      "INT32",     "INT64",  "STRING",    "BOOL",       "FLOAT16", "DOUBLE",
      "UINT32",    "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16"};
  const auto it = node.attrs.find("to");
  if (const auto* name = it == node.attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
      opset < 6 && name) {
    const auto found = std::find(kNames.begin(), kNames.end(), *name);
    if (found == kNames.end())
      return InvalidModel(Cat("Cast '", node.name, "': unknown type '", *name, "'"));
    it->second = static_cast<int64_t>(found - kNames.begin());
  }
  out.Emit(std::move(node));
  return {};
}

constexpr TypeSet kCastTypes = kAllTypes - kComplex;

OpDef CastOp(std::string_view name) {
  return {.name = name,
          .traits = Trait::kUnary | Trait::kConversion,
          .inputs = {{"input", "T1"}},
          .outputs = {{"output", "T2"}},
          .attrs = {{"saturate", AttrKind::kInt, int64_t{1}, false, 19},
                    {"round_mode", AttrKind::kString, std::string("up"), false, 24}},
          .constraints = {{"T1", kCastTypes}, {"T2", kCastTypes}},
          .tolerance = 0};
}

}  // namespace

Result<Tensor> CastTensor(const Tensor& x, DType to, const CastOptions& options) {
  if (options.round_mode != "up" && options.round_mode != "down" && options.round_mode != "nearest")
    return InvalidModel(Cat("Cast: unknown round_mode '", options.round_mode, "'"));
  const DType from = x.dtype();
  if (from == to) return x;
  if (from == DType::kString) return FromStrings(x, to, options);
  if (to == DType::kString) return ToStrings(x);
  if (IsFloat(to) && BitWidth(to) <= 8) return ToMiniFloat(x, to, options);
  if (IsPacked(to)) return ToPackedInteger(x, to);
  if (IsFloat(from) && BitWidth(from) <= 16) {
    const Tensor wide = Widen(x);
    return to == DType::kF32 ? wide : CastTensor(wide, to, options);
  }
  if (from == DType::kF32 && (to == DType::kF16 || to == DType::kBF16)) return Narrow(x, to);
  Tensor y(to, x.dims());
  if (ConvertFast(x, y)) return y;
  return x.Cast(to);
}

std::span<const OpDef> CastOps() {
  static const std::vector<OpDef> ops = [] {
    OpDef cast = CastOp("Cast");
    cast.doc = "The elements converted to the type `to`.";
    cast.since = 6;
    cast.versions = {1, 6, 9, 13, 19, 21, 23, 24, 25};
    cast.attrs.push_back({"to", AttrKind::kInt, {}, true});
    cast.infer = InferCast;
    cast.reference = RunCast;
    cast.lift = LiftCast;
    cast.example = "graph g(x: f32[2,3]) -> (y) { y = Cast(x) {to=7} }";
    OpDef like = CastOp("CastLike");
    like.doc = "The elements converted to the type of the second operand.";
    like.since = 15;
    like.versions = {15, 19, 21, 23, 24, 25};
    like.inputs.push_back({"target_type", "T2"});
    like.infer = InferCastLike;
    like.reference = RunCastLike;
    like.decompose = DecomposeCastLike;
    like.example = "graph g(x: f32[2,3], t: i32[]) -> (y) { y = CastLike(x, t) }";
    return std::vector<OpDef>{std::move(cast), std::move(like)};
  }();
  return ops;
}

}  // namespace infer
