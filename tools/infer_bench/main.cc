#include <cstring>

#include "tools/bench/cold.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/peers/infer_worker.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], infer::peers::kWorkerArgument) == 0)
    return infer::peers::RunInferWorker();
  if (argc == 4 && std::strcmp(argv[1], infer::bench::kColdArgument) == 0)
    return infer::bench::RunColdStart(argv[2], argv[3]);
  using namespace infer;  // NOLINT: a list of names
  return RunTool(
      argc, argv, "Measure models so that the numbers can be trusted.",
      {MakeBenchRunCommand, MakeBenchCompareCommand, MakePeersCommand, MakeEngineCommand,
       MakeLoadCommand, MakeSoakCommand, MakeMachineCommand, MakePredictCommand, MakeKernelsCommand,
       MakeReportCommand, MakeTuneCommand, MakeLlmCommand, MakeZooCommand});
}
