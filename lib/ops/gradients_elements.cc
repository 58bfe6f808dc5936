/// Gradients of element-wise operators. At a kink: the derivative of one side, which the comments
/// name; docs/adding-a-gradient.md lists them.
#include <cmath>
#include <numbers>

#include "lib/ops/gradient_text.h"
#include "lib/ops/gradients_families.h"

namespace infer {
namespace {

/// Functions of x0 alone, by their derivatives; g0 times it.
Result<std::string> Derivative(std::string_view op, GradientText& t) {
  const auto one = [&] { return t.Number(1); };
  const auto square = [&](std::string_view of) { return t.Set("Mul(", of, ", ", of, ")"); };
  const auto negative = [&](std::string_view of) { return t.Set("Neg(", of, ")"); };
  const auto inverse = [&](std::string_view of) { return t.Set("Reciprocal(", of, ")"); };
  const auto root = [&](std::string_view of) { return t.Set("Sqrt(", of, ")"); };
  const auto minus = [&](std::string_view a, std::string_view b) {
    return t.Set("Sub(", a, ", ", b, ")");
  };
  const auto plus = [&](std::string_view a, std::string_view b) {
    return t.Set("Add(", a, ", ", b, ")");
  };
  if (op == "Sqrt") return inverse(t.Set("Mul(y0, ", t.Number(2), ")"));
  if (op == "Exp") return std::string("y0");
  if (op == "Log") return inverse("x0");
  if (op == "Erf")
    return t.Set("Mul(", t.Set("Exp(", negative(square("x0")), ")"), ", ",
                 t.Number(2 / std::sqrt(std::numbers::pi)), ")");
  if (op == "Sin") return t.Set("Cos(x0)");
  if (op == "Cos") return negative(t.Set("Sin(x0)"));
  if (op == "Tan") return plus(one(), square("y0"));
  if (op == "Asin") return inverse(root(minus(one(), square("x0"))));
  if (op == "Acos") return negative(inverse(root(minus(one(), square("x0")))));
  if (op == "Atan") return inverse(plus(one(), square("x0")));
  if (op == "Sinh") return t.Set("Cosh(x0)");
  if (op == "Cosh") return t.Set("Sinh(x0)");
  if (op == "Tanh") return minus(one(), square("y0"));
  if (op == "Asinh") return inverse(root(plus(square("x0"), one())));
  if (op == "Acosh") return inverse(root(minus(square("x0"), one())));
  if (op == "Atanh") return inverse(minus(one(), square("x0")));
  if (op == "Reciprocal") return negative(square("y0"));
  if (op == "Abs") return t.Set("Sign(x0)");   // 0 at 0
  if (op == "Relu") return t.Set("Sign(y0)");  // 0 at 0
  if (op == "Sigmoid") return minus("y0", square("y0"));
  if (op == "Softplus") return t.Set("Sigmoid(x0)");
  if (op == "Softsign") return inverse(square(plus(one(), t.Set("Abs(x0)"))));
  return Internal(Cat("no derivative of ", op));
}

/// `then` where `condition` holds, else `other`.
std::string Choose(GradientText& t, std::string_view condition, std::string_view then,
                   std::string_view other) {
  return t.Set("Where(", condition, ", ", then, ", ", other, ")");
}

}  // namespace

Result<std::string> GradientOfFunction(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  INFER_ASSIGN(const std::string derivative, Derivative(call.def().name, t));
  t.Give(0, t.Set("Mul(g0, ", derivative, ")"));
  return t.Finish();
}

Result<std::string> GradientOfNeg(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  t.Give(0, t.Set("Neg(g0)"));
  return t.Finish();
}

Result<std::string> GradientOfIdentity(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  t.Give(0, "g0");
  return t.Finish();
}

Result<std::string> GradientOfCast(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  t.Give(0, t.Set("Cast(g0) {to=", static_cast<int>(call.dtype(0)), "}"));
  return t.Finish();
}

/// Two pieces that meet at 0 (ThresholdedRelu: at alpha); there the left one counts.
Result<std::string> GradientOfPieces(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const std::string_view op = call.def().name;
  const double alpha = static_cast<double>(call.Float("alpha"));
  const std::string right =
      t.Set("Greater(x0, ", t.Number(op == "ThresholdedRelu" ? alpha : 0), ")");
  if (op == "ThresholdedRelu") {
    t.Give(0, Choose(t, right, "g0", t.Number(0)));
  } else if (op == "LeakyRelu") {
    t.Give(0, Choose(t, right, "g0", t.Set("Mul(g0, ", t.Number(alpha), ")")));
  } else {  // Elu, Selu: scale alpha e^x = y + scale alpha
    const double scale = op == "Selu" ? static_cast<double>(call.Float("gamma")) : 1.0;
    const std::string left = t.Set("Add(y0, ", t.Number(scale * alpha), ")");
    t.Give(0, t.Set("Mul(g0, ", Choose(t, right, t.Number(scale), left), ")"));
  }
  return t.Finish();
}

/// 0 at both kinks.
Result<std::string> GradientOfHardSigmoid(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const std::string above = t.Set("Greater(y0, ", t.Number(0), ")");
  const std::string below = t.Set("Less(y0, ", t.Number(1), ")");
  const std::string inside = t.Set("And(", above, ", ", below, ")");
  const std::string slope =
      t.Set("Mul(g0, ", t.Number(static_cast<double>(call.Float("alpha"))), ")");
  t.Give(0, Choose(t, inside, slope, t.Number(0)));
  return t.Finish();
}

/// 1 at the bounds. The bounds themselves have no gradient.
Result<std::string> GradientOfClip(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  t.Give(0, Choose(t, t.Set("Equal(x0, y0)"), "g0", t.Number(0)));
  return t.Finish();
}

/// The slope counts at 0.
Result<std::string> GradientOfPRelu(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const std::string zero = t.Number(0);
  const std::string right = t.Set("Greater(x0, ", zero, ")");
  t.Give(0, Choose(t, right, "g0", t.Set("Mul(g0, x1)")));
  t.Give(1, Choose(t, right, zero, t.Set("Mul(g0, x0)")));
  return t.Finish();
}

/// As in inference: data pass.
Result<std::string> GradientOfDropout(const OpCall& call, std::span<const size_t> wanted) {
  if (call.has_input(2)) return Unsupported("training_mode may be on");
  return GradientOfIdentity(call, wanted);
}

Result<std::string> GradientOfSum(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  std::string each = "g0";
  if (call.def().name == "Mean")
    each = t.Set("Div(g0, ", t.Number(static_cast<double>(call.num_inputs())), ")");
  for (const size_t i : wanted) t.Give(i, each);
  return t.Finish();
}

Result<std::string> GradientOfSub(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  t.Give(0, "g0");
  if (t.Wants(1)) t.Give(1, t.Set("Neg(g0)"));
  return t.Finish();
}

Result<std::string> GradientOfMul(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  if (t.Wants(0)) t.Give(0, t.Set("Mul(g0, x1)"));
  if (t.Wants(1)) t.Give(1, t.Set("Mul(g0, x0)"));
  return t.Finish();
}

Result<std::string> GradientOfDiv(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const std::string part = t.Set("Div(g0, x1)");
  t.Give(0, part);
  if (t.Wants(1)) t.Give(1, t.Set("Neg(", t.Set("Mul(", part, ", y0)"), ")"));
  return t.Finish();
}

/// Of the exponent: where x > 0 only, else 0.
Result<std::string> GradientOfPow(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const Tensor* power = call.constant(1);
  if (t.Wants(0) && power && power->num_elements() == 1 && power->At(0) == 2) {
    t.Give(0, t.Set("Mul(", t.Set("Mul(g0, x0)"), ", ", t.Number(2), ")"));
    if (!t.Wants(1)) return t.Finish();
  } else if (t.Wants(0)) {
    std::string p = "x1";
    if (call.dtype(1) != t.dtype()) {
      t.Cast("power", p, t.dtype());
      p = "power";
    }
    const std::string less = t.Set("Sub(", p, ", ", t.Number(1), ")");
    const std::string slope = t.Set("Mul(", p, ", ", t.Set("Pow(x0, ", less, ")"), ")");
    t.Give(0, t.Set("Mul(g0, ", slope, ")"));
  }
  if (!t.Wants(1)) return t.Finish();
  if (call.dtype(1) != t.dtype()) return Unsupported("base and exponent differ in type");
  const std::string zero = t.Number(0);
  const std::string slope = t.Set("Mul(y0, ", t.Set("Log(x0)"), ")");
  const std::string known = Choose(t, t.Set("Greater(x0, ", zero, ")"), slope, zero);
  t.Give(1, t.Set("Mul(g0, ", known, ")"));
  return t.Finish();
}

/// Where several operands are the extreme, each gets the whole gradient.
Result<std::string> GradientOfExtreme(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  for (const size_t i : wanted)
    t.Give(i, Choose(t, t.Set("Equal(x", i, ", y0)"), "g0", t.Number(0)));
  return t.Finish();
}

Result<std::string> GradientOfWhere(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  if (t.Wants(1)) t.Give(1, Choose(t, "x0", "g0", t.Number(0)));
  if (t.Wants(2)) t.Give(2, Choose(t, "x0", t.Number(0), "g0"));
  return t.Finish();
}

}  // namespace infer
