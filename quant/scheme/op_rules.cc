#include "quant/scheme/op_rules.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// |u8 * s8| and |u8 * u8| products that int32 sums without overflow.
constexpr int64_t kMaxTermsWeights = (int64_t{1} << 31) / (int64_t{255} * 128);
constexpr int64_t kMaxTermsActivations = (int64_t{1} << 31) / (int64_t{255} * 255);

std::string CheckTerms(int64_t terms, int64_t most) {
  if (terms <= most) return "";
  return Cat("sums ", terms, " products, which may overflow int32");
}

std::string CheckBias(const Node& n) {
  return n.input(2) && !n.input(2)->is_constant() ? "its bias is computed" : "";
}

std::string RefuseConv(const Node& n) {
  const Value* w = n.input(1);
  if (!w->is_constant()) return "its weights are computed";
  if (w->constant()->rank() < 3) return "its weights have no spatial axis";
  if (std::string why = CheckBias(n); !why.empty()) return why;
  const Tensor& t = *w->constant();
  // Conv: [M, C/group, k...]; ConvTranspose: [C, M/group, k...] sums over C/group.
  const int64_t channels = n.op() == "Conv" ? t.dim(1) : t.dim(0);
  int64_t taps = 1;
  for (int i = 2; i < t.rank(); ++i) taps *= t.dim(i);
  return CheckTerms(channels * taps, kMaxTermsWeights);
}

/// [N], [1, N], [1] or [] added to [M, N].
bool IsRowBias(const Tensor& c, int64_t n) {
  return c.num_elements() == 1 || (c.num_elements() == n && c.dim(-1) == n);
}

std::string RefuseGemm(const Node& n) {
  if (!n.input(1)->is_constant()) return "its weights are computed";
  if (n.input(1)->constant()->rank() != 2) return "its weights are no matrix";
  if (n.Attr<int64_t>("transA") != 0) return "its activations are transposed (transA)";
  if (std::string why = CheckBias(n); !why.empty()) return why;
  const bool trans_b = n.Attr<int64_t>("transB") != 0;
  const Tensor& b = *n.input(1)->constant();
  if (n.input(2) && !IsRowBias(*n.input(2)->constant(), b.dim(trans_b ? 0 : 1)))
    return "its bias differs by row";
  return CheckTerms(b.dim(trans_b ? 1 : 0), kMaxTermsWeights);
}

std::string RefuseMatMul(const Node& n) {
  for (size_t i = 0; i < 2; ++i)
    if (n.input(i)->shape().has_rank() && n.input(i)->shape().rank() < 2)
      return "an operand is a vector";
  const bool weights = n.input(1)->is_constant();
  const Shape& b = n.input(1)->shape();
  if (!b.has_rank()) return "the rank of its operands is unknown";
  if (!b[-2].is_static()) return "";
  return CheckTerms(b[-2].value(), weights ? kMaxTermsWeights : kMaxTermsActivations);
}

std::string RefuseMaxPool(const Node& n) { return n.output(1) ? "its indices are read" : ""; }

std::string RefuseResize(const Node& n) {
  return n.Attr<std::string>("mode") == "nearest" ? "" : "it interpolates";
}

std::string RefusePad(const Node& n) {
  if (n.Attr<std::string>("mode") != "constant" || !n.input(2)) return "";
  const Tensor* value = n.input(2)->constant();
  return value && value->num_elements() == 1 && value->At(0) == 0 ? ""
                                                                  : "it pads with another value";
}

const QuantOp kOps[] = {
    {"Conv", QuantRole::kWeighted, false, RefuseConv},
    {"ConvTranspose", QuantRole::kWeighted, false, RefuseConv},
    {"Gemm", QuantRole::kWeighted, true, RefuseGemm},
    {"MatMul", QuantRole::kWeighted, true, RefuseMatMul},
    {"Add", QuantRole::kElementwise},
    {"Mul", QuantRole::kElementwise},
    {"AveragePool", QuantRole::kPool},
    {"GlobalAveragePool", QuantRole::kPool},
    {"Concat", QuantRole::kConcat},
    {"DepthToSpace", QuantRole::kMovement},
    {"Expand", QuantRole::kMovement},
    {"Flatten", QuantRole::kMovement},
    {"Gather", QuantRole::kMovement},
    {"MaxPool", QuantRole::kMovement, false, RefuseMaxPool},
    {"Pad", QuantRole::kMovement, false, RefusePad},
    {"Reshape", QuantRole::kMovement},
    {"Resize", QuantRole::kMovement, false, RefuseResize},
    {"Slice", QuantRole::kMovement},
    {"SpaceToDepth", QuantRole::kMovement},
    {"Split", QuantRole::kMovement},
    {"Squeeze", QuantRole::kMovement},
    {"Tile", QuantRole::kMovement},
    {"Transpose", QuantRole::kMovement},
    {"Unsqueeze", QuantRole::kMovement},
};

}  // namespace

bool IsLayer(const Node& node) {
  const auto& outputs = node.outputs();
  return std::any_of(outputs.begin(), outputs.end(), [](const Value* v) {
    return v && (!v->type().is_tensor() || IsFloat(v->dtype()));
  });
}

const QuantOp* FindQuantOp(const Node& node) {
  if (!node.def().domain.empty()) return nullptr;
  const auto* it = std::find_if(std::begin(kOps), std::end(kOps),
                                [&](const QuantOp& q) { return node.Is(q.op); });
  return it == std::end(kOps) ? nullptr : it;
}

bool IsQuantizedOperand(const QuantOp& op, const Node& node, size_t operand) {
  if (!IsF32(node.input(operand))) return false;
  switch (op.role) {
    case QuantRole::kWeighted:
      if (operand == WeightOperand(op, node)) return false;
      return TakesBias(node) ? operand == 0 : operand < 2;
    case QuantRole::kElementwise:
    case QuantRole::kConcat: return true;
    case QuantRole::kPool:
    case QuantRole::kMovement: return operand == 0;
  }
  return false;
}

std::optional<size_t> WeightOperand(const QuantOp& op, const Node& node) {
  if (op.role != QuantRole::kWeighted) return std::nullopt;
  if (node.input(1) && node.input(1)->is_constant()) return 1;
  return std::nullopt;
}

int WeightAxis(const Node& node, size_t weight_operand) {
  const int rank = node.input(weight_operand)->constant()->rank();
  const WeightLayout layout = *WeightLayoutOf(node);
  // An index of ConvTranspose's axis 1 holds `groups` channels of the result.
  if (layout.outputs_in_groups && layout.groups != 1) return -1;
  if (!layout.is_window && rank != 2) return -1;  // a batch of matrices has no one axis
  return layout.out_axis < 0 ? layout.out_axis + rank : layout.out_axis;
}

std::optional<size_t> BiasOperand(const Node& node) {
  if (WeightLayoutOf(node)->has_bias && node.input(2)) return 2;
  return std::nullopt;
}

}  // namespace infer
