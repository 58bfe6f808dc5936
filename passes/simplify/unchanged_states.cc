/// Values that loops hand from turn to turn as they came: exporters of Keras pass the weights of
/// recurrent layers so.
#include "lib/ir/loop_states.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

class UnchangedStates : public Pass {
 public:
  std::string name() const override { return "capture-unchanged-states"; }

  Result<bool> Run(Graph& g, PassContext&) override {
    int captured = 0;
    // Inner graphs first: a loop that hands a value to another one may pass it on then.
    INFER_TRY(ForEachGraph(g, [&](Graph& graph, int) -> Status {
      INFER_ASSIGN(const int here, CaptureUnchangedStates(graph));
      captured += here;
      return {};
    }));
    return captured > 0;
  }
};

}  // namespace

std::unique_ptr<Pass> ReadUnchangedStatesOutside() { return std::make_unique<UnchangedStates>(); }

}  // namespace infer
