#pragma once
/// The rules that state groups: tests hold each to its examples and near misses.
#include <vector>

#include "lib/pattern/rule.h"

namespace infer {

std::vector<const Rule*> GroupRules();

}  // namespace infer
