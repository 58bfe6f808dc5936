#include "runtime/mock/backend.h"

#include "runtime/plan_ir/interpreter.h"

namespace infer {
namespace {

class MockBackend final : public Backend {
 public:
  std::string_view name() const override { return "mock"; }
  std::string Unavailable() const override { return ""; }
  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    return CompileInterpreter(graph, options);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeMockBackend() { return std::make_unique<MockBackend>(); }

}  // namespace infer
