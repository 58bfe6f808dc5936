// What a user of the installed package writes: import a model, compile it, run it once.
#include <cstdio>

#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "runtime/cpu/backend.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const infer::OpRegistry ops = infer::AllOps();
  auto model = infer::ImportModel(argv[1], ops);
  if (!model.ok()) return std::puts(model.status().message().c_str()), 1;
  auto program = infer::MakeCpuBackend()->Compile(model->graph, {});
  if (!program.ok()) return std::puts(program.status().message().c_str()), 1;
  const infer::Datum inputs[] = {infer::Tensor::Zeros(infer::DType::kF32, {1, 1, 32, 32})};
  auto outputs = infer::RunOnce(**program, inputs);
  if (!outputs.ok()) return std::puts(outputs.status().message().c_str()), 1;
  std::puts(infer::ToString((*outputs)[0].tensor()).c_str());
  return (*outputs)[0].tensor().num_elements() == 10 ? 0 : 1;
}
