#pragma once
/// The one list of infer-bench's subcommands, each in the file of its name.
#include "tools/common/command.h"

namespace infer {

std::unique_ptr<Command> MakeBenchRunCommand();
std::unique_ptr<Command> MakeBenchCompareCommand();
std::unique_ptr<Command> MakePeersCommand();
std::unique_ptr<Command> MakeEngineCommand();
std::unique_ptr<Command> MakeLlmCommand();
std::unique_ptr<Command> MakeLoadCommand();
std::unique_ptr<Command> MakeSoakCommand();
std::unique_ptr<Command> MakeMachineCommand();
std::unique_ptr<Command> MakePredictCommand();
std::unique_ptr<Command> MakeKernelsCommand();
std::unique_ptr<Command> MakeReportCommand();
std::unique_ptr<Command> MakeTuneCommand();
std::unique_ptr<Command> MakeZooCommand();

}  // namespace infer
