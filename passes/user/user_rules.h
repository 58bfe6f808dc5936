#pragma once
/// Rules from a user's file become rules like those built in: explained, proved, tested the same.
#include "passes/rewrite/rule.h"
#include "passes/user/rule_text.h"

namespace infer {

struct UserRule {
  Rule rule;
  RuleText text;
};

/// InvalidModel "FILE:3:7: WHAT". `file` is for messages.
Result<std::vector<UserRule>> ParseUserRules(std::string_view text, const std::string& file,
                                             const OpRegistry& ops);

/// A graph on which the rule fires, made from its pattern with random shapes; "" where none was
/// found (attributes that are required and not written, shapes that we do not guess).
std::string MakeExample(const UserRule& rule, const OpRegistry& ops, uint64_t seed = 1);

}  // namespace infer
