#pragma once
/// FlexAttention: attention whose scores and probabilities pass through subgraphs. Internal to
/// lib/ir.
#include "lib/ir/control_flow.h"

namespace infer {

Status InferFlexAttention(OpCall& call, const Subgraphs& subgraphs,
                          std::span<const ValueType* const> captures);
/// `inputs` hold the `operands` operands, then the captures.
Result<std::vector<Datum>> EvaluateFlexAttention(const Node& node,
                                                 std::span<const Datum* const> inputs,
                                                 size_t operands);

}  // namespace infer
