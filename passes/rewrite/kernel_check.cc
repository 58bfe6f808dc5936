#include "passes/rewrite/kernel_check.h"

#include <algorithm>

#include "lib/ir/ort_kernels.h"
#include "lib/support/strings.h"

namespace infer {

Status CheckKernels(const Match& m, const Patch& p) {
  const auto& made = p.graph.nodes();
  const auto it =
      std::find_if(made.begin(), made.end(), [](const auto& n) { return EveryOrtLacksTypes(*n); });
  if (it == made.end()) return {};
  const std::vector<Node*> before = CoveredNodes(m, p);
  if (std::any_of(before.begin(), before.end(),
                  [](const Node* n) { return EveryOrtLacksTypes(*n); }))
    return {};
  return InvalidModel(Cat("ONNX Runtime has no kernel of ", (*it)->op(), " for ",
                          ToString((*it)->output(0)->type())));
}

}  // namespace infer
