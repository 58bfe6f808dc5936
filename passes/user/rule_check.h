#pragma once
/// What must hold of a rule before it can be compiled: everything is bound, everything is used.
#include "lib/ir/text_cursor.h"
#include "passes/user/rule_text.h"

namespace infer {

/// `file` only says where.
Status CheckRuleText(const RuleText& rule, const TextCursor& file);

}  // namespace infer
