#include "runtime/cpu/kernels/attention/attention_group.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/quant_group.h"

namespace infer {
namespace {

using Kind = ElementStep::Kind;

/// Operators that read the memory of their operand by strides.
bool IsView(const Node& n) { return n.IsAny(Trait::kView | Trait::kStrided); }

/// The one element of a constant f32 tensor.
std::optional<float> ScalarOf(const StepCall& call, const Value* v) {
  const Tensor* t = v ? call.constant(v) : nullptr;
  if (!t || t->dtype() != DType::kF32 || t->num_elements() != 1) return std::nullopt;
  return t->data<float>()[0];
}

/// x * factor, where `n` is a product or quotient of `x` and a number.
std::optional<float> FactorOf(const StepCall& call, const Node& n, const Value* x) {
  if (n.Is("Mul")) {
    const Value* other = n.input(0) == x ? n.input(1) : n.input(0);
    return other == x ? std::nullopt : ScalarOf(call, other);
  }
  if (!n.Is("Div") || n.input(0) != x) return std::nullopt;
  const auto divisor = ScalarOf(call, n.input(1));
  if (!divisor || *divisor == 0) return std::nullopt;
  return 1 / *divisor;
}

/// Of a Q or DQ of one scale.
std::optional<ElementStep> QuantOf(const StepCall& call, const Node& n) {
  const bool q = n.Is("QuantizeLinear");
  if (!q && !n.Is("DequantizeLinear")) return std::nullopt;
  const Value* integer = q ? n.output(0) : n.input(0);
  const Value* real = q ? n.input(0) : n.output(0);
  if (integer->dtype() != DType::kU8 && integer->dtype() != DType::kI8) return std::nullopt;
  const auto scale = ScalarOf(call, n.input(1));
  const Tensor* zero = n.input(2) ? call.constant(n.input(2)) : nullptr;
  if (!scale || !(*scale > 0) || real->dtype() != DType::kF32) return std::nullopt;
  if (n.input(2) && (!zero || zero->num_elements() != 1)) return std::nullopt;
  return ElementStep{q ? Kind::kQuantize : Kind::kDequantize, *scale,
                     zero ? static_cast<int32_t>(zero->IntAt(0)) : 0,
                     integer->dtype() == DType::kI8};
}

/// Appends what `n` does to the elements of `x`; false: it does something else. DQ -> Q of one
/// scale is nothing.
bool AppendStep(const StepCall& call, const Node& n, const Value* x,
                std::vector<ElementStep>& steps) {
  if (IsView(n)) return n.input(0) == x;
  if (const auto factor = FactorOf(call, n, x)) {
    steps.push_back({Kind::kFactor, *factor});
    return true;
  }
  auto quant = QuantOf(call, n);
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

/// What reads the nodes of the step; each node is visited once.
class Decoder {
 public:
  explicit Decoder(const StepCall& call)
      : call_(call), left_(call.step.nodes.begin(), call.step.nodes.end()) {}

  Result<AttentionGroup> Run() {
    INFER_TRY(Take(&call_.main()));
    if (call_.main().Is("Softmax")) {
      g_.softmax = &call_.main();
      INFER_TRY(Scores());
      INFER_TRY(Product());
      INFER_ASSIGN(g_.q, Operand(g_.scores->input(0), g_.q_steps));
      INFER_ASSIGN(g_.k, Operand(g_.scores->input(1), g_.k_steps));
      INFER_ASSIGN(g_.v, Operand(g_.product->input(1), g_.v_steps));
    } else {
      INFER_TRY(Block());
    }
    if (!left_.empty()) return Unsupported(Cat((*left_.begin())->op(), " beside attention"));
    for (auto* steps : {&g_.q_steps, &g_.k_steps})
      if (steps->size() == 1 && (*steps)[0].kind == Kind::kFactor) {
        g_.scale *= (*steps)[0].scale;
        steps->clear();
      }
    return std::move(g_);
  }

 private:
  /// The node's results but the first may only be read inside, which the caller ensures.
  Status Take(const Node* n) {
    if (!n || left_.erase(n) == 0) return Unsupported("a node of the pattern is missing");
    return {};
  }
  bool Holds(const Node* n) const { return n && left_.count(n) > 0; }

  Status Scores() {
    const Value* v = g_.softmax->input(0);
    if (!IsF32(v) || !v->shape().has_rank()) return Unsupported("the scores are not f32");
    const int rank = v->shape().rank();
    const int64_t axis = g_.softmax->Attr<int64_t>("axis");
    if (axis != -1 && axis != rank - 1) return Unsupported("Softmax is not over the keys");
    if (rank < 2) return Unsupported("scores of rank 1");
    for (const Node* n = v->producer(); Holds(n) && !n->Is("MatMul"); n = v->producer()) {
      INFER_TRY(Take(n));
      INFER_ASSIGN(v, BeforeScoreNode(*n));
      g_.on_scores.push_back(n);
    }
    g_.scores = v->producer();
    if (!g_.scores || !g_.scores->Is("MatMul")) return Unsupported("no product before Softmax");
    return Take(g_.scores);
  }

  /// Backwards: a choice, an addition, factors.
  Result<const Value*> BeforeScoreNode(const Node& n) {
    const bool factors_follow = g_.scale != 1;
    if (n.Is("Where") && !g_.condition && !g_.added && !factors_follow) {
      const auto last = ScalarOf(call_, n.input(2)), first = ScalarOf(call_, n.input(1));
      if (last.has_value() == first.has_value()) return Unsupported("Where of two tensors");
      g_.condition = n.input(0);
      g_.hidden = last ? *last : *first;
      g_.invert = !last;
      return last ? n.input(1) : n.input(2);
    }
    if (n.Is("Add") && !g_.added && !factors_follow) {
      for (size_t i : {0, 1}) {
        const Value* scores = n.input(i);
        const Value* mask = n.input(1 - i);
        if (!Holds(scores->producer()) || scores == mask || Holds(mask->producer())) continue;
        if (!IsF32(mask)) return Unsupported("the mask is not f32");
        g_.added = mask;
        return scores;
      }
      return Unsupported("Add without scores");
    }
    for (const Value* x : n.inputs())
      if (x && Holds(x->producer()))
        if (const auto factor = FactorOf(call_, n, x)) {
          g_.scale *= *factor;
          return x;
        }
    return Unsupported(Cat(n.op(), " on scores"));
  }

  /// Behind Softmax: perhaps Q and DQ, the product, and what follows it.
  Status Product() {
    const Value* v = g_.softmax->output(0);
    while (true) {
      if (!v->has_one_use()) return Unsupported("the probabilities are read elsewhere");
      const Node* n = v->uses()[0].user;
      INFER_TRY(Take(n));
      if (n->Is("MatMul")) {
        if (n->input(0) != v || n->input(1) == v) return Unsupported("V stands first");
        g_.product = n;
        break;
      }
      if (IsView(*n) || !AppendStep(call_, *n, v, g_.probability))
        return Unsupported(Cat(n->op(), " on probabilities"));
      v = n->output(0);
    }
    const auto& p = g_.probability;
    if (!p.empty() && (p.size() != 2 || p[0].kind != Kind::kQuantize))
      return Unsupported("probabilities that are not quantized and dequantized");
    INFER_TRY(Behind(g_.product->output(0)));
    if (call_.step.outputs != std::vector<int>{call_.plan.id(g_.result)})
      return Unsupported("a value inside is read elsewhere");
    return {};
  }

  /// The operator Attention.
  Status Block() {
    const Node& n = call_.main();
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
      if ((n->Is(Trait::kStrided) && !n->Is("Transpose")) || !AppendStep(call_, *n, v, g_.y_steps))
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
      const bool second = n->Is("Mul") && ScalarOf(call_, n->input(0));
      o.source = n->input(second ? 1 : 0);
    }
    std::reverse(o.path.begin(), o.path.end());
    const Value* x = o.source;
    for (const auto& [n, result] : o.path) {
      if (!AppendStep(call_, *n, x, steps)) return Unsupported(Cat(n->op(), " on an operand"));
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
  std::unordered_set<const Node*> left_;
  AttentionGroup g_;
};

// ---- Forming groups --------------------------------------------------------------------------

PlanStep StepOf(const Plan& plan, const Node& main, const std::unordered_set<const Node*>& nodes) {
  PlanStep step;
  step.main = &main;
  step.nodes.assign(nodes.begin(), nodes.end());
  std::sort(step.nodes.begin(), step.nodes.end(),
            [](const Node* a, const Node* b) { return Graph::Before(*a, *b); });
  for (const Node* n : step.nodes) {
    for (const Value* v : n->inputs())
      if (v && !nodes.count(v->producer()) &&
          std::find(step.inputs.begin(), step.inputs.end(), plan.id(v)) == step.inputs.end())
        step.inputs.push_back(plan.id(v));
    for (const Value* v : n->outputs())
      if (v && (v->is_output() || std::any_of(v->uses().begin(), v->uses().end(),
                                              [&](const Use& u) { return !nodes.count(u.user); })))
        step.outputs.push_back(plan.id(v));
  }
  return step;
}

class Grower {
 public:
  Grower(const Plan& plan, const KernelList& kernels, const CompileOptions& options,
         const Node& main)
      : plan_(plan), kernels_(kernels), options_(options), main_(main) {}

  /// The largest step around the Softmax or the operator; no nodes: there is none.
  PlanStep Run() {
    nodes_ = {&main_};
    if ((main_.Is("Softmax") && !Core()) || !Accepts(nodes_)) return {};
    while (GrowUp() || GrowDown()) {
    }
    // A dequantized result is left to what reads it: that may take integers.
    const Node* last = group_.on_result.empty() ? nullptr : group_.on_result.back();
    if (last && last->Is("DequantizeLinear")) {
      auto fewer = nodes_;
      fewer.erase(last);
      if (Accepts(fewer)) nodes_ = fewer;
    }
    return StepOf(plan_, main_, nodes_);
  }

 private:
  /// The two products and what lies between them.
  bool Core() {
    const Value* v = main_.input(0);
    for (int i = 0;; ++i) {
      const Node* n = v->producer();
      if (!n || i > 6) return false;
      nodes_.insert(n);
      if (n->Is("MatMul")) break;
      const Value* next = nullptr;
      for (const Value* x : n->inputs())
        if (x && x->producer() && x->dtype() == DType::kF32 && LeadsToProduct(*x, 6)) next = x;
      if (!next) return false;
      v = next;
    }
    v = main_.output(0);
    for (int i = 0; i < 4; ++i) {
      if (!v->has_one_use()) return false;
      const Node* n = v->uses()[0].user;
      nodes_.insert(n);
      if (n->Is("MatMul")) return true;
      v = n->output(0);
    }
    return false;
  }

  /// Through what may stand on scores, each read once.
  static bool LeadsToProduct(const Value& v, int steps) {
    const Node* n = v.producer();
    if (!n || steps == 0 || !v.has_one_use()) return false;
    if (n->Is("MatMul")) return true;
    if (!n->Is(Trait::kElementwise)) return false;
    return std::any_of(n->inputs().begin(), n->inputs().end(),
                       [&](const Value* x) { return x && LeadsToProduct(*x, steps - 1); });
  }

  bool Accepts(const std::unordered_set<const Node*>& nodes) {
    const PlanStep step = StepOf(plan_, main_, nodes);
    if (!SomeKernelAccepts(plan_, step, kernels_, options_)) return false;
    auto group = DecodeAttention({plan_, step, options_});
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
  const KernelList& kernels_;
  const CompileOptions& options_;
  const Node& main_;
  std::unordered_set<const Node*> nodes_;
  AttentionGroup group_;
};

}  // namespace

Result<AttentionGroup> DecodeAttention(const StepCall& call) {
  if (!call.main().Is("Attention") && call.step.nodes.size() < 3)
    return Unsupported("no products around it");
  return Decoder(call).Run();
}

void GroupAttention(Plan& plan, const KernelList& kernels, const CompileOptions& options) {
  std::unordered_map<const Node*, size_t> step_of;
  for (size_t s = 0; s < plan.steps.size(); ++s)
    if (plan.steps[s].nodes.size() == 1) step_of[plan.steps[s].main] = s;
  for (const auto& node : plan.graph.nodes()) {
    if (!node->Is("Softmax") && !node->Is("Attention")) continue;
    if (!step_of.count(node.get())) continue;
    PlanStep step = Grower(plan, kernels, options, *node).Run();
    const bool free = std::all_of(step.nodes.begin(), step.nodes.end(), [&](const Node* n) {
      const auto found = step_of.find(n);
      return found != step_of.end() && !plan.steps[found->second].nodes.empty();
    });
    if (step.nodes.empty() || !free) continue;
    for (const Node* n : step.nodes) plan.steps[step_of.at(n)].nodes.clear();
    const size_t at = step_of.at(step.nodes.back());
    for (const Node* n : step.nodes) step_of.erase(n);
    plan.steps[at] = std::move(step);
  }
  std::erase_if(plan.steps, [](const PlanStep& step) { return step.nodes.empty(); });
  Relink(plan);
}

}  // namespace infer
