#include "runtime/plan_ir/groups/attention_group.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using Kind = ElementStep::Kind;

/// Operators that read the memory of their operand by strides.
bool IsView(const Node& n) { return n.IsAny(Trait::kView | Trait::kStrided); }

/// The one element of a constant f32 tensor.
std::optional<float> ScalarOf(const Value* v) {
  const Tensor* t = v ? v->constant() : nullptr;
  if (!t || t->dtype() != DType::kF32 || t->num_elements() != 1) return std::nullopt;
  return t->data<float>()[0];
}

/// x * factor, where `n` is a product or quotient of `x` and a number.
std::optional<float> FactorOf(const Node& n, const Value* x) {
  if (n.Is(Trait::kProduct)) return ScalarOf(MultipliedBy(x, n));
  if (!n.Is("Div") || n.input(0) != x) return std::nullopt;
  const auto divisor = ScalarOf(n.input(1));
  if (!divisor || *divisor == 0) return std::nullopt;
  return 1 / *divisor;
}

/// Of a Q or DQ of one scale.
std::optional<ElementStep> QuantOf(const Node& n) {
  if (!IsQuantizeOrDequantize(n)) return std::nullopt;
  const bool q = n.Is(Trait::kQuantize);
  const Value *integer = CodesSide(n), *real = NumbersSide(n);
  if (integer->dtype() != DType::kU8 && integer->dtype() != DType::kI8) return std::nullopt;
  const auto scale = ScalarOf(n.input(1));
  const Tensor* zero = n.input(2) ? n.input(2)->constant() : nullptr;
  if (!scale || !(*scale > 0) || real->dtype() != DType::kF32) return std::nullopt;
  if (n.input(2) && (!zero || zero->num_elements() != 1)) return std::nullopt;
  return ElementStep{q ? Kind::kQuantize : Kind::kDequantize, *scale,
                     zero ? static_cast<int32_t>(zero->IntAt(0)) : 0,
                     integer->dtype() == DType::kI8};
}

/// Appends what `n` does to the elements of `x`; false: it does something else. DQ -> Q of one
/// scale is nothing.
bool AppendStep(const Node& n, const Value* x, std::vector<ElementStep>& steps) {
  if (IsView(n)) return n.input(0) == x;
  if (const auto factor = FactorOf(n, x)) {
    steps.push_back({Kind::kFactor, *factor});
    return true;
  }
  auto quant = QuantOf(n);
  if (!quant) return false;
  if (quant->kind == Kind::kQuantize && !steps.empty() && steps.back().kind == Kind::kDequantize) {
    ElementStep same = *quant;
    same.kind = Kind::kDequantize;
    if (same == steps.back()) {
      steps.pop_back();
      return true;
    }
  }
  steps.push_back(*quant);
  return true;
}

/// The two products and what stands between them. Of two products that are added the second gives
/// the scores, the first the mask.
struct Core {
  Pattern scores = Op("MatMul", Any(), Any());
  Pattern scaled = UpTo(6, scores, [](const Pattern& p) {
    return OneOf({Op("Mul", p, Number()), Op("Div", p, Number().Where("other than 0", [](auto& v) {
                    return v.constant()->At(0) != 0;
                  }))});
  });
  Pattern mask = Any().Where("f32", [](const Value& v) { return IsF32(&v); });
  Pattern masked =
      OneOf({Op("Add", mask, scaled).Ordered(), Op("Add", scaled, mask).Ordered(), scaled});
  Pattern condition = Any(), hidden = Number();
  Pattern first = Op("Where", condition, masked, hidden);
  Pattern second = Op("Where", condition, hidden, masked);
  Pattern softmax = Op("Softmax", OneOf({first, second, masked}))
                        .Where("f32 scores of known rank",
                               [](const Value& v) {
                                 const Value* x = v.producer()->input(0);
                                 return IsF32(x) && x->shape().has_rank() && x->shape().rank() >= 2;
                               })
                        .Where("over the keys", [](const Value& v) {
                          const int64_t axis = v.producer()->Attr<int64_t>("axis");
                          return axis == -1 || axis == v.producer()->input(0)->shape().rank() - 1;
                        });
  Pattern quantized = OfOneScale(Op("QuantizeLinear", softmax).MoreInputs());
  Pattern probability =
      OneOf({OfOneScale(Op("DequantizeLinear", quantized).MoreInputs()), softmax});
  Pattern product = Op("MatMul", probability, Any()).Where("of two values", [](const Value& v) {
    return v.producer()->input(0) != v.producer()->input(1);
  });
  Rule rule = MakeRule();

  static Pattern Number() {
    return Scalar().Where("f32", [](const Value& v) { return IsF32(&v); });
  }
  static Pattern OfOneScale(const Pattern& p) {
    return p.Where("of one scale and 8 bits",
                   [](const Value& v) { return QuantOf(*v.producer()).has_value(); });
  }
  Rule MakeRule() const;
};

Rule Core::MakeRule() const {
  const auto graph = [](std::string_view between, std::string_view outputs = "y") {
    return Cat(
        "graph g(q: f32[2,3,4], k: f32[2,4,5], v: f32[2,5,6], m: f32[3,5], c: bool[3,5]) -> "
        "(",
        outputs, ") { n = const f32[] {-2} s = MatMul(q, k) ", between, " }");
  };
  return {
      .name = "attention",
      .doc = "MatMul, factors, mask, choice, Softmax, MatMul => one step",
      .match = softmax,
      .also = {product},
      .fires_on = {graph("p = Softmax(s) y = MatMul(p, v)"),
                   graph("d = Div(s, n) a = Add(m, d) h = Where(c, n, a) p = Softmax(h) "
                         "y = MatMul(p, v)"),
                   graph("u = Mul(n, s) a = Add(u, m) h = Where(c, a, n) p = Softmax(h) "
                         "e = const f32[] {0.01} i = QuantizeLinear(p, e) "
                         "r = DequantizeLinear(i, e) y = MatMul(r, v)")},
      .silent_on = {
          {graph("p = Softmax(s) y = MatMul(p, v)", "y, p"), "'p' has other uses: a graph output"},
          {graph("p = Softmax(s) y = MatMul(p, v) z = Relu(s)", "y, z"),
           "'s' has other uses: Relu 'z'"},
          {graph("p = Softmax(s) {axis=1} y = MatMul(p, v)"), "'p' is not over the keys"},
          {graph("r = Relu(s) p = Softmax(r) y = MatMul(p, v)"), "'r' is a Relu"},
          {graph("h = Where(c, m, s) p = Softmax(h) y = MatMul(p, v)"), "'m' is a graph input"},
          {graph("w = const f32[2,5,3] ~1 p = Softmax(s) y = MatMul(w, p)"), "'w' is a constant"},
          {graph("p = Softmax(s) i = Identity(p) y = MatMul(i, v)"),
           "no further use of 'p' fits"}}};
}

const Core& TheCore() {
  static const Core core;
  return core;
}

/// What reads the nodes of the step; each node is visited once.
class Decoder {
 public:
  /// `core`: the match of a Softmax, where it is known.
  explicit Decoder(const StepCall& call, const Match* core = nullptr)
      : call_(call), core_(core), left_(call.step.nodes.begin(), call.step.nodes.end()) {}

  Result<AttentionGroup> Run() {
    if (call_.main().Is("Softmax"))
      INFER_TRY(Products());
    else
      INFER_TRY(Block());
    if (!left_.empty()) return Unsupported(Cat((*left_.begin())->op(), " beside attention"));
    FactorIntoScale(g_.q_steps);
    // A cache holds keys with their factor, beside older ones that have theirs.
    if (!g_.block || !(g_.block->input(4) || g_.block->output(1))) FactorIntoScale(g_.k_steps);
    return std::move(g_);
  }

 private:
  void FactorIntoScale(std::vector<ElementStep>& steps) {
    if (steps.size() != 1 || steps[0].kind != Kind::kFactor) return;
    g_.scale *= steps[0].scale;
    steps.clear();
  }

  /// The node's results but the first may only be read inside, which the caller ensures.
  Status Take(const Node* n) {
    if (!n || left_.erase(n) == 0) return Unsupported("a node of the pattern is missing");
    return {};
  }
  bool Holds(const Node* n) const { return n && left_.count(n) > 0; }

  Status Products() {
    const Core& p = TheCore();
    std::optional<Match> found;
    if (!core_) found = FindMatch(p.rule, call_.main().output(0));
    const Match* const m = core_ ? core_ : found ? &*found : nullptr;
    if (!m) return WhyNot();
    if (call_.step.nodes.size() < 3) return Unsupported("no products around it");
    for (const Node* n : m->nodes()) {
      INFER_TRY(Take(n));
      for (const Value* x : n->inputs())
        if (const auto factor = x ? FactorOf(*n, x) : std::nullopt) g_.scale *= *factor;
    }
    if (m->Has(p.mask)) g_.added = (*m)[p.mask];
    if (m->Has(p.hidden)) {
      g_.condition = (*m)[p.condition];
      g_.hidden = static_cast<float>(m->scalar(p.hidden));
      g_.invert = m->Has(p.second);
    }
    if (m->Has(p.quantized))
      g_.probability = {*QuantOf(m->node(p.quantized)), *QuantOf(m->node(p.probability))};
    INFER_TRY(Behind((*m)[p.product]));
    if (call_.step.outputs != std::vector<int>{call_.plan.id(g_.result)})
      return Unsupported("a value inside is read elsewhere");
    INFER_ASSIGN(g_.q, Operand(m->node(p.scores).input(0), g_.q_steps));
    INFER_ASSIGN(g_.k, Operand(m->node(p.scores).input(1), g_.k_steps));
    INFER_ASSIGN(g_.v, Operand(m->node(p.product).input(1), g_.v_steps));
    return {};
  }

  /// No match: what is in the way of one, where most is there.
  Status WhyNot() const {
    Mismatch why;
    FindMatch(TheCore().rule, call_.main().output(0), &why);
    return Unsupported(why.is_near() ? why.ToString() : "no products around it");
  }

  /// The operator Attention.
  Status Block() {
    const Node& n = call_.main();
    INFER_TRY(Take(&n));
    g_.block = &n;
    for (size_t i : {0, 1, 2, 4, 5})
      if (n.input(i) && !IsF32(n.input(i)))
        return Unsupported(Cat("'", n.def().inputs[i].name, "' is no f32"));
    if (n.output(3)) return Unsupported("scores are a result");
    if (!n.output(0)) return Unsupported("the result is not wanted");
    INFER_ASSIGN(g_.q, Operand(n.input(0), g_.q_steps));
    INFER_ASSIGN(g_.k, Operand(n.input(1), g_.k_steps));
    INFER_ASSIGN(g_.v, Operand(n.input(2), g_.v_steps));
    if (const Value* mask = n.input(3)) {
      if (!mask->type().is_tensor()) return Unsupported("attn_mask is no tensor");
      const bool is_choice = mask->dtype() == DType::kBool;
      if (!is_choice && !IsF32(mask)) return Unsupported("attn_mask is neither bool nor f32");
      (is_choice ? g_.condition : g_.added) = mask;
      g_.hidden = -std::numeric_limits<float>::infinity();
    }
    INFER_TRY(Behind(n.output(0)));
    for (int id : call_.step.outputs) {
      const Value* v = call_.plan.values[static_cast<size_t>(id)];
      if (v != g_.result && v != n.output(1) && v != n.output(2))
        return Unsupported("a value inside is read elsewhere");
    }
    return {};
  }

  /// What follows the result.
  Status Behind(const Value* v) {
    while (v->has_one_use() && Holds(v->uses()[0].user)) {
      const Node* n = v->uses()[0].user;
      INFER_TRY(Take(n));
      if ((n->Is(Trait::kStrided) && !n->Is(Trait::kPermutation)) || !AppendStep(*n, v, g_.y_steps))
        return Unsupported(Cat(n->op(), " behind attention"));
      g_.on_result.push_back(n);
      v = n->output(0);
    }
    g_.result = v;
    return {};
  }

  Result<AttentionOperand> Operand(const Value* v, std::vector<ElementStep>& steps) {
    AttentionOperand o;
    o.source = v;
    const auto& nodes = call_.step.nodes;
    // A node that two operands share is taken by the first.
    while (const Node* n = o.source->producer()) {
      if (std::find(nodes.begin(), nodes.end(), n) == nodes.end()) break;
      left_.erase(n);
      o.path.emplace_back(n, o.source->producer_index());
      const bool second = n->Is(Trait::kProduct) && ScalarOf(n->input(0));
      o.source = n->input(second ? 1 : 0);
    }
    std::reverse(o.path.begin(), o.path.end());
    const Value* x = o.source;
    for (const auto& [n, result] : o.path) {
      if (!AppendStep(*n, x, steps)) return Unsupported(Cat(n->op(), " on an operand"));
      x = n->output(result);
    }
    if (!o.source->type().is_tensor()) return Unsupported("an operand is no tensor");
    const DType type = o.source->dtype();
    const bool starts = !steps.empty() && steps[0].kind == Kind::kDequantize;
    if (!IsF32(v) ||
        (type == DType::kF32 ? starts : !starts || (type != DType::kU8 && type != DType::kI8)))
      return Unsupported("an operand is not f32");
    return o;
  }

  const StepCall& call_;
  const Match* core_;
  std::unordered_set<const Node*> left_;
  AttentionGroup g_;
};

// ---- Forming groups --------------------------------------------------------------------------

class Grower {
 public:
  Grower(const Plan& plan, const CompileOptions& options, AcceptsStep accepts, const Node& main)
      : plan_(plan), options_(options), accepts_(accepts), main_(main) {}

  /// The largest step around the Softmax or the operator; no nodes: there is none.
  PlanStep Run() {
    nodes_ = {&main_};
    if (main_.Is("Softmax")) {
      core_ = FindMatch(AttentionRule(), main_.output(0));
      if (!core_) return {};
      nodes_.insert(core_->nodes().begin(), core_->nodes().end());
    }
    if (!Accepts(nodes_)) return {};
    while (GrowUp() || GrowDown()) {
    }
    // A dequantized result is left to what reads it: that may take integers.
    const Node* last = group_.on_result.empty() ? nullptr : group_.on_result.back();
    if (last && last->Is(Trait::kDequantize)) {
      auto fewer = nodes_;
      fewer.erase(last);
      if (Accepts(fewer)) nodes_ = fewer;
    }
    return StepOf(nodes_);
  }

 private:
  PlanStep StepOf(const std::unordered_set<const Node*>& nodes) const {
    return MakeStep(plan_, main_, {nodes.begin(), nodes.end()});
  }

  bool Accepts(const std::unordered_set<const Node*>& nodes) {
    const PlanStep step = StepOf(nodes);
    if (!accepts_(step)) return false;
    const StepCall call{plan_, step, options_};
    auto group = Decoder(call, core_ ? &*core_ : nullptr).Run();
    if (group.ok()) group_ = std::move(*group);
    return group.ok();
  }

  bool Try(const Node* n) {
    if (!n || nodes_.count(n)) return false;
    auto more = nodes_;
    more.insert(n);
    if (!Accepts(more)) return false;
    nodes_ = std::move(more);
    return true;
  }

  bool GrowUp() {
    return Try(group_.q.source->producer()) || Try(group_.k.source->producer()) ||
           Try(group_.v.source->producer());
  }
  /// The step stands where its last node does: a cache must not be read before.
  bool GrowDown() {
    if (!group_.result->has_one_use()) return false;
    const Node* next = group_.result->uses()[0].user;
    for (size_t i = 1; i < main_.outputs().size(); ++i)
      if (const Value* v = main_.output(i))
        for (const Use& u : v->uses())
          if (Graph::Before(*u.user, *next)) return false;
    return Try(next);
  }

  const Plan& plan_;
  const CompileOptions& options_;
  const AcceptsStep accepts_;
  const Node& main_;
  std::optional<Match> core_;
  std::unordered_set<const Node*> nodes_;
  AttentionGroup group_;
};

}  // namespace

const Rule& AttentionRule() { return TheCore().rule; }

Result<AttentionGroup> DecodeAttention(const StepCall& call) { return Decoder(call).Run(); }

void GroupAttention(Plan& plan, const CompileOptions& options, AcceptsStep accepts) {
  Grouping grouping(plan);
  for (const auto& node : plan.graph.nodes()) {
    if ((!node->Is("Softmax") && !node->Is("Attention")) || !grouping.IsFree(node.get())) continue;
    PlanStep step = Grower(plan, options, accepts, *node).Run();
    if (!step.nodes.empty() && grouping.AreFree(step.nodes)) grouping.Take(std::move(step));
  }
}

}  // namespace infer
