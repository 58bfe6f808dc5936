#include <cstring>

#include "tools/bench/cold.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/peers/infer_worker.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], infer::peers::kWorkerArgument) == 0)
    return infer::peers::RunInferWorker();
  if (argc == 4 && std::strcmp(argv[1], infer::bench::kColdArgument) == 0)
    return infer::bench::RunColdStart(argv[2], argv[3]);
  std::vector<std::unique_ptr<infer::Command>> commands;
  commands.push_back(infer::MakeBenchRunCommand());
  commands.push_back(infer::MakeBenchCompareCommand());
  commands.push_back(infer::MakePeersCommand());
  commands.push_back(infer::MakeLoadCommand());
  commands.push_back(infer::MakeSoakCommand());
  commands.push_back(infer::MakeMachineCommand());
  commands.push_back(infer::MakePredictCommand());
  commands.push_back(infer::MakeKernelsCommand());
  commands.push_back(infer::MakeReportCommand());
  commands.push_back(infer::MakeTuneCommand());
  commands.push_back(infer::MakeZooCommand());
  return infer::RunTool(argc, argv, "Measure models so that the numbers can be trusted.",
                        std::move(commands));
}
