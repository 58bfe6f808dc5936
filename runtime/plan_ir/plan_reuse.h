#pragma once
/// PlanReuse: what one shape plan of a program leaves for the next. Where only some extents differ,
/// as between two steps of a decoder whose caches grow, most steps are as they were. Internal to
/// runtime/plan_ir. Not thread-safe.
#include "runtime/plan_ir/specialize.h"

namespace infer {

/// How the kernels of a step answered.
struct StepAnswer {
  size_t run = 0;   ///< the whole plan that it is of, or that found it unchanged; 0: none
  size_t plan = 0;  ///< for which a patch asked, whatever became of it
  int lanes = 0;    ///< of the thread that asked
  std::vector<Layout> layouts;  ///< in which the operands lay
  bool by_kernel = false;       ///< one of them took it whole; else all refused
  size_t kernel = 0;            ///< which
  Prepared prepared;
  std::vector<std::string> refusals;  ///< of the candidates before it
};

/// A copy of a value into another layout, or into a buffer of its own.
struct NotedCopy {
  int value = -1;
  size_t launch = 0;                            ///< of the frame
  int64_t scratch_bytes = 0, weight_bytes = 0;  ///< as its launch has them
  bool is_plain = false;                        ///< from row-major to row-major
  bool is_last = false;                         ///< behind all steps, for an output of the graph
  bool alone = false;                           ///< on the calling thread only
};

/// What ran how when a step was planned.
struct NotedStep {
  bool alone = false;
  enum class By : uint8_t { kNothing, kKernel, kReference, kParts } by = By::kNothing;
  int launch = -1;  ///< of the kernel, in the frame; -1: a view
  /// Buffers that result 0 might take over if they are as large, in this order.
  std::vector<int> may_take;
  int taken = -1;  ///< that it took over; -1: none
};

/// How the last plan came about, as far as the plan itself does not tell.
struct PlanNotes {
  std::vector<BufferOrigin> origins;      ///< by buffer
  std::vector<std::vector<int>> buffers;  ///< by value: those whose origin it is
  std::vector<bool> is_read;              ///< by value
  std::vector<NotedCopy> copies;
  std::vector<NotedStep> steps;  ///< by step
};

struct PlanReuse {
  explicit PlanReuse(const Plan& plan) : specializer(plan), answers(plan.steps.size()) {}
  Specializer specializer;
  size_t plans = 0;                 ///< begun
  size_t run = 0;                   ///< of them whole
  std::vector<StepAnswer> answers;  ///< by step
  /// Made last, with its notes; nullptr: none that a patch could begin with.
  std::shared_ptr<const ShapePlan> last;
  int lanes = 0;  ///< of the thread that made it
  PlanNotes notes;
};

}  // namespace infer
