#pragma once
/// What the shapes of the inputs decide before anything is launched: the type of every value, small
/// values that need no step any more, the cost of each step. Internal to runtime/plan_ir.
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

/// Fills input_dims, facts, declared and cost of `out`. InvalidArgument or InvalidModel when the
/// shapes do not fit the graph.
Status Specialize(const Plan& plan, std::span<const Dims> input_dims, ShapePlan& out);

/// Specializes a plan for one set of input shapes after the other. What follows from operands that
/// are as they were the time before is kept, and nodes that differ in nothing but their names, such
/// as those of layers, are inferred once: a decoder whose caches grow by a token infers one
/// attention anew and nothing else. Not thread-safe. The plan outlives it.
class Specializer {
 public:
  explicit Specializer(const Plan& plan);
  ~Specializer();
  Specializer(Specializer&&) noexcept;
  Specializer& operator=(Specializer&&) noexcept;
  /// As Specialize. After an error it cannot be used any more.
  Status Run(std::span<const Dims> input_dims, ShapePlan& out);
  /// Whether anything of value `id` is otherwise than after the run before the last.
  bool moved(int id) const;
  /// All such values.
  const std::vector<int>& moved_ids() const;
  /// Steps that read or make such values; in order. Others have the costs and marks of before.
  const std::vector<size_t>& moved_steps() const;
  /// Whether a node of some step became `declared`, or is it no more.
  bool declared_moved() const;
  /// Whether Run may be called a second time: not where nodes have bodies.
  bool may_go_on() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// The value's tensor where no step has to make it; nullptr where one has.
inline const Tensor* Given(const ShapePlan& shapes, int id) { return shapes.value(id).given(); }

}  // namespace infer
