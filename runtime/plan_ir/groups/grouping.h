#pragma once
/// Steps of several nodes, made of steps of one. What may be a group is said by the files beside
/// this one; whether it becomes one, by the kernels of a backend.
#include "lib/support/function_ref.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Whether some kernel of the backend computes the step as a whole.
using AcceptsStep = FunctionRef<bool(const PlanStep&)>;

/// Whether one of `kernels` does, those called `except` left out.
struct KernelsAccept {
  const Plan& plan;  ///< knows the operands of the step
  const KernelList& kernels;
  const CompileOptions& options;
  std::string_view except = {};
  bool operator()(const PlanStep& step) const;
};

/// A step of `nodes` in graph order, after the first `borrowed`, which may be steps of their own as
/// well. Its operands are what nodes read and none of them makes, its results what others read or
/// the graph returns.
PlanStep MakeStep(const Plan& plan, const Node& main, std::vector<const Node*> nodes,
                  size_t borrowed = 0);

/// The only reader of the node's first result; nullptr: others read it, or the graph returns it.
const Node* OnlyReader(const Node& node);

/// The node's results but the first are not there.
bool HasOneResult(const Node& node);

/// Both shapes are known, symbols included, and equal: nothing broadcasts.
bool SameShape(const Value& a, const Value& b);

/// Puts groups in the place of the steps that they are made of. Steps keep their places until the
/// end, when the empty ones go and the plan is linked again.
class Grouping {
 public:
  explicit Grouping(Plan& plan);
  ~Grouping();
  Grouping(const Grouping&) = delete;
  Grouping& operator=(const Grouping&) = delete;

  /// `n` is a step by itself.
  bool IsFree(const Node* n) const;
  bool AreFree(std::span<const Node* const> nodes) const;
  /// The group stands where its last node stood. Pre: its nodes that are not borrowed are in
  /// `plan`. Returns its place among the steps.
  size_t Take(PlanStep group);

 private:
  Plan& plan_;
  std::unordered_map<const Node*, size_t> step_of_;  // that computes the node, not borrows it
};

}  // namespace infer
