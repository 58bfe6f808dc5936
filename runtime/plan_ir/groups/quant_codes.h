#pragma once
/// Groups that are functions of codes: 8-bit operands per tensor, an 8-bit result.
#include <array>

#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {

/// The first `operands` of the main node and the result are 8 bits per tensor, and no addition
/// follows; Unsupported says why not.
Result<QuantGroup> WholeCodeGroup(const StepCall& call, size_t operands);

/// The group is one of one operand, whose other parameters are constants; "" or why not.
std::string RefuseCodeTable(const StepCall& call);
/// The result for each of the 256 codes, by the reference kernels of the nodes. Unsupported where
/// the operator is not element-wise. Pre: RefuseCodeTable(call) is "".
Result<std::array<uint8_t, 256>> CodeTableOf(const StepCall& call);

/// Max and moves commute with a common dequantisation: operand and result have the same
/// parameters, and nothing follows; "" or why not.
std::string RefuseSameCodes(const StepCall& call);

}  // namespace infer
