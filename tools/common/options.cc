/// The only file that sees CLI11 (it costs seconds to compile): options, dispatch, exit codes.
#include "tools/common/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "lib/ops/registry.h"
#include "lib/support/exceptions.h"
#include "lib/support/file.h"
#include "lib/support/parallel.h"
#include "lib/support/path_parts.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/command.h"
#include "tools/common/config_file.h"
#include "tools/common/limits.h"
#include "tools/common/parse_options.h"
#include "tools/common/paths.h"
#include "tools/common/pinning.h"
#include "tools/common/signals.h"
#include "tools/common/streams.h"
#include "tools/common/version.h"

namespace infer {
namespace {

/// A variable of a script that is not set must not read as "no such option".
std::string NotBlank(const std::string& text) { return text.empty() ? "the value is empty" : ""; }

/// A CLI11 check. CLI11 by itself takes "" for 0, "-1" for an unsigned number and "0x1p3".
template <typename T>
CLI::Validator WholeNumber(T least) {
  return CLI::Validator(
      [least](std::string& text) -> std::string {
        T v{};
        const std::string_view t = Trim(text);
        const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), v);
        if (t.empty()) return "a number is missing";
        if (error == std::errc() && end == t.data() + t.size() && v >= least) return "";
        return Cat("'", text, "' is not a whole number from ", least, " to ",
                   std::numeric_limits<T>::max());
      },
      "");
}

/// A CLI11 check: NaN and infinity would switch off the comparisons that options are for.
CLI::Validator FiniteNumber(double least) {
  return CLI::Validator(
      [least](std::string& text) -> std::string {
        const auto v = ParseDouble(Trim(text));
        if (!v || !std::isfinite(*v)) return Cat("'", text, "' is not a finite number");
        return *v >= least ? std::string() : Cat("'", text, "' is less than ", least);
      },
      "");
}

/// "--output" of "-o,--output".
std::string LongName(const std::string& names) { return names.substr(names.rfind(',') + 1); }

}  // namespace

Status ParseOptions(const std::function<void(Options&)>& declare,
                    std::vector<std::string> arguments) {
  CLI::App app;
  app.set_help_flag();
  std::vector<PathOption> paths;
  Options options(app, paths);
  declare(options);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    return InvalidArgument(e.what());
  }
  return {};
}

void Options::Positional(const std::string& name, std::string* target, const std::string& help,
                         bool required, PathUse use) {
  app_.add_option(name, *target, help)->required(required)->check(NotBlank);
  paths_.push_back({name, use, target, nullptr});
}
void Options::Positional(const std::string& name, std::vector<std::string>* target,
                         const std::string& help, bool required, PathUse use) {
  app_.add_option(name, *target, help)->required(required)->check(NotBlank);
  paths_.push_back({name, use, nullptr, target});
}
void Options::Flag(const std::string& names, bool* target, const std::string& help) {
  app_.add_flag(names, *target, help);
}
void Options::OptionalValue(const std::string& name, std::string* target, const std::string& alone,
                            const std::string& help) {
  app_.add_flag(Cat(name, "{", alone, "}"), *target, help);
}
void Options::Value(const std::string& names, std::string* target, const std::string& help,
                    PathUse use) {
  app_.add_option(names, *target, help)->check(NotBlank)->capture_default_str();
  paths_.push_back({LongName(names), use, target, nullptr});
}
void Options::Value(const std::string& names, int* target, const std::string& help, int least) {
  app_.add_option(names, *target, help)->check(WholeNumber(least))->capture_default_str();
}
void Options::Value(const std::string& names, int64_t* target, const std::string& help,
                    int64_t least) {
  app_.add_option(names, *target, help)->check(WholeNumber(least))->capture_default_str();
}
void Options::Value(const std::string& names, uint64_t* target, const std::string& help) {
  app_.add_option(names, *target, help)->check(WholeNumber(uint64_t{0}))->capture_default_str();
}
void Options::Value(const std::string& names, double* target, const std::string& help,
                    double least) {
  app_.add_option(names, *target, help)->check(FiniteNumber(least))->capture_default_str();
}
void Options::Values(const std::string& names, std::vector<std::string>* target,
                     const std::string& help, PathUse use) {
  app_.add_option(names, *target, help)->delimiter(',')->allow_extra_args(false)->check(NotBlank);
  paths_.push_back({LongName(names), use, nullptr, target});
}
void Options::Choice(const std::string& names, std::string* target,
                     const std::vector<std::string>& choices, const std::string& help) {
  app_.add_option(names, *target, help)->check(CLI::IsMember(choices))->capture_default_str();
}
void Options::Checked(const std::string& names, std::string* target, const std::string& kind,
                      std::function<std::string(const std::string&)> refuse,
                      const std::string& help) {
  app_.add_option(names, *target, help)
      ->check(CLI::Validator(
          [refuse = std::move(refuse)](std::string& text) { return refuse(text); }, kind))
      ->capture_default_str();
}
void Options::Share(const std::string& names, double* target, const std::string& help) {
  app_.add_option_function<std::string>(
      names,
      [names, target](const std::string& text) {
        std::string_view t = Trim(text);
        const bool percent = !t.empty() && t.back() == '%';
        if (percent) t = Trim(t.substr(0, t.size() - 1));
        auto v = ParseDouble(t);
        if (!v || !std::isfinite(*v) || *v < 0)
          throw CLI::ValidationError(names, Cat("'", text, "' is no share (0.5% or 0.005)"));
        *target = percent ? *v / 100 : *v;
      },
      help);
}

Options::Given Options::Group(const std::function<void(Options&)>& declare) {
  const size_t before = app_.get_options().size();
  declare(*this);
  std::vector<CLI::Option*> group = app_.get_options();
  group.erase(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(before));
  return [group] {
    std::vector<std::string> given;
    for (const CLI::Option* option : group)
      if (option->count() > 0) given.push_back(option->get_name());
    return given;
  };
}

namespace {

/// What --config brought in.
struct Config {
  std::string path;  ///< "": none
  std::vector<ConfigEntry> entries;
  /// "FILE:LINE: ", for a failure that speaks of an option of the file; "" for any other.
  std::string Blamed(const std::string& message) const {
    for (const ConfigEntry& e : entries) {
      const size_t at = message.find("--" + e.option);
      if (at == std::string::npos) continue;
      const size_t end = at + 2 + e.option.size();
      if (end == message.size() ||
          !(std::isalnum(static_cast<unsigned char>(message[end])) || message[end] == '-'))
        return Cat(path, ":", e.line, ": ");
    }
    return "";
  }
};

/// Reads the file of --config and puts its options behind the subcommand, so that they are checked
/// like any other. What stands on the command line wins over the file.
Result<Config> TakeConfig(std::vector<std::string>& args, const CLI::App& app) {
  Config config;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].rfind("--config=", 0) == 0) config.path = args[i].substr(9);
    if (args[i] == "--config" && i + 1 < args.size()) config.path = args[i + 1];
  }
  if (config.path.empty() || args.empty()) return config;
  const CLI::App* command = nullptr;
  std::vector<std::string> commands;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(sub->get_name());
    if (sub->get_name() == args[0]) command = sub;
  }
  if (!command) return config;  // told by the parser
  INFER_ASSIGN(const std::string text, ReadFile(config.path));
  auto entries = ParseConfig(text, args[0], commands);
  if (!entries.ok()) return entries.status().In(config.path);
  std::vector<std::string> from_file;
  for (ConfigEntry& e : *entries) {
    const std::string option = "--" + e.option;
    const CLI::Option* known = command->get_option_no_throw(option);
    if (!known || e.option == "config")
      return InvalidModel(
          Cat(config.path, ":", e.line, ": '", args[0], "' has no option ", option));
    const bool given = std::any_of(args.begin(), args.end(), [&](const std::string& a) {
      return known->check_name(a.substr(0, a.find('=')));
    });
    if (given) continue;
    const bool flag = known->get_items_expected_max() == 0;
    for (const std::string& value : e.values) {
      if (!flag)
        from_file.push_back(Cat(option, "=", value));
      else if (value == "true")
        from_file.push_back(option);
      else if (value != "false")
        return InvalidModel(Cat(config.path, ":", e.line, ": ", option, " is true or false"));
    }
    config.entries.push_back(std::move(e));
  }
  args.insert(args.begin() + 1, from_file.begin(), from_file.end());
  return config;
}

/// The exit code, after the one line that says why it is not 0.
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
  Result<ExitCode> result = Internal("not run");
  try {
    const Status paths = CheckWrites(context.paths());
    result = paths.ok() ? command.Run(context) : Result<ExitCode>(paths);
  } catch (...) {
    result = StatusOfException("");
  }
  // JSON on stdout stands alone there; people read the rest on stderr.
  const Status written =
      WriteStream(context.json_path == "-" ? stderr : stdout, context.TakeOutput());
  if (!written.ok() && result.ok()) result = written;
  return Finish(context.tool(), result);
}

/// --threads holds for all that a command does, from its first loop on; of a list, the largest.
Status SetThreads(const CLI::App& command, char** argv) {
  const CLI::Option* threads = command.get_option_no_throw("--threads");
  if (!threads) return {};
  int wanted = 0;
  for (const std::string& given : threads->results())
    wanted = std::max(wanted,
                      static_cast<int>(std::clamp<int64_t>(ParseInt(given).value_or(0), 0, 4096)));
  const CLI::Option* pin = command.get_option_no_throw("--pin");
  if (pin && pin->count() > 0) INFER_TRY(PinLanes(argv, wanted));
  if (wanted > 0) SetLaneBudget(wanted);
  return {};
}

/// CLI11 says of an unknown command that one is required.
Status CheckCommandName(const std::vector<std::string>& arguments,
                        const std::vector<CLI::App*>& commands) {
  if (arguments.empty() || arguments.front().starts_with('-')) return {};
  std::vector<std::string> names;
  for (const CLI::App* c : commands) names.push_back(c->get_name());
  if (std::find(names.begin(), names.end(), arguments.front()) != names.end()) return {};
  return InvalidArgument(
      Cat("there is no command '", arguments.front(), "'; there are: ", Join(names, ", ")));
}

/// Options of every command.
struct Common {
  bool quiet = false;
  double timeout_s = 0;
  std::string json, config, max_memory;

  void Declare(Options& options, const CLI::App& command) {
    options.Value("--json", &json, "Write the report as JSON to FILE, or - for stdout",
                  PathUse::kWrite);
    options.Flag("-q,--quiet", &quiet, "No notes and no progress on stderr");
    options.Value("--config", &config, "Read options from a TOML file", PathUse::kRead);
    // compare and peers have one of their own, for engines that they start.
    if (!command.get_option_no_throw("--timeout"))
      options.Value("--timeout", &timeout_s, "End after so many seconds, exit code 124; 0: never");
    options.Value("--max-memory", &max_memory,
                  "Most memory that may be used (2G): for models that nobody vouches for");
  }
  Status Apply() const {
    if (timeout_s > 0) SetTimeout(timeout_s);
    LimitMemoryToMachine();
    if (max_memory.empty()) return {};
    auto bytes = ParseBytes(max_memory);
    if (!bytes.ok()) return bytes.status().In("--max-memory");
    return LimitMemory(*bytes);
  }
};

int RunToolOn(int argc, char** argv, std::string_view about,
              std::vector<std::unique_ptr<Command>>& commands) {
  const SignalGuard signals;
  const OpRegistry ops = AllOps();
  const std::string tool = BaseName(argc > 0 ? argv[0] : "infer-opt");
  CLI::App app{std::string(about), tool};
  app.set_version_flag("--version", Cat(tool, " ", kVersion));
  app.require_subcommand(1);
  std::vector<Common> common(commands.size());
  std::vector<std::vector<PathOption>> paths(commands.size());
  std::vector<CLI::App*> subs;
  for (size_t i = 0; i < commands.size(); ++i) {
    CLI::App* sub =
        app.add_subcommand(std::string(commands[i]->name()), std::string(commands[i]->help()));
    Options options(*sub, paths[i]);
    commands[i]->Declare(options);
    common[i].Declare(options, *sub);
    sub->footer(std::string(commands[i]->examples()) + options.explained());
    subs.push_back(sub);
  }
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const auto config = TakeConfig(arguments, app);
  if (!config.ok()) return Finish(tool, config.status());
  if (const Status named = CheckCommandName(arguments, subs); !named.ok())
    return Finish(tool, named);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    if (const std::string where = config->Blamed(e.what()); !where.empty())
      return Finish(tool, InvalidModel(where + e.what()));
    const int code = app.exit(e);  // prints help or the error
    if (code != 0) return kExitUsage;
    const Status written = WriteStream(stdout, "");
    return Finish(tool, written.ok() ? Result<ExitCode>(kExitOk) : Result<ExitCode>(written));
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!subs[i]->parsed()) continue;
    Context context(ops, Cat(tool, " ", commands[i]->name()),
                    std::vector<std::string>(argv, argv + argc), PathsOf(paths[i]),
                    signals.token());
    if (const Status set = SetThreads(*subs[i], argv); !set.ok()) return Finish(tool, set);
    if (const Status set = common[i].Apply(); !set.ok()) return Finish(tool, set);
    context.quiet = common[i].quiet;
    context.json_path = common[i].json;
    return Execute(*commands[i], context);
  }
  return kExitUsage;
}

/// A library may run out of memory where it promises not to throw: nlohmann's ordered objects copy
/// keys while they move.
[[noreturn]] void EndOnTerminate() {
  if (const std::exception_ptr e = std::current_exception()) {
    try {
      std::rethrow_exception(e);
    } catch (const std::bad_alloc&) {
      std::fputs("out of memory\n", stderr);
      std::_Exit(kExitOutOfMemory);
    } catch (const std::exception& e) {
      std::fputs(e.what(), stderr);
      std::fputs("\n", stderr);
    } catch (...) {
    }
  }
  std::abort();  // a bug, with its core
}

}  // namespace

int RunTool(int argc, char** argv, std::string_view about,
            std::initializer_list<CommandMaker> makers) {
  std::set_terminate(EndOnTerminate);
  try {
    std::vector<std::unique_ptr<Command>> commands;
    for (const CommandMaker make : makers) commands.push_back(make());
    return RunToolOn(argc, argv, about, commands);
  } catch (...) {
    // There may be no memory for a message that is made.
    const Status s = StatusOfException("");
    std::fputs(s.message().c_str(), stderr);
    std::fputs("\n", stderr);
    return ExitCodeOf(s);
  }
}

}  // namespace infer
