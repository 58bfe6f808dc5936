#include "passes/simplify/simplify.h"

namespace infer {
namespace {

class DeadCode : public Pass {
 public:
  std::string name() const override { return "remove-dead-code"; }
  Result<bool> Run(Graph& g, PassContext&) override {
    // Outer graphs last: what a subgraph no longer reads may be dead outside.
    int erased = 0;
    INFER_TRY(ForEachGraph(g, [&](Graph& graph, int) -> Status {
      erased += GraphEditor(graph).Sweep();
      return {};
    }));
    return erased > 0;
  }
};

}  // namespace

std::unique_ptr<Pass> RemoveDeadCode() { return std::make_unique<DeadCode>(); }

}  // namespace infer
