#pragma once
/// What happens around a command once its command line is parsed. Internal to RunTool.
#include <string>
#include <vector>

#include "tools/common/command.h"
#include "tools/common/help_text.h"

namespace infer {

/// Options of every command.
struct CommonOptions {
  bool quiet = false, verbose = false, help = false, help_all = false;
  double timeout_s = 0;
  std::string json, config, max_memory, device_memory;
  std::vector<std::string> columns;

  void Declare(Options& options, bool has_timeout);
  Status Apply(Context& context) const;
};

/// The text of --help, --help-all or --version, where the command line asks for one; "" else.
/// `page`: that of the command that it names; nullptr: none.
std::string AskedFor(const std::vector<std::string>& arguments, const ToolHelp& help,
                     const HelpPage* page);
/// The exit code, after the one line that says why it is not 0.
int Finish(const std::string& tool, const Result<ExitCode>& result);
/// Checks the outputs, runs the command and prints what it has to say.
int Execute(Command& command, Context& context);
/// A library may run out of memory where it promises not to throw: nlohmann's ordered objects copy
/// keys while they move.
[[noreturn]] void EndOnTerminate();

}  // namespace infer
