#include "tools/common/roundoff.h"

#include <algorithm>

namespace infer {

double CoarsestRoundoff(const Graph& g) {
  double coarsest = 0;
  for (const auto& n : g.nodes()) {
    for (const Value* v : n->outputs()) {
      if (!v || !v->type().is_tensor()) continue;
      if (v->dtype() == DType::kF16) coarsest = std::max(coarsest, 0x1p-11);
      if (v->dtype() == DType::kBF16) coarsest = std::max(coarsest, 0x1p-8);
    }
    for (const auto& [name, sub] : n->subgraphs())
      coarsest = std::max(coarsest, CoarsestRoundoff(*sub));
  }
  return coarsest;
}

double RewriteTolerance(const Graph& golden) {
  return std::max(kRewriteTolerance, 10 * CoarsestRoundoff(golden));
}

}  // namespace infer
