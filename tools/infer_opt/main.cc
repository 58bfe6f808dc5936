#include <cstring>

#include "tools/bench/cold.h"
#include "tools/infer_opt/commands.h"

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], infer::bench::kColdArgument) == 0)
    return infer::bench::RunColdStart(argv[2], argv[3]);
  using namespace infer;  // NOLINT: a list of names
  return RunTool(
      argc, argv, "Make ONNX models smaller and faster, and prove that they are still right.",
      {MakeInspectCommand, MakeCheckCommand, MakeRunCommand, MakeFuseCommand, MakeQuantizeCommand,
       MakePruneCommand, MakeSweepCommand, MakeCompareCommand, MakeEvalCommand, MakeExtractCommand,
       MakeEditCommand, MakeDevicesCommand, MakeOpsCommand, MakeRulesCommand});
}
