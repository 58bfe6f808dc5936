/// run_cases DIR COUNT BACKEND: runs DIR/K.onnx for K below COUNT on the inputs DIR/K_in_I.pb, in
/// one process. Writes DIR/K_out_I.pb, or the reason why not to DIR/K.error.
#include <cstdio>

#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/reference/backend.h"

namespace infer {
namespace {

Status RunCase(const std::string& prefix, const Backend& backend, const OpRegistry& ops) {
  INFER_ASSIGN(const Model model, ImportModel(prefix + ".onnx", ops));
  INFER_ASSIGN(const auto program, backend.Compile(model.graph, {}));
  std::vector<Datum> inputs;
  for (size_t i = 0; i < program->inputs().size(); ++i) {
    INFER_ASSIGN(Datum d, ReadDatumPb(Cat(prefix, "_in_", i, ".pb"), program->inputs()[i]->type()));
    inputs.push_back(std::move(d));
  }
  INFER_ASSIGN(const auto outputs, RunOnce(*program, inputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    INFER_TRY(WriteTensorPb(outputs[i].tensor(), Cat(prefix, "_out_", i, ".pb")));
  return {};
}

}  // namespace
}  // namespace infer

int main(int argc, char** argv) {
  using namespace infer;
  const auto count = argc == 4 ? ParseInt(argv[2]) : std::nullopt;
  if (!count) return 2;
  const OpRegistry ops = AllOps();
  const auto backend =
      std::string_view(argv[3]) == "cpu" ? MakeCpuBackend() : MakeReferenceBackend();
  for (int64_t k = 0; k < *count; ++k) {
    const std::string prefix = Cat(argv[1], "/", k);
    const Status s = RunCase(prefix, *backend, ops);
    if (s.ok()) continue;
    if (!WriteFileAtomically(prefix + ".error", s.message()).ok()) return 1;
  }
  return 0;
}
