#include <cstring>

#include "tools/bench/cold.h"
#include "tools/infer_opt/commands.h"

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], infer::bench::kColdArgument) == 0)
    return infer::bench::RunColdStart(argv[2], argv[3]);
  std::vector<std::unique_ptr<infer::Command>> commands;
  commands.push_back(infer::MakeInspectCommand());
  commands.push_back(infer::MakeRunCommand());
  commands.push_back(infer::MakeFuseCommand());
  commands.push_back(infer::MakeQuantizeCommand());
  commands.push_back(infer::MakeSweepCommand());
  commands.push_back(infer::MakeCompareCommand());
  commands.push_back(infer::MakeEvalCommand());
  commands.push_back(infer::MakeOpsCommand());
  commands.push_back(infer::MakeRulesCommand());
  return infer::RunTool(argc, argv,
                        "Make ONNX models smaller and faster, and prove that they are still right.",
                        std::move(commands));
}
