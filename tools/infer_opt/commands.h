#pragma once
/// The one list of infer-opt's subcommands, each in the file of its name.
#include "tools/common/command.h"

namespace infer {

std::unique_ptr<Command> MakeInspectCommand();
std::unique_ptr<Command> MakeCheckCommand();
std::unique_ptr<Command> MakeRunCommand();
std::unique_ptr<Command> MakeFuseCommand();
std::unique_ptr<Command> MakeQuantizeCommand();
std::unique_ptr<Command> MakePruneCommand();
std::unique_ptr<Command> MakeSweepCommand();
std::unique_ptr<Command> MakeExtractCommand();
std::unique_ptr<Command> MakeEditCommand();
std::unique_ptr<Command> MakeCompareCommand();
std::unique_ptr<Command> MakeEvalCommand();
std::unique_ptr<Command> MakeDevicesCommand();
std::unique_ptr<Command> MakeOpsCommand();
std::unique_ptr<Command> MakeRulesCommand();

}  // namespace infer
