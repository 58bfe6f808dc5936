/// Gradients of reductions, of Softmax and of normalizations.
#include <numeric>

#include "lib/ops/gradients/gradient_text.h"
#include "lib/ops/gradients/gradients_families.h"
#include "lib/ops/move/move.h"

namespace infer {
namespace {

/// The axes that a reduction sums over. Unsupported: they come with the run.
Result<std::vector<int>> AxesOfReduction(const OpCall& call, int rank) {
  std::vector<int64_t> given;
  if (call.has_input(1)) {
    const auto known = KnownInts(call, 1);
    if (!known) return Unsupported("the axes are not known");
    given = *known;
  }
  if (!given.empty()) return NormalizeAxes(given, rank);
  std::vector<int> all(call.Int("noop_with_empty_axes") != 0 ? 0 : static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// The derivative of a reduction, element by element, with `y` at full rank.
Result<std::string> SlopeOfReduction(std::string_view op, GradientText& t, std::string_view y,
                                     int64_t count) {
  if (op == "ReduceSum") return std::string();
  if (op == "ReduceMean") return t.Number(1 / static_cast<double>(count));
  if (op == "ReduceSumSquare") return t.Set("Mul(x0, ", t.Number(2), ")");
  if (op == "ReduceL1") return t.Set("Sign(x0)");          // 0 at 0
  if (op == "ReduceL2") return t.Set("Div(x0, ", y, ")");  // NaN where all are 0
  if (op == "ReduceProd") return t.Set("Div(", y, ", x0)");
  if (op == "ReduceLogSum") return t.Set("Exp(", t.Set("Neg(", y, ")"), ")");
  if (op == "ReduceLogSumExp") return t.Set("Exp(", t.Set("Sub(x0, ", y, ")"), ")");
  // Every element that is the extreme gets the whole gradient.
  return t.Set("Where(", t.Set("Equal(x0, ", y, ")"), ", ", t.Number(1), ", ", t.Number(0), ")");
}

/// A number per channel, as it broadcasts over [batch, channels, spatial..].
Dims PerChannel(const Dims& x) {
  Dims dims(x.size(), 1);
  dims[1] = x[1];
  return dims;
}

/// Operand 0 over `axes`: less its mean where `centred`, divided by its deviation.
struct Normalized {
  std::string value, deviation;
};
Normalized NormalizedOf(GradientText& t, const std::vector<int64_t>& axes, bool centred,
                        double epsilon) {
  std::string d = "x0";
  if (centred) d = t.Set("Sub(x0, ", t.Average("x0", axes), ")");
  const std::string variance = t.Average(t.Set("Mul(", d, ", ", d, ")"), axes);
  const std::string deviation =
      t.Set("Sqrt(", t.Set("Add(", variance, ", ", t.Number(epsilon), ")"), ")");
  return {t.Set("Div(", d, ", ", deviation, ")"), deviation};
}

/// The gradient of operand 0, `g` that of the normalized values: what changes mean and deviation
/// is taken out.
std::string ThroughNormalization(GradientText& t, const Normalized& n, std::string_view g,
                                 const std::vector<int64_t>& axes, bool centred) {
  const std::string along = t.Average(t.Set("Mul(", g, ", ", n.value, ")"), axes);
  std::string rest = t.Set("Sub(", g, ", ", t.Set("Mul(", n.value, ", ", along, ")"), ")");
  if (centred) rest = t.Set("Sub(", rest, ", ", t.Average(g, axes), ")");
  return t.Set("Div(", rest, ", ", n.deviation, ")");
}

}  // namespace

Result<std::string> GradientOfReduction(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const Dims x = t.X(0);
  INFER_ASSIGN(const auto axes, AxesOfReduction(call, static_cast<int>(x.size())));
  Dims kept = x;
  int64_t count = 1;
  for (const int a : axes) {
    count *= x[static_cast<size_t>(a)];
    kept[static_cast<size_t>(a)] = 1;
  }
  std::string g = "g0", y = "y0";
  if (call.Int("keepdims") == 0) {
    g = t.View("g0", kept);
    y = t.View("y0", kept);
  }
  INFER_ASSIGN(const std::string slope, SlopeOfReduction(call.def().name, t, y, count));
  if (!slope.empty()) g = t.Set("Mul(", g, ", ", slope, ")");
  t.Give(0, t.Set("Expand(", g, ", ", t.List(x), ")"));
  return t.Finish();
}

Result<std::string> GradientOfSoftmax(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const std::vector<int64_t> axis = {call.Int("axis")};
  if (call.def().name == "Softmax") {
    const std::string sum = t.Total(t.Set("Mul(g0, y0)"), axis, true);
    t.Give(0, t.Set("Mul(y0, ", t.Set("Sub(g0, ", sum, ")"), ")"));
  } else {
    const std::string sum = t.Total("g0", axis, true);
    const std::string share = t.Set("Mul(", t.Set("Exp(y0)"), ", ", sum, ")");
    t.Give(0, t.Set("Sub(g0, ", share, ")"));
  }
  return t.Finish();
}

Result<std::string> GradientOfRowNorm(const OpCall& call, std::span<const size_t> wanted) {
  if (call.num_outputs() > 1) return Unsupported("the mean or the deviation is a result");
  GradientText t(call, wanted);
  const auto rank = static_cast<int64_t>(t.X(0).size());
  const int64_t first = call.Int("axis") + (call.Int("axis") < 0 ? rank : 0);
  std::vector<int64_t> axes;
  for (int64_t a = first; a < rank; ++a) axes.push_back(a);
  const bool centred = call.def().name == "LayerNormalization";
  const Normalized n = NormalizedOf(t, axes, centred, static_cast<double>(call.Float("epsilon")));
  if (t.Wants(0)) t.Give(0, ThroughNormalization(t, n, t.Set("Mul(g0, x1)"), axes, centred));
  if (t.Wants(1)) t.Give(1, t.Set("Mul(g0, ", n.value, ")"));
  t.Give(2, "g0");
  return t.Finish();
}

/// Mean and variance are constants, as in inference.
Result<std::string> GradientOfBatchNorm(const OpCall& call, std::span<const size_t> wanted) {
  if (call.Int("training_mode") != 0) return Unsupported("training_mode is on");
  GradientText t(call, wanted);
  const Dims x = t.X(0), channel = PerChannel(x);
  const std::string above =
      t.Set("Add(x4, ", t.Number(static_cast<double>(call.Float("epsilon"))), ")");
  const std::string inverse = t.Set("Reciprocal(", t.Set("Sqrt(", above, ")"), ")");
  if (t.Wants(0)) {
    const std::string factor = t.View(t.Set("Mul(x1, ", inverse, ")"), channel);
    t.Give(0, t.Set("Mul(g0, ", factor, ")"));
  }
  if (t.Wants(1)) {
    const std::string d = t.Set("Sub(x0, ", t.View("x3", channel), ")");
    const std::string sum = t.TotalOfChannels(t.Set("Mul(g0, ", d, ")"), x.size());
    t.Give(1, t.Set("Mul(", sum, ", ", inverse, ")"));
  }
  if (t.Wants(2)) t.Give(2, t.TotalOfChannels("g0", x.size()));
  return t.Finish();
}

Result<std::string> GradientOfInstanceNorm(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const Dims x = t.X(0);
  std::vector<int64_t> axes;
  for (size_t a = 2; a < x.size(); ++a) axes.push_back(static_cast<int64_t>(a));
  const Normalized n = NormalizedOf(t, axes, true, static_cast<double>(call.Float("epsilon")));
  if (t.Wants(0)) {
    const std::string g = t.Set("Mul(g0, ", t.View("x1", PerChannel(x)), ")");
    t.Give(0, ThroughNormalization(t, n, g, axes, true));
  }
  if (t.Wants(1)) t.Give(1, t.TotalOfChannels(t.Set("Mul(g0, ", n.value, ")"), x.size()));
  if (t.Wants(2)) t.Give(2, t.TotalOfChannels("g0", x.size()));
  return t.Finish();
}

}  // namespace infer
