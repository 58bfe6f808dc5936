/// Straight-through gradients of QuantizeLinear and DequantizeLinear: rounding passes a gradient on
/// as if it were the identity (Bengio, Leonard and Courville, arXiv:1308.3432), saturation passes
/// none. Put together they give the gradient of a step size by Esser and others, "Learned Step Size
/// Quantization", arXiv:1902.08153, formula 3, with a zero point.
#include "lib/ops/axes.h"
#include "lib/ops/gradients/gradient_text.h"
#include "lib/ops/gradients/gradients_families.h"

namespace infer {
namespace {

/// Scales of one call: one for all numbers, or one for each index of an axis.
struct Scales {
  DType dtype = DType::kF32;
  Dims dims;      ///< of the operand
  Dims beside;    ///< axis >= 0: the extents under which they broadcast beside the numbers
  int axis = -1;  ///< -1: one for all

  static Result<Scales> Of(const OpCall& call, DType numbers) {
    Scales s{call.dtype(1), call.shape(1).static_dims(), {}};
    if (s.dtype != numbers)
      return Unsupported(Cat("scales of ", Name(s.dtype), " beside numbers of ", Name(numbers)));
    if (NumElements(s.dims) == 1) return s;
    const Dims x = call.shape(0).static_dims();
    if (s.dims.size() != 1) return Unsupported("scales of blocks have no gradient");
    INFER_ASSIGN(s.axis, NormalizeAxis(call.Int("axis"), static_cast<int>(x.size())));
    s.beside.assign(x.size(), 1);
    s.beside[static_cast<size_t>(s.axis)] = s.dims[0];
    return s;
  }

  std::string View(GradientText& t, std::string_view from) const {
    return axis < 0 ? std::string(from) : t.View(from, beside);
  }
  std::string Number(GradientText& t, double value) const { return t.NumberOf(dtype, value); }
  /// The zero points as numbers.
  std::string ZeroPoints(GradientText& t, const OpCall& call) const {
    if (!call.has_input(2)) return Number(t, 0);
    return View(t, t.Set("Cast(x2) {to=", static_cast<int>(dtype), "}"));
  }
  /// Gradients of the numbers, added up for each scale.
  std::string Total(GradientText& t, const std::string& from) const {
    if (axis < 0) return from;  // passes/gradient adds up
    std::vector<int64_t> before, behind;
    for (int64_t a = 0; a < static_cast<int64_t>(beside.size()); ++a)
      if (a != axis) (a < axis ? before : behind).push_back(a);
    std::string sum = from;
    if (!behind.empty()) sum = t.Total(sum, behind, false);
    if (!before.empty()) sum = t.Total(sum, before, false);
    return sum;
  }
};

}  // namespace

/// Of the code as the real number clip(x / scale + zero point, lowest, highest).
Result<std::string> GradientOfQuantize(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  INFER_ASSIGN(const Scales scales, Scales::Of(call, call.dtype(0)));
  const DType codes = call.out(0).dtype;
  if (!IsInteger(codes)) return Unsupported(Cat("codes of ", Name(codes), " have no gradient"));
  const std::string scale = scales.View(t, "x1");
  const std::string ratio = t.Set("Div(x0, ", scale, ")");
  const std::string code = t.Set("Add(", ratio, ", ", scales.ZeroPoints(t, call), ")");
  const auto bound = [&](int64_t b) { return scales.Number(t, static_cast<double>(b)); };
  const std::string above = t.Set("GreaterOrEqual(", code, ", ", bound(IntegerMin(codes)), ")");
  const std::string below = t.Set("LessOrEqual(", code, ", ", bound(IntegerMax(codes)), ")");
  const std::string inside = t.Set("And(", above, ", ", below, ")");
  const std::string given = t.Set("Where(", inside, ", g0, ", scales.Number(t, 0), ")");
  const std::string d0 = t.Set("Div(", given, ", ", scale, ")");
  t.Give(0, d0);
  if (t.Wants(1))
    t.Give(1, scales.Total(t, t.Set("Neg(", t.Set("Mul(", d0, ", ", ratio, ")"), ")")));
  return t.Finish();
}

/// Of (code - zero point) * scale, the code as a real number.
Result<std::string> GradientOfDequantize(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  INFER_ASSIGN(const Scales scales, Scales::Of(call, call.out(0).dtype));
  if (t.Wants(0)) t.Give(0, t.Set("Mul(g0, ", scales.View(t, "x1"), ")"));
  if (t.Wants(1)) {
    const std::string code = t.Set("Cast(x0) {to=", static_cast<int>(scales.dtype), "}");
    const std::string from = t.Set("Sub(", code, ", ", scales.ZeroPoints(t, call), ")");
    t.Give(1, scales.Total(t, t.Set("Mul(g0, ", from, ")")));
  }
  return t.Finish();
}

}  // namespace infer
