#include "runtime/vulkan/kernels/functions.h"

#include <algorithm>
#include <limits>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer::vulkan {
namespace {

struct UnaryRow {
  std::string_view op, domain;
  int code;
  const char *a = nullptr, *b = nullptr;  // attributes
  float default_a = 0, default_b = 0;     // without them
};
constexpr int kClip = 4, kGelu = 16, kGeluTanh = 17;
constexpr UnaryRow kUnary[] = {
    {"Abs", "", 1},
    {"Neg", "", 2},
    {"Relu", "", 3},
    {"Clip", "", kClip},
    {"LeakyRelu", "", 5, "alpha"},
    {"Sigmoid", "", 6},
    {"Tanh", "", 7},
    {"Exp", "", 8},
    {"Log", "", 9},
    {"Sqrt", "", 10},
    {"Reciprocal", "", 11},
    {"Floor", "", 12},
    {"Ceil", "", 13},
    {"Round", "", 14},
    {"Erf", "", 15},
    {"Gelu", "", kGelu},
    {"Gelu", "com.microsoft", kGelu},
    {"FastGelu", "com.microsoft", kGeluTanh},
    {"QuickGelu", "com.microsoft", 18, "alpha"},
    {"Swish", "", 18, "alpha"},
    {"Silu", "infer", 18, nullptr, nullptr, 1},
    {"HardSwish", "", 19, nullptr, nullptr, 1.0f / 6, 0.5f},
    {"HardSigmoid", "", 20, "alpha", "beta"},
    {"Elu", "", 21, "alpha"},
    {"Softplus", "", 22},
    {"Mish", "", 23},
    {"Sign", "", 24},
    {"Softsign", "", 25},
    {"ThresholdedRelu", "", 26, "alpha"},
    {"Selu", "", 27, "alpha", "gamma"},
    {"Celu", "", 28, "alpha"},
    {"Sin", "", 29},
    {"Cos", "", 30},
};

struct ArithmeticRow {
  std::string_view op;
  int code;
};
constexpr ArithmeticRow kArithmetic[] = {{"Add", 1}, {"Sub", 2}, {"Mul", 3}, {"Div", 4},
                                         {"Max", 5}, {"Min", 6}, {"Pow", 7}, {"PRelu", 8}};

bool IsVectorOfLastAxis(const Value& v, const Value& y) {
  if (!v.shape().has_rank() || !y.shape().has_rank() || y.shape().rank() < 1) return false;
  return v.shape().rank() == 1 && v.shape()[0].KnownEqual(y.shape()[-1]) &&
         !(v.shape()[0] == Dim(1));
}

bool HaveSameExtents(const Value& a, const Value& b) {
  return a.shape().has_rank() && b.shape().has_rank() && a.shape().rank() == b.shape().rank() &&
         std::equal(a.shape().dims().begin(), a.shape().dims().end(), b.shape().dims().begin(),
                    [](const Dim& x, const Dim& y) { return x.KnownEqual(y); });
}

}  // namespace

Result<UnaryCode> UnaryCodeOf(const StepCall& call, const Node& n) {
  const auto row = std::find_if(std::begin(kUnary), std::end(kUnary),
                                [&](const UnaryRow& u) { return n.Is(u.op, u.domain); });
  if (row == std::end(kUnary)) return Unsupported(Cat(n.op(), " is no function of one operand"));
  for (size_t i = 1; i < n.inputs().size(); ++i) {
    const Value* v = n.input(i);
    if (!v) continue;
    const Tensor* c = call.constant(v);
    if (row->code != kClip || !c || c->num_elements() != 1)
      return Unsupported("a bound or bias is not a constant number");
  }
  UnaryCode f{row->code, row->a ? n.Attr<float>(row->a) : row->default_a,
              row->b ? n.Attr<float>(row->b) : row->default_b};
  if (f.code == kGelu && row->domain.empty() && n.Attr<std::string>("approximate") == "tanh")
    f.code = kGeluTanh;
  if (f.code == kClip) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    f.a = n.input(1) ? static_cast<float>(call.constant(n.input(1))->At(0)) : -kInfinity;
    f.b = n.input(2) ? static_cast<float>(call.constant(n.input(2))->At(0)) : kInfinity;
    if (!(f.a <= f.b)) return Unsupported("its bounds contradict each other");
  }
  return f;
}

std::vector<std::pair<std::string_view, std::string_view>> UnaryOperators() {
  std::vector<std::pair<std::string_view, std::string_view>> list;
  for (const UnaryRow& u : kUnary) list.emplace_back(u.op, u.domain);
  return list;
}

int ArithmeticCodeOf(const Node& node) {
  if (node.inputs().size() != 2) return 0;
  for (const ArithmeticRow& row : kArithmetic)
    if (node.Is(row.op)) return row.code;
  return 0;
}

std::vector<std::string_view> ArithmeticOperators() {
  std::vector<std::string_view> ops;
  for (const ArithmeticRow& row : kArithmetic) ops.push_back(row.op);
  return ops;
}

std::vector<int32_t> Tail::Constants() const {
  std::vector<int32_t> codes(kMost, 0);
  for (size_t i = 0; i < ops.size(); ++i) codes[i] = ops[i].code;
  return codes;
}

void Tail::Add(Push& push) const {
  for (size_t i = 0; i < kMost; ++i)
    push.F(i < ops.size() ? ops[i].a : 0).F(i < ops.size() ? ops[i].b : 0);
}

Result<Tail> TailOf(const StepCall& call, bool may_bias) {
  Tail tail;
  const auto& nodes = call.step.nodes;
  if (nodes.front() != call.step.main) return Unsupported("another node precedes");
  const Value* before = call.step.main->output(0);
  for (size_t i = 1; i < nodes.size(); ++i) {
    const Node& n = *nodes[i];
    if (tail.ops.size() == Tail::kMost) return Unsupported("more follows than a shader takes");
    if (n.Is(Trait::kSum)) {
      const Value* other = AddedTo(before, n);
      if (!IsF32(other)) return Unsupported("Add of another kind");
      if (may_bias && tail.ops.empty() && tail.bias < 0 && call.constant(other) &&
          IsVectorOfLastAxis(*other, *before)) {
        tail.bias = call.operand(other);
      } else if (tail.residual < 0 && HaveSameExtents(*other, *before)) {
        tail.residual = call.operand(other);
        tail.ops.push_back({Tail::kResidual});
      } else {
        return Unsupported("Add that is neither a bias nor a residual");
      }
    } else {
      if (n.input(0) != before) return Unsupported(Cat(n.op(), " reads something else"));
      INFER_ASSIGN(const UnaryCode f, UnaryCodeOf(call, n));
      tail.ops.push_back(f);
    }
    before = n.output(0);
  }
  return tail;
}

}  // namespace infer::vulkan
