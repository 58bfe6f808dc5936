#include "runtime/plan_ir/groups/quant_group.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// `at`: where the scale stands among the operands of `n`; its zero point follows.
Result<QuantParams8> ParamsOf(const StepCall& call, const Node& n, DType dtype, size_t at = 1) {
  QuantParams8 p;
  p.dtype = dtype;
  if (dtype != DType::kU8 && dtype != DType::kI8 && dtype != DType::kI32)
    return Unsupported(Cat("quantized to ", Name(dtype)));
  const Tensor* scale = call.constant(n.input(at));
  const Tensor* zero = call.constant(n.input(at + 1));
  if (!scale || (n.input(at + 1) && !zero))
    return Unsupported("scale or zero point is not constant");
  if (scale->dtype() != DType::kF32) return Unsupported("the scale is not f32");
  if (const auto it = n.attrs().find("block_size");
      it != n.attrs().end() && std::get<int64_t>(it->second) != 0)
    return Unsupported("blocked quantization");
  p.scales = scale->ToFloats();
  p.zero_points.assign(p.scales.size(), 0);
  if (zero) {
    if (zero->num_elements() != scale->num_elements()) return Unsupported("zero points do not fit");
    for (size_t i = 0; i < p.zero_points.size(); ++i)
      p.zero_points[i] = static_cast<int32_t>(zero->IntAt(static_cast<int64_t>(i)));
  }
  if (p.scales.empty()) return Unsupported("no scale");
  for (float s : p.scales)
    if (!(s > 0)) return Unsupported("a scale is not positive");
  if (p.scales.size() > 1) p.axis = n.Attr<int64_t>("axis");
  return p;
}

/// `v` where it comes out of a DQ of the step.
Result<std::optional<QuantInput>> InputOf(const StepCall& call, const Value* v) {
  const auto& nodes = call.step.nodes;
  const Node* dq = DequantizeBefore(v);
  if (!dq || std::find(nodes.begin(), nodes.end(), dq) == nodes.end())
    return std::optional<QuantInput>();
  QuantInput in;
  in.value = dq->input(0);
  INFER_ASSIGN(in.params, ParamsOf(call, *dq, in.value->dtype()));
  in.operand = call.operand(in.value);
  in.constant = call.constant(in.value);
  return std::optional(std::move(in));
}

bool IsLinearAdd(const Node& n) { return n.Is("QLinearAdd", "com.microsoft"); }

Result<QuantParams8> OutputOf(const StepCall& call, const Node& q) {
  INFER_ASSIGN(QuantParams8 p, ParamsOf(call, q, q.output(0)->dtype(), IsLinearAdd(q) ? 6 : 1));
  if (!p.per_tensor() || p.dtype == DType::kI32)
    return Unsupported("the result is not quantized to 8 bits per tensor");
  return p;
}

// ---- What may follow the main node -----------------------------------------------------------

/// Longer runs of activations are not looked at.
constexpr size_t kMostActivations = 4;

/// Operands of the main node that come out of a DQ are found by hand: any of them may.
struct Quantized {
  Pattern main = Op("*", {}).MoreInputs().Where("an operator on numbers", [](const Value& v) {
    return !IsQuantizeOrDequantize(*v.producer());
  });
  Pattern made = UpTo(kMostActivations, main, [](const Pattern& p) {
    return Op("*", p).MoreInputs().Where("an activation", [](const Value& v) {
      return v.producer()->Is(Trait::kUnary) &&
             !v.producer()->IsAny(Trait::kConversion | Trait::kQuantization);
    });
  });
  Pattern q = Op("QuantizeLinear", made).MoreInputs();
  Pattern back = Op("DequantizeLinear", q).MoreInputs();
  Pattern other = Op("DequantizeLinear", Any()).MoreInputs().Shared();
  Pattern sum = Op("Add", back, other), relu = Op("Relu", sum);
  Pattern sum_q = Op("QuantizeLinear", OneOf({relu, sum})).MoreInputs();
  Pattern linear = OneOf({Op("com.microsoft::QLinearAdd", q).MoreInputs(),
                          Op("com.microsoft::QLinearAdd", {Any(), Any(), Any(), q}).MoreInputs()});
  std::vector<Rule> rules;

  Quantized() {
    const Rule::Guard quantized = {
        "an operand that comes out of DequantizeLinear",
        [main = main](const Match& m) { return ReadsDequantized(m.node(main)); }};
    const Rule::Guard two = {"two tensors to add", [this](const Match& m) {
                               if (m.Has(sum)) return m[back] != m[other];
                               const Node& add = *m[linear]->producer();
                               return add.input(0) != add.input(3);
                             }};
    rules.push_back(SumRule({quantized, two}));
    rules.push_back(ResultRule({quantized}));
  }
  Quantized(const Quantized&) = delete;
  Quantized& operator=(const Quantized&) = delete;

  Rule SumRule(std::vector<Rule::Guard> when) const;
  Rule ResultRule(std::vector<Rule::Guard> when) const;
  std::vector<const Node*> Activations(const Match& m) const {
    std::vector<const Node*> nodes;
    for (const Value* v = m[made]; v != m[main]; v = v->producer()->input(0))
      nodes.insert(nodes.begin(), v->producer());
    return nodes;
  }
  /// What stands behind the main node.
  std::vector<const Node*> Behind(const Match& m) const {
    std::vector<const Node*> nodes;
    for (const Node* n : m.nodes())
      if (n != &m.node(main) && !(m.Has(other) && n == &m.node(other))) nodes.push_back(n);
    return nodes;
  }
};

Rule Quantized::SumRule(std::vector<Rule::Guard> when) const {
  const auto graph = [](std::string_view end) {
    return Cat(
        "graph g(a: u8[2,2], b: u8[2,2]) -> (y) { s = const f32[] {0.1} w = const f32[2,2] "
        "~1 x = DequantizeLinear(a, s) o = DequantizeLinear(b, s) p = MatMul(x, w) ",
        end, " }");
  };
  return {.name = "quantized-sum",
          .doc = "DQ, operator, activations, Q, DQ, Add, Q; or with QLinearAdd => one step",
          .match = main,
          .also = {OneOf({sum_q, linear})},
          .when = std::move(when),
          .fires_on = {graph("c = QuantizeLinear(p, s) d = DequantizeLinear(c, s) t = Add(d, o) "
                             "r = Relu(t) y = QuantizeLinear(r, s)"),
                       graph("r = Relu(p) c = QuantizeLinear(r, s) d = DequantizeLinear(c, s) "
                             "t = Add(o, d) y = QuantizeLinear(t, s)"),
                       graph("z = const u8[] {0} c = QuantizeLinear(p, s, z) "
                             "y = com.microsoft::QLinearAdd(b, s, z, c, s, z, s, z)")},
          .silent_on = {
              {graph("c = QuantizeLinear(p, s) d = DequantizeLinear(c, s) t = Add(d, o) "
                     "y = Relu(t)"),
               "no further use of 'p' fits"},
              {graph("c = QuantizeLinear(p, s) d = DequantizeLinear(c, s) t = Add(d, w) "
                     "y = QuantizeLinear(t, s)"),
               "matched 5 of 5 nodes"},
              {graph("c = QuantizeLinear(p, s) d = DequantizeLinear(c, s) t = Add(d, d) "
                     "y = QuantizeLinear(t, s)"),
               "two tensors to add"},
              {"graph g(x: f32[2,2], b: u8[2,2]) -> (y) { s = const f32[] {0.1} p = MatMul(x, x) "
               "o = DequantizeLinear(b, s) c = QuantizeLinear(p, s) d = DequantizeLinear(c, s) "
               "t = Add(d, o) y = QuantizeLinear(t, s) }",
               "an operand that comes out of DequantizeLinear"}}};
}

Rule Quantized::ResultRule(std::vector<Rule::Guard> when) const {
  const auto graph = [](std::string_view end, std::string_view outputs = "y") {
    return Cat("graph g(a: u8[2,2]) -> (", outputs,
               ") { s = const f32[] {0.1} w = const f32[2,2] ~1 x = DequantizeLinear(a, s) "
               "p = MatMul(x, w) ",
               end, " }");
  };
  return {.name = "quantized",
          .doc = "DQ, operator, activations, Q => one step",
          .match = main,
          .also = {q},
          .when = std::move(when),
          .fires_on = {graph("y = QuantizeLinear(p, s)"),
                       graph("r = Abs(p) t = Exp(r) y = QuantizeLinear(t, s)")},
          .silent_on = {
              {graph("y = QuantizeLinear(p, s)", "y, p"), "'p' has other uses"},
              {graph("r = ReduceSum(p) y = QuantizeLinear(r, s)"), "'r' is not an activation"},
              {"graph g(x: f32[2,2]) -> (y) { s = const f32[] {0.1} p = MatMul(x, x) "
               "y = QuantizeLinear(p, s) }",
               "an operand that comes out of DequantizeLinear"}}};
}

const Quantized& TheQuantized() {
  static const Quantized quantized;
  return quantized;
}

// ---- Reading a group -------------------------------------------------------------------------

/// The addition behind the first Q, whose parameters are `between`.
Result<QuantResidual> ResidualOf(const StepCall& call, const Match& m,
                                 const QuantParams8& between) {
  const Quantized& p = TheQuantized();
  const Status differ = Unsupported("quantized and dequantized by different scales");
  if (m.Has(p.sum)) {
    const Node& dq = m.node(p.back);
    INFER_ASSIGN(const QuantParams8 same, ParamsOf(call, dq, dq.input(0)->dtype()));
    if (!(same == between)) return differ;
    INFER_ASSIGN(auto in, InputOf(call, m[p.other]));
    if (!in) return Unsupported("what is added is not quantized");
    return QuantResidual{between, std::move(*in), m.Has(p.relu)};
  }
  const Node& add = *m[p.linear]->producer();
  const size_t mine = add.input(0) == m[p.q] ? 0 : 3, at = 3 - mine;
  INFER_ASSIGN(const QuantParams8 same, ParamsOf(call, add, m[p.q]->dtype(), mine + 1));
  if (!(same == between)) return differ;
  QuantInput other;
  other.value = add.input(at);
  INFER_ASSIGN(other.params, ParamsOf(call, add, other.value->dtype(), at + 1));
  other.operand = call.operand(other.value);
  other.constant = call.constant(other.value);
  return QuantResidual{between, std::move(other), false, true};
}

}  // namespace

bool ReadsDequantized(const Node& n) {
  return std::any_of(n.inputs().begin(), n.inputs().end(), DequantizeBefore);
}

std::span<const Rule> QuantRules() { return TheQuantized().rules; }

Result<QuantGroup> DecodeQuantGroup(const StepCall& call) {
  if (call.step.borrowed == 0) return Unsupported("its operands are not quantized");
  QuantGroup g;
  const Node& main = call.main();
  for (const Value* v : main.inputs()) {
    INFER_ASSIGN(auto in, InputOf(call, v));
    g.inputs.push_back(std::move(in));
  }
  const auto& nodes = call.step.nodes;
  const Node& last = *nodes.back();
  if (!last.Is(Trait::kQuantize) && !IsLinearAdd(last)) {
    g.activations.assign(nodes.begin() + static_cast<std::ptrdiff_t>(call.step.borrowed) + 1,
                         nodes.end());
    return g;
  }
  const Quantized& p = TheQuantized();
  for (const Rule& rule : p.rules) {
    Value* const ends[] = {main.output(0), last.output(0)};
    const auto m = FindMatch(rule, ends);
    if (!m) continue;
    g.activations = p.Activations(*m);
    INFER_ASSIGN(g.output, OutputOf(call, m->node(p.q)));
    if (&m->node(p.q) == &last) return g;
    INFER_ASSIGN(g.residual, ResidualOf(call, *m, *g.output));
    INFER_ASSIGN(g.output, OutputOf(call, last));
    return g;
  }
  return Unsupported("nodes after the quantization");
}

void GroupQuantized(Plan& plan, FunctionRef<bool(const Node&)> may_be_main,
                    FunctionRef<bool(const Node&)> may_follow, AcceptsStep accepts) {
  const Quantized& p = TheQuantized();
  Grouping grouping(plan);
  const auto form = [&](const Node& main, const std::vector<const Node*>& behind,
                        const Value* added) {
    std::vector<const Node*> nodes;
    const auto borrow = [&](const Value* v) {
      const Node* dq = DequantizeBefore(v);
      if (dq && std::find(nodes.begin(), nodes.end(), dq) == nodes.end() &&
          std::find(behind.begin(), behind.end(), dq) == behind.end())
        nodes.push_back(dq);
    };
    for (const Value* v : main.inputs()) borrow(v);
    borrow(added);
    const size_t borrowed = nodes.size();
    nodes.push_back(&main);
    nodes.insert(nodes.end(), behind.begin(), behind.end());
    PlanStep step = MakeStep(plan, main, std::move(nodes), borrowed);
    if (borrowed == 0 || !accepts(step)) return false;
    grouping.Take(std::move(step));
    return true;
  };
  // Of two convolutions that are added the first takes the addition.
  const auto form_quantized = [&](const Node& main) {
    return std::any_of(p.rules.begin(), p.rules.end(), [&](const Rule& rule) {
      const auto m = FindMatch(rule, main.output(0));
      if (!m) return false;
      const auto behind = p.Behind(*m), activations = p.Activations(*m);
      return grouping.AreFree(behind) &&
             std::all_of(activations.begin(), activations.end(),
                         [&](const Node* n) { return may_follow(*n); }) &&
             form(main, behind, m->Has(p.other) ? (*m)[p.other] : nullptr);
    });
  };
  for (const auto& node : plan.graph.nodes()) {
    if (!grouping.IsFree(node.get()) || !ReadsDequantized(*node) || !may_be_main(*node) ||
        form_quantized(*node))
      continue;
    std::vector<const Node*> behind;
    const Node* next = OnlyReader(*node);
    while (next && behind.size() < kMostActivations && grouping.IsFree(next) && may_follow(*next)) {
      behind.push_back(next);
      next = OnlyReader(*next);
    }
    while (!form(*node, behind, nullptr) && !behind.empty()) behind.pop_back();
  }
}

std::string PrecisionOf(const StepCall& call) {
  auto group = DecodeQuantGroup(call);
  if (!group.ok()) return "f32";
  std::string text;
  for (size_t i = 0; i < group->inputs.size() && i < 2; ++i)
    if (group->inputs[i]) text += group->inputs[i]->params.dtype == DType::kU8 ? "u8" : "s8";
  const bool product = group->inputs.size() >= 2 && group->inputs[0] && group->inputs[1] &&
                       call.main().Is(Trait::kContraction);
  return product ? text + "s32" : text;
}

}  // namespace infer
