#include "runtime/cpu/compile/loop_states.h"

#include <algorithm>
#include <vector>

#include "lib/ir/inline.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Before the carried values of a Loop: number and condition as operands, the condition as result.
constexpr size_t kLoopOperands = 2, kLoopResults = 1;

const Value* BehindIdentities(const Value* v) {
  while (v->producer() && IsIdentity(*v->producer())) v = v->producer()->input(0);
  return v;
}

/// A Loop, and which of the values that it carries are passed on.
class LoopStates {
 public:
  LoopStates(Graph& g, Node& node)
      : editor_(g),
        node_(node),
        body_(*node.subgraph("body")),
        operands_(node.inputs().size() - node.num_captures()) {
    editor_.InsertBefore(node);
    for (size_t i = 0; i + kLoopOperands < operands_; ++i) unchanged_.push_back(IsUnchanged(i));
  }

  /// How many values are captured now.
  Result<int> Run() {
    const auto count = std::count(unchanged_.begin(), unchanged_.end(), true);
    bool others = false;
    for (size_t i = 0; i < node_.outputs().size(); ++i) others |= !IsUnchangedResult(i);
    if (count == 0 || !others) return 0;
    auto body = std::make_unique<Graph>(body_.ops());
    if (!MakeBody(*body).ok()) return 0;
    INFER_ASSIGN(const bool replaced, Replace(std::move(body), static_cast<size_t>(count)));
    return replaced ? static_cast<int>(count) : 0;
  }

 private:
  bool IsUnchanged(size_t state) const {
    const Value* const before = node_.input(kLoopOperands + state);
    if (!before || !before->type().is_tensor() || body_.outputs().size() <= kLoopResults + state ||
        BehindIdentities(body_.outputs()[kLoopResults + state]) !=
            body_.inputs()[kLoopOperands + state])
      return false;
    const Value* const after = node_.output(state);
    return !after || before->type().Refines(after->type());
  }
  bool IsUnchangedOperand(size_t i) const {
    return i >= kLoopOperands && i < operands_ && unchanged_[i - kLoopOperands];
  }
  bool IsUnchangedResult(size_t i) const { return i < unchanged_.size() && unchanged_[i]; }

  /// Captures come last.
  Status MakeBody(Graph& to) const {
    GraphEditor inside(to);
    std::vector<Value*> places(body_.inputs().size());
    for (const bool last : {false, true})
      for (size_t i = 0; i < places.size(); ++i)
        if (IsUnchangedOperand(i) == last)
          places[i] = inside.AddInput(body_.inputs()[i]->name(), body_.inputs()[i]->type());
    INFER_ASSIGN(const std::vector<Value*> results, InlineGraph(inside, body_, places));
    for (size_t i = 0; i < results.size(); ++i)
      if (i < kLoopResults || !IsUnchangedResult(i - kLoopResults)) inside.MarkOutput(results[i]);
    inside.Sweep();
    return {};
  }

  Result<Node*> MakeLoop(std::unique_ptr<Graph> body, size_t captured) {
    std::vector<Value*> inputs;
    for (const bool last : {false, true})
      for (size_t i = 0; i < node_.inputs().size(); ++i)
        if (IsUnchangedOperand(i) == last) inputs.push_back(node_.input(i));
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
  Result<bool> Replace(std::unique_ptr<Graph> body, size_t captured) {
    auto made = MakeLoop(std::move(body), captured);
    if (!made.ok()) return false;
    std::vector<std::pair<Value*, Value*>> results;
    for (size_t i = 0, k = 0; i < node_.outputs().size(); ++i) {
      Value* const now =
          IsUnchangedResult(i) ? node_.input(kLoopOperands + i) : (*made)->output(k++);
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
  size_t operands_;
  std::vector<bool> unchanged_;
};

}  // namespace

Result<int> CaptureUnchangedStates(Graph& g) {
  std::vector<Node*> loops;
  for (const auto& n : g.nodes())
    if (n->Is("Loop") && n->inputs().size() - n->num_captures() > kLoopOperands)
      loops.push_back(n.get());
  int captured = 0;
  for (Node* n : loops) {
    INFER_ASSIGN(const int of_loop, LoopStates(g, *n).Run());
    captured += of_loop;
  }
  return captured;
}

}  // namespace infer
