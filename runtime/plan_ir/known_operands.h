#pragma once
/// The result of a node before a run, where all but a few of its operands are constants: what moves
/// elements or interpolates tells so where they go.
#include <optional>

#include "lib/support/function_ref.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Results of the node's reference kernel. `operand` has the step's operand of each input of the
/// node, or -1. `stand_in(i)` gives what is taken for input i; nullopt: the constant that it is.
/// Unsupported where that is not known before the run.
Result<std::vector<Datum>> EvaluateKnown(const Node& node, const OpRegistry& ops,
                                         std::span<const Operand> in, std::span<const int> operand,
                                         FunctionRef<std::optional<Tensor>(size_t i)> stand_in);

}  // namespace infer
