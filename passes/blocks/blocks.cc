#include "passes/blocks/blocks.h"

namespace infer {

std::vector<RuleGroup> BlockRules() { return {}; }

}  // namespace infer
