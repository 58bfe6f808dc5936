#pragma once
/// Results of a step by outputs of its node.
#include <algorithm>

#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Position of output `o` of the main node among the step's results; -1: nobody reads it.
inline int ResultOf(const StepCall& call, size_t o) {
  const Value* v = call.main().output(o);
  const auto& made = call.step.outputs;
  const auto it = v ? std::find(made.begin(), made.end(), call.plan.id(v)) : made.end();
  return it == made.end() ? -1 : static_cast<int>(it - made.begin());
}

}  // namespace infer
