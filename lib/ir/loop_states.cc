#include "lib/ir/loop_states.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "lib/ir/roles.h"

namespace infer {
namespace {

/// Where the states of a Loop or Scan stand: state i is operand `operand` + i of the node and input
/// `operand` + i of the body, whose result `result` + i becomes output i of the node.
struct States {
  size_t operand = 0, result = 0, count = 0;
};

States StatesOf(const Node& n) {
  const size_t operands = n.inputs().size() - n.num_captures();
  // A Loop's number and condition come before them, its condition is the first result.
  if (n.Is("Loop")) return {2, 1, operands - std::min<size_t>(operands, 2)};
  if (!n.Is("Scan")) return {};
  const auto scanned = static_cast<size_t>(n.Attr<int64_t>("num_scan_inputs"));
  return {0, 0, operands - std::min(operands, scanned)};
}

const Value* BehindIdentities(const Value* v) {
  while (v->producer() && IsIdentity(*v->producer())) v = v->producer()->input(0);
  return v;
}

/// A loop, and which of the values that it carries are passed on.
class LoopStates {
 public:
  LoopStates(Graph& g, Node& node)
      : editor_(g), node_(node), body_(*node.subgraph("body")), states_(StatesOf(node)) {
    editor_.InsertBefore(node);
    for (size_t i = 0; i < states_.count; ++i) unchanged_.push_back(IsUnchanged(i));
  }

  /// How many values are carried no more.
  Result<int> Run() {
    const auto count = std::count(unchanged_.begin(), unchanged_.end(), true);
    bool others = false;
    for (size_t i = 0; i < node_.outputs().size(); ++i) others |= !IsUnchangedResult(i);
    if (count == 0 || !others) return 0;
    auto body = std::make_unique<Graph>(body_.ops(), body_.name());
    if (!MakeBody(*body).ok()) return 0;
    INFER_ASSIGN(const bool replaced, Replace(std::move(body)));
    return replaced ? static_cast<int>(count) : 0;
  }

 private:
  bool IsUnchanged(size_t state) const {
    const Value* const before = node_.input(states_.operand + state);
    if (!before || !before->type().is_tensor() ||
        body_.outputs().size() <= states_.result + state ||
        BehindIdentities(body_.outputs()[states_.result + state]) !=
            body_.inputs()[states_.operand + state])
      return false;
    const Value* const after = node_.output(state);
    return !after || before->type().Refines(after->type());
  }
  bool IsUnchangedOperand(size_t i) const {
    return i >= states_.operand && i < states_.operand + states_.count &&
           unchanged_[i - states_.operand];
  }
  /// A capture: constants become the body's own.
  bool IsCapturedNow(size_t i) const {
    return IsUnchangedOperand(i) && !node_.input(i)->is_constant();
  }
  bool IsUnchangedResult(size_t i) const { return i < unchanged_.size() && unchanged_[i]; }

  /// Captures come last.
  Status MakeBody(Graph& to) const {
    GraphEditor inside(to);
    std::unordered_map<const Value*, Value*> is;
    for (const bool last : {false, true})
      for (size_t i = 0; i < body_.inputs().size(); ++i) {
        if (IsUnchangedOperand(i) != last) continue;
        const Value* const old = body_.inputs()[i];
        is[old] = last && node_.input(i)->is_constant()
                      ? inside.AddConstant(*node_.input(i)->constant(), old->name())
                      : inside.AddInput(old->name(), old->type());
      }
    for (const auto& v : body_.values())
      if (v->is_constant()) is[v.get()] = inside.AddConstant(*v->constant(), v->name());
    for (const auto& n : body_.nodes()) INFER_TRY(Copy(*n, inside, is));
    for (size_t i = 0; i < body_.outputs().size(); ++i)
      if (i < states_.result || !IsUnchangedResult(i - states_.result))
        INFER_TRY(AddOutput(inside, is.at(body_.outputs()[i]), body_.outputs()[i]));
    inside.Sweep();
    return {};
  }

  static Status Copy(const Node& n, GraphEditor& inside,
                     std::unordered_map<const Value*, Value*>& is) {
    std::vector<Value*> inputs;
    for (const Value* v : n.inputs()) inputs.push_back(v ? is.at(v) : nullptr);
    NodeOptions options{.name = n.name(),
                        .num_captures = n.num_captures(),
                        .fused_from = n.fused_from(),
                        .extra = n.extra()};
    for (const Value* v : n.outputs()) options.output_names.push_back(v ? v->name() : "");
    for (const auto& [attr, graph] : n.subgraphs())
      options.subgraphs.emplace_back(attr, std::make_unique<Graph>(graph->Clone()));
    INFER_ASSIGN(Node * made,
                 inside.AddNode(n.def(), std::move(inputs), n.attrs(), std::move(options)));
    for (size_t i = 0; i < n.outputs().size(); ++i) {
      if (!n.output(i)) continue;
      is[n.output(i)] = made->output(i);
      // The model may know more of the type than inference does.
      INFER_ASSIGN(ValueType both, Meet(made->output(i)->type(), n.output(i)->type()));
      inside.SetType(made->output(i), std::move(both));
    }
    return {};
  }

  /// A value from outside comes through an Identity, as import reads bodies.
  Status AddOutput(GraphEditor& inside, Value* v, const Value* old) const {
    const auto at = std::find(body_.inputs().begin(), body_.inputs().end(), old);
    const auto i = static_cast<size_t>(at - body_.inputs().begin());
    if (IsUnchangedOperand(i)) {
      INFER_ASSIGN(v, inside.Add("Identity", {v}));
    }
    inside.MarkOutput(v);
    return {};
  }

  Result<Node*> MakeLoop(std::unique_ptr<Graph> body) {
    std::vector<Value*> inputs;
    size_t captured = 0;
    for (size_t i = 0; i < node_.inputs().size(); ++i)
      if (!IsUnchangedOperand(i)) inputs.push_back(node_.input(i));
    for (size_t i = 0; i < node_.inputs().size(); ++i)
      if (IsCapturedNow(i)) {
        inputs.push_back(node_.input(i));
        ++captured;
      }
    NodeOptions options{.name = node_.name(),
                        .num_captures = node_.num_captures() + captured,
                        .fused_from = node_.fused_from(),
                        .extra = node_.extra()};
    for (size_t i = 0; i < node_.outputs().size(); ++i)
      if (!IsUnchangedResult(i))
        options.output_names.push_back(node_.output(i) ? editor_.FreshName(node_.output(i)->name())
                                                       : "");
    options.subgraphs.emplace_back("body", std::move(body));
    return editor_.AddNode(node_.def(), std::move(inputs), node_.attrs(), std::move(options));
  }

  /// False: the new types do not fit what reads the results; the node stays.
  Result<bool> Replace(std::unique_ptr<Graph> body) {
    auto made = MakeLoop(std::move(body));
    if (!made.ok()) return false;
    std::vector<std::pair<Value*, Value*>> results;
    for (size_t i = 0, k = 0; i < node_.outputs().size(); ++i) {
      Value* const now =
          IsUnchangedResult(i) ? node_.input(states_.operand + i) : (*made)->output(k++);
      if (!node_.output(i)) continue;
      if (!IsUnchangedResult(i)) {
        // The model may know more of the type than inference does.
        const auto both = Meet(now->type(), node_.output(i)->type());
        if (!both.ok()) return Undo(**made);
        editor_.SetType(now, *both);
      }
      results.emplace_back(node_.output(i), now);
    }
    std::vector<std::pair<Value*, std::string>> names;
    for (const auto& [old, now] : results) {
      if (!old->is_output() && now->producer() == *made) names.emplace_back(now, old->name());
      INFER_TRY(editor_.ReplaceAllUses(old, now));
    }
    editor_.Erase(node_);
    for (const auto& [v, name] : names) editor_.Rename(v, editor_.FreshName(name));
    return true;
  }

  bool Undo(Node& made) {
    editor_.Erase(made);
    return false;
  }

  GraphEditor editor_;
  Node& node_;
  const Graph& body_;
  const States states_;
  std::vector<bool> unchanged_;
};

}  // namespace

Result<int> CaptureUnchangedStates(Graph& g) {
  std::vector<Node*> loops;
  for (const auto& n : g.nodes())
    if (StatesOf(*n).count > 0) loops.push_back(n.get());
  int captured = 0;
  for (Node* n : loops) {
    INFER_ASSIGN(const int of_loop, LoopStates(g, *n).Run());
    captured += of_loop;
  }
  return captured;
}

}  // namespace infer
