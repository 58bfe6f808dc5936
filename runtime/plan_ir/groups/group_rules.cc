#include "runtime/plan_ir/groups/group_rules.h"

#include "runtime/plan_ir/groups/attention_group.h"
#include "runtime/plan_ir/groups/gate.h"
#include "runtime/plan_ir/groups/gathered_updates.h"
#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {

std::vector<const Rule*> GroupRules() {
  std::vector<const Rule*> rules = {&AttentionRule(), &GateRule(), &GatheredUpdatesRule()};
  for (const Rule& rule : QuantRules()) rules.push_back(&rule);
  return rules;
}

}  // namespace infer
