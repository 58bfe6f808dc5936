#include "tools/common/execute.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "lib/support/exceptions.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/limits.h"
#include "tools/common/signals.h"
#include "tools/common/streams.h"
#include "tools/common/terminal.h"
#include "tools/common/text_table.h"
#include "tools/common/version.h"

namespace infer {
namespace {

const Context* g_context = nullptr;  // of the command that runs; nullptr between commands

/// Tells of a model that is complete though the command failed. Puts no text together, for which
/// there may be no memory.
void TellWritten() {
  if (g_context && g_context->written)
    std::fprintf(stderr, "  %s is written, and complete\n", g_context->written->c_str());
}

/// For this process and those that it starts.
Status LimitDeviceMemory(const std::string& size) {
  const auto bytes = ParseBytes(size);
  if (!bytes.ok()) return bytes.status().In("--device-memory");
  ::setenv("INFER_VULKAN_MEMORY", Cat(*bytes).c_str(), 1);
  return {};
}

}  // namespace

void CommonOptions::Declare(Options& options, bool has_timeout) {
  options.Section("Common");
  options.FileOrStdout("--json", &json, "Write the report as JSON to FILE, or - for stdout");
  options.Flag("-q,--quiet", &quiet, "No notes and no progress on stderr");
  options.Flag("-v,--verbose", &verbose, "Also tell each step and its time, and rare figures");
  options.Flag("-h,--help", &help, "This text");
  options.Flag("--help-all", &help_all, "This text with all options");
  options.Rarely();
  options.Values("--columns NAME", &columns, "Only these columns of tables, besides the first");
  options.Value("--config", &config, "Read options from a TOML file", PathUse::kRead);
  if (!has_timeout)
    options.Value("--timeout S", &timeout_s, "End after so many seconds, exit code 124; 0: never");
  options.Value("--max-memory SIZE", &max_memory,
                "Most memory that may be used (2G): for models that nobody vouches for");
  options.Value("--device-memory SIZE", &device_memory,
                "Most memory that may be allocated of a Vulkan device (2G)");
}

Status CommonOptions::Apply(Context& context) const {
  context.quiet = quiet;
  context.verbose = verbose;
  context.json_path = json;
  SetTableColumns(columns);
  if (timeout_s > 0) SetTimeout(timeout_s);
  LimitMemoryToMachine();
  if (!device_memory.empty()) INFER_TRY(LimitDeviceMemory(device_memory));
  if (max_memory.empty()) return {};
  auto bytes = ParseBytes(max_memory);
  if (!bytes.ok()) return bytes.status().In("--max-memory");
  return LimitMemory(*bytes);
}

std::string AskedFor(const std::vector<std::string>& arguments, const ToolHelp& help,
                     const HelpPage* page) {
  constexpr size_t kUsualWidth = 80, kMostWidth = 110;
  const size_t terminal = TerminalWidth();
  const size_t width = std::min(terminal > 0 ? terminal : kUsualWidth, kMostWidth);
  const auto has = [&](std::string_view wanted) {
    return std::find(arguments.begin(), arguments.end(), wanted) != arguments.end();
  };
  const bool all = has("--help-all");
  if (page) return all || has("--help") || has("-h") ? HelpText(*page, width, all) : "";
  if (arguments.empty()) return "";
  const std::string& first = arguments.front();
  if (first == "-V" || first == "--version") return Cat(help.tool, " ", kVersion, "\n");
  if (first == "-h" || first == "--help" || all) return ToolHelpText(help, width);
  return "";
}

int Finish(const std::string& tool, const Result<ExitCode>& result) {
  if (const int n = CaughtSignal()) return 128 + n;
  if (const double seconds = TimedOut()) {
    (void)WriteStream(stderr, Cat(tool, ": timed out after ", seconds, " s (--timeout)\n"));
    return kExitTimedOut;
  }
  if (result.ok()) return *result;
  (void)WriteStream(
      stderr, Cat(tool, ": ", Printable(result.status().message(), EndsOfLine::kIndented), "\n"));
  return ExitCodeOf(result.status());
}

int Execute(Command& command, Context& context) {
  g_context = &context;
  Result<ExitCode> result = Internal("not run");
  try {
    const Status paths = CheckWrites(context.paths());
    result = paths.ok() ? command.Run(context) : Result<ExitCode>(paths);
    if (context.verbose) context.Step("");  // the last one ends, too
  } catch (...) {
    result = StatusOfException("");
  }
  // JSON or a model on stdout stands alone there; people read the rest on stderr.
  const bool is_taken = context.json_path == "-" || context.model_to_stdout;
  const Status written = WriteStream(is_taken ? stderr : stdout, context.TakeOutput());
  if (!written.ok() && result.ok()) result = written;
  const int code = Finish(context.tool(), result);
  if (!result.ok()) TellWritten();
  g_context = nullptr;
  return code;
}

[[noreturn]] void EndOnTerminate() {
  if (const std::exception_ptr e = std::current_exception()) {
    try {
      std::rethrow_exception(e);
    } catch (const std::bad_alloc&) {
      if (g_context) std::fprintf(stderr, "%s: ", g_context->tool().c_str());
      std::fputs("out of memory\n", stderr);
      TellWritten();
      std::_Exit(kExitOutOfMemory);
    } catch (const std::exception& e) {
      std::fputs(e.what(), stderr);
      std::fputs("\n", stderr);
    } catch (...) {
    }
  }
  std::abort();  // a bug, with its core
}

}  // namespace infer
