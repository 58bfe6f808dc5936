#include "runtime/cpu/backend.h"

#include "runtime/plan_ir/interpreter.h"

namespace infer {
namespace {

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  std::string Unavailable() const override { return ""; }
  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    return CompileInterpreter(graph, options);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace infer
