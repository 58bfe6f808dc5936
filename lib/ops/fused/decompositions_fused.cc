/// FusedConv, FusedGemm and FusedMatMul of com.microsoft in terms of the operators that they fuse.
#include <algorithm>
#include <array>

#include "lib/ops/decomposition_text.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/elementwise/activation_reference.h"
#include "lib/ops/matmul/matmul.h"

namespace infer {
namespace {

/// Activations that are operators of ai.onnx by the same name, their parameters the attributes
/// alpha and beta.
constexpr std::array<std::string_view, 9> kAsOperators = {
    "Relu", "Tanh",       "Sigmoid", "Softsign", "Softplus", "LeakyRelu", "ThresholdedRelu",
    "Elu",  "HardSigmoid"};

/// y = the activation of `from`; y is `from` where there is none.
Result<std::string> Activate(const OpCall& call, std::string from,
                             const std::vector<float>& parameters, BodyText& body) {
  if (!call.HasAttr("activation")) return from;
  const std::string& name = call.Str("activation");
  const ActivationDef* def = FindActivation(name);
  if (!def) return Unsupported(Cat("activation '", name, "' is not known"));
  const double given[] = {!parameters.empty() ? static_cast<double>(parameters[0]) : def->alpha,
                          parameters.size() > 1 ? static_cast<double>(parameters[1]) : def->beta};
  if (name == "Clip") {
    INFER_ASSIGN(const DType t, KnownType(call, 0));
    body.Scalar("low", t, given[0]);
    body.Scalar("high", t, given[1]);
    body.Line(Cat("y = Clip(", from, ", low, high)"));
    return std::string("y");
  }
  if (std::find(kAsOperators.begin(), kAsOperators.end(), name) == kAsOperators.end())
    return Unsupported(Cat("activation '", name, "' is no operator"));
  std::string attrs;
  if (def->parameters > 0) attrs = Cat(" {alpha=", FormatDouble(given[0]));
  if (def->parameters > 1) attrs += Cat(", beta=", FormatDouble(given[1]));
  body.Line(Cat("y = ", name, "(", from, ")", attrs, attrs.empty() ? "" : "}"));
  return std::string("y");
}

/// The first three operands, as far as they are there.
std::string PlainOperands(const OpCall& call) {
  return call.has_input(2) ? "x0, x1, x2" : "x0, x1";
}

bool EqualForCertain(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (!a[i].KnownEqual(b[i])) return false;
  return true;
}

}  // namespace

Result<std::string> DecomposeFusedConv(const OpCall& call) {
  BodyText body(call);
  body.Line(Cat("p = Conv(", PlainOperands(call), ")", AttributesText(call, "activation")));
  const bool adds = call.has_input(3);
  if (adds) {
    // Add would broadcast what the operator refuses.
    if (!EqualForCertain(call.shape(3), call.out(0).shape))
      return Unsupported("Z may have other extents than the result");
    body.Line("s = Add(p, x3)");
  }
  std::vector<float> parameters;
  if (call.HasAttr("activation_params"))
    parameters = call.Attr<std::vector<float>>("activation_params");
  INFER_ASSIGN(const std::string last, Activate(call, adds ? "s" : "p", parameters, body));
  return body.Graph(last);
}

Result<std::string> DecomposeFusedGemm(const OpCall& call) {
  BodyText body(call);
  body.Line(Cat("p = Gemm(", PlainOperands(call), ")", AttributesText(call, "activation")));
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (!call.HasAttr(name)) break;
    parameters.push_back(call.Float(name));
  }
  if (parameters.empty() && call.HasAttr("activation_beta"))
    return Unsupported("the second parameter is given without the first");
  INFER_ASSIGN(const std::string last, Activate(call, "p", parameters, body));
  return body.Graph(last);
}

Result<std::string> DecomposeFusedMatMul(const OpCall& call) {
  INFER_ASSIGN(const DType t, KnownType(call, 0));
  BodyText body(call);
  std::string operands[2];
  for (size_t i = 0; i < 2; ++i) {
    INFER_ASSIGN(const int rank, KnownRank(call, i));
    const auto axes = FusedMatMulAxes(call, rank, i);
    operands[i] = Cat("x", i);
    if (std::is_sorted(axes.begin(), axes.end())) continue;
    operands[i] = Cat("t", i);
    body.Line(Cat(operands[i], " = Transpose(x", i, ") {perm=[", Join(axes, ", "), "]}"));
  }
  const float alpha = call.Float("alpha");
  body.Line(Cat(alpha == 1 ? "y" : "p", " = MatMul(", operands[0], ", ", operands[1], ")"));
  if (alpha != 1) {
    body.Scalar("alpha", t, static_cast<double>(alpha));
    body.Line("y = Mul(p, alpha)");
  }
  return body.Graph("y");
}

}  // namespace infer
