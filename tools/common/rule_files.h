#pragma once
/// Files of users' rules: text (docs/rules.md), or .onnx with pairs of functions.
#include "lib/ops/op_def.h"
#include "passes/user/user_rules.h"

namespace infer {

/// All rules of `paths`, in order. InvalidModel "FILE:3:7: ..."; also for two rules of one name.
Result<std::vector<UserRule>> LoadRules(const std::vector<std::string>& paths,
                                        const OpRegistry& ops);

}  // namespace infer
