#include "passes/fuse/fusions.h"

namespace infer {

std::vector<RuleGroup> FusionRules() { return {}; }

}  // namespace infer
