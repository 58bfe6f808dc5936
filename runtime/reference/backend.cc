#include "runtime/reference/backend.h"

#include "runtime/plan_ir/interpreter.h"

namespace infer {
namespace {

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  std::string Unavailable() const override { return ""; }
  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    return CompileInterpreter(graph, options);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace infer
