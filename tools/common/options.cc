/// The only file that sees CLI11 (it costs seconds to compile): options, dispatch, exit codes.
#include "tools/common/options.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <new>

#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "tools/common/command.h"
#include "tools/common/signals.h"
#include "tools/common/version.h"

namespace infer {
namespace {

/// CLI11 takes an empty text for the number 0.
std::string NotEmpty(const std::string& text) { return text.empty() ? "a number is missing" : ""; }

}  // namespace

namespace {

/// A CLI11 check: NaN and infinity would switch off the comparisons that options are for.
std::string IsFinite(const std::string& text) {
  const auto v = ParseDouble(Trim(text));
  return v && std::isfinite(*v) ? std::string() : Cat("'", text, "' is not a finite number");
}

}  // namespace

void Options::Positional(const std::string& name, std::string* target, const std::string& help,
                         bool required) {
  app_.add_option(name, *target, help)->required(required);
}
void Options::Positional(const std::string& name, std::vector<std::string>* target,
                         const std::string& help, bool required) {
  app_.add_option(name, *target, help)->required(required);
}
void Options::Flag(const std::string& names, bool* target, const std::string& help) {
  app_.add_flag(names, *target, help);
}
void Options::Value(const std::string& names, std::string* target, const std::string& help) {
  app_.add_option(names, *target, help)->capture_default_str();
}
void Options::Value(const std::string& names, int* target, const std::string& help) {
  app_.add_option(names, *target, help)->check(NotEmpty)->capture_default_str();
}
void Options::Value(const std::string& names, int64_t* target, const std::string& help) {
  app_.add_option(names, *target, help)->check(NotEmpty)->capture_default_str();
}
void Options::Value(const std::string& names, uint64_t* target, const std::string& help) {
  app_.add_option(names, *target, help)->check(NotEmpty)->capture_default_str();
}
void Options::Value(const std::string& names, double* target, const std::string& help) {
  app_.add_option(names, *target, help)->check(IsFinite)->capture_default_str();
}
void Options::Values(const std::string& names, std::vector<std::string>* target,
                     const std::string& help) {
  app_.add_option(names, *target, help)->delimiter(',')->allow_extra_args(false);
}
void Options::Choice(const std::string& names, std::string* target,
                     const std::vector<std::string>& choices, const std::string& help) {
  app_.add_option(names, *target, help)->check(CLI::IsMember(choices))->capture_default_str();
}
void Options::Share(const std::string& names, double* target, const std::string& help) {
  app_.add_option_function<std::string>(
      names,
      [names, target](const std::string& text) {
        std::string_view t = Trim(text);
        const bool percent = !t.empty() && t.back() == '%';
        if (percent) t = Trim(t.substr(0, t.size() - 1));
        auto v = ParseDouble(t);
        if (!v || !std::isfinite(*v))
          throw CLI::ValidationError(names, Cat("'", text, "' is no share (0.5% or 0.005)"));
        *target = percent ? *v / 100 : *v;
      },
      help);
}

namespace {

/// Writes all of `text` to a stream; false when the system refuses (a full disk, a closed pipe).
bool WriteAll(std::FILE* f, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), f) == text.size() && std::fflush(f) == 0;
}

/// Puts the options of --config FILE behind the subcommand, so that they are checked like any
/// other. What stands on the command line wins over the file.
std::vector<std::string> WithConfig(std::vector<std::string> args) {
  std::string file;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].rfind("--config=", 0) == 0) file = args[i].substr(9);
    if (args[i] == "--config" && i + 1 < args.size()) file = args[i + 1];
  }
  if (file.empty() || args.empty()) return args;
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    throw CLI::FileError(file + " is a folder, not a TOML file");
  std::vector<std::string> from_file;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_file(file)) {
    const std::string option = "--" + item.name;
    const bool given = std::any_of(args.begin(), args.end(), [&](const std::string& a) {
      return a == option || a.rfind(option + "=", 0) == 0;
    });
    if (given || item.name == "++" || item.name == "--") continue;  // section marks
    for (const std::string& value : item.inputs) {
      if (value == "true")
        from_file.push_back(option);
      else if (value != "false")
        from_file.push_back(option + "=" + value);
    }
  }
  args.insert(args.begin() + 1, from_file.begin(), from_file.end());
  return args;
}

/// A report never replaces a file that the command line also names as something else.
Status CheckReportPath(const Context& context) {
  struct stat report, other;
  const std::string& path = context.json_path;
  if (path.empty() || path == "-" || ::stat(path.c_str(), &report) != 0) return {};
  const std::vector<std::string>& args = context.argv();
  for (size_t i = 1; i < args.size(); ++i) {
    if (args[i - 1] == "--json" || args[i].rfind("--json=", 0) == 0) continue;
    const size_t equals = args[i].find('=');  // NAME=FILE, --option=FILE
    for (const std::string& file :
         {args[i], equals == std::string::npos ? std::string() : args[i].substr(equals + 1)})
      if (!file.empty() && ::stat(file.c_str(), &other) == 0 && report.st_dev == other.st_dev &&
          report.st_ino == other.st_ino)
        return InvalidArgument(Cat("--json ", path, ": '", args[i], "' is the same file"));
  }
  return {};
}

int Execute(Command& command, Context& context) {
  Result<ExitCode> result = Internal("not run");
  try {
    const Status report = CheckReportPath(context);
    result = report.ok() ? command.Run(context) : Result<ExitCode>(report);
  } catch (const std::bad_alloc&) {
    result = ResourceExhausted("out of memory");
  } catch (const std::exception& e) {
    result = Internal(Cat("unexpected exception: ", e.what()));
  }
  const std::string text = context.TakeOutput();
  // JSON on stdout stands alone there; people read the rest on stderr.
  std::FILE* out = context.json_path == "-" ? stderr : stdout;
  if (!text.empty() && !WriteAll(out, text) && result.ok())
    result = IoError("cannot write to standard output");
  if (const int n = CaughtSignal()) return 128 + n;
  if (result.ok()) return *result;
  WriteAll(stderr, Cat(context.tool(), ": ", result.status().message(), "\n"));
  return ExitCodeOf(result.status());
}

}  // namespace

int RunTool(int argc, char** argv, std::string_view about,
            std::vector<std::unique_ptr<Command>> commands) {
  const SignalGuard signals;
  const OpRegistry ops = AllOps();
  const std::string tool = [&] {
    std::string_view path = argc > 0 ? argv[0] : "infer-opt";
    return std::string(path.substr(path.rfind('/') + 1));
  }();
  CLI::App app{std::string(about), tool};
  app.set_version_flag("--version", Cat(tool, " ", kVersion));
  app.require_subcommand(1);
  struct Common {
    bool quiet = false;
    std::string json, config;
  };
  std::vector<Common> common(commands.size());
  std::vector<CLI::App*> subs;
  for (size_t i = 0; i < commands.size(); ++i) {
    CLI::App* sub =
        app.add_subcommand(std::string(commands[i]->name()), std::string(commands[i]->help()));
    Options options(*sub);
    commands[i]->Declare(options);
    options.Value("--json", &common[i].json, "Write the report as JSON to FILE, or - for stdout");
    options.Flag("-q,--quiet", &common[i].quiet, "No notes and no progress on stderr");
    sub->add_option("--config", common[i].config, "Read options from a TOML file");
    sub->footer(std::string(commands[i]->examples()));
    subs.push_back(sub);
  }
  try {
    auto arguments = WithConfig(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);  // prints help or the error
    return code == 0 ? kExitOk : kExitUsage;
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!subs[i]->parsed()) continue;
    Context context(ops, Cat(tool, " ", commands[i]->name()),
                    std::vector<std::string>(argv, argv + argc), signals.token());
    context.quiet = common[i].quiet;
    context.json_path = common[i].json;
    return Execute(*commands[i], context);
  }
  return kExitUsage;
}

}  // namespace infer
