#pragma once
/// Command: one subcommand of a tool = one file. Declare binds options to the command's own
/// members; Run does no parsing. RunTool is the whole of a tool's main().
#include <chrono>
#include <initializer_list>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/ops/op_def.h"
#include "tools/common/options.h"
#include "tools/common/paths.h"
#include "tools/common/progress_display.h"

namespace infer {

/// The process's exit code (docs/cli.md). 128+n stands for a signal.
enum ExitCode {
  kExitOk = 0,
  kExitGateFailed = 1,  ///< accuracy, regression, comparison
  kExitUsage = 2,
  kExitBadInput = 3,     ///< model, data or config
  kExitUnsupported = 4,  ///< operator, type or device
  kExitIo = 5,
  kExitInconclusive = 6,  ///< a gate that what was measured cannot decide
  kExitInternal = 70,
  kExitOutOfMemory = 71,
};
ExitCode ExitCodeOf(const Status& s);

/// Of a gate: `allowed`: what cannot be decided passes, too.
inline ExitCode GateExit(bool fails, bool inconclusive, bool allowed) {
  return fails ? kExitGateFailed : inconclusive && !allowed ? kExitInconclusive : kExitOk;
}

/// What a running command may use of its surroundings.
class Context {
 public:
  Context(const OpRegistry& ops, std::string tool, std::vector<std::string> argv,
          std::vector<NamedPath> paths, std::stop_token stop)
      : ops_(ops),
        tool_(std::move(tool)),
        argv_(std::move(argv)),
        paths_(std::move(paths)),
        stop_(std::move(stop)) {}
  const OpRegistry& ops() const { return ops_; }
  const std::string& tool() const { return tool_; }  ///< "infer-opt quantize"
  const std::vector<std::string>& argv() const { return argv_; }
  /// The files and folders that the command line names.
  const std::vector<NamedPath>& paths() const { return paths_; }
  std::stop_token stop() const { return stop_; }  ///< SIGINT, SIGTERM or SIGHUP came

  /// Result text, for stdout; goes to stderr when the JSON report takes stdout. Control characters
  /// are escaped here; a name that is not in a table is printed with Printable, for its newlines.
  void Print(std::string_view text);
  void PrintLine(std::string_view text);
  /// The same, with colours that the caller put in (tools/common/terminal.h): nothing is escaped.
  void PrintStyled(std::string_view text) { out_ += text; }
  /// Result text that goes out at once, ahead of what Print holds back: for streams of records. Io.
  Status Stream(std::string_view text) const;
  /// A warning: printed to stderr at once, and part of the report.
  void Warn(std::string text);
  /// A line on stderr, unless --quiet.
  void Note(std::string_view text) const;
  /// Progress of a long step, on stderr: a bar with the time left on a terminal, else a line every
  /// half minute. done == total ends it.
  void Progress(std::string_view step, int64_t done, int64_t total);
  /// Ends the current step and starts the next: the report's timings[] {step, ms}.
  void Step(std::string name);

  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::vector<std::pair<std::string, double>>& step_times() const { return steps_; }
  std::string TakeOutput() { return std::move(out_); }

  bool quiet = false;
  bool verbose = false;          ///< --verbose: steps with their times, and rare figures
  std::string json_path;         ///< --json: "" none, "-" stdout
  bool model_to_stdout = false;  ///< a model goes there, so texts do not
  /// The model that stands complete under its name: an error behind that says so.
  const std::string* written = nullptr;

 private:
  const OpRegistry& ops_;
  std::string tool_;
  std::vector<std::string> argv_;
  std::vector<NamedPath> paths_;
  std::stop_token stop_;
  std::string out_;
  std::vector<std::string> warnings_;
  std::vector<std::pair<std::string, double>> steps_;
  std::string step_;
  std::chrono::steady_clock::time_point step_start_{};
  ProgressDisplay progress_ = ProgressOnStderr();
};

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view help() const = 0;      ///< one line
  virtual std::string_view examples() const = 0;  ///< shown below --help
  virtual void Declare(Options& options) = 0;
  virtual Result<ExitCode> Run(Context& context) = 0;
};

using CommandMaker = std::unique_ptr<Command> (*)();

/// Makes the commands, parses, runs one of them, prints its output and failures, and returns the
/// exit code.
/// What tools/common/execute.h declares is common to all commands.
int RunTool(int argc, char** argv, std::string_view about,
            std::initializer_list<CommandMaker> makers);

}  // namespace infer
