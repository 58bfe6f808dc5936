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
#include "lib/support/similar.h"
#include "lib/support/strings.h"
#include "tools/common/command.h"
#include "tools/common/config_file.h"
#include "tools/common/execute.h"
#include "tools/common/generated_help.h"
#include "tools/common/parse_options.h"
#include "tools/common/paths.h"
#include "tools/common/pinning.h"
#include "tools/common/share.h"
#include "tools/common/signals.h"
#include "tools/common/streams.h"
#include "tools/common/usage.h"

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

/// A CLI11 check, with our words.
CLI::Validator OneOf(std::vector<std::string> choices) {
  return CLI::Validator(
      [choices = std::move(choices)](std::string& text) -> std::string {
        if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
        return Cat("'", text, "' is none of ", Join(choices, ", "), DidYouMean(text, choices));
      },
      "");
}

const char* ValueOf(PathUse use) {
  switch (use) {
    case PathUse::kRead:
    case PathUse::kWrite: return "FILE";
    case PathUse::kWriteFolder: return "DIR";
    case PathUse::kNone: break;
  }
  return "TEXT";
}

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

std::string Options::Note(const std::string& names, const std::string& value,
                          const std::string& help, std::string standard, bool several) {
  const size_t space = names.find(' ');
  std::string own = names.substr(0, space);
  shown_.push_back({.names = own,
                    .value = space == std::string::npos ? value : names.substr(space + 1),
                    .help = help,
                    .standard = std::move(standard),
                    .group = section_,
                    .several = several,
                    .rare = rare_});
  return own;
}
void Options::NoteArgument(const std::string& name, const std::string& help, bool required,
                           bool several, PathUse use) {
  shown_.push_back({.names = Upper(name),
                    .help = help,
                    .group = "Arguments",
                    .is_argument = true,
                    .required = required,
                    .several = several,
                    .path = use});
}

void Options::Positional(const std::string& name, std::string* target, const std::string& help,
                         bool required, PathUse use) {
  NoteArgument(name, help, required, false, use);
  app_.add_option(name, *target, help)->required(required)->check(NotBlank);
  paths_.push_back({name, use, target, nullptr, use == PathUse::kRead});
}
void Options::Positional(const std::string& name, std::vector<std::string>* target,
                         const std::string& help, bool required, PathUse use) {
  NoteArgument(name, help, required, true, use);
  app_.add_option(name, *target, help)->required(required)->check(NotBlank);
  paths_.push_back({name, use, nullptr, target, use == PathUse::kRead});
}
void Options::Flag(const std::string& names, bool* target, const std::string& help) {
  app_.add_flag(Note(names, "", help), *target, help);
}
void Options::OptionalValue(const std::string& name, std::string* target, const std::string& alone,
                            const std::string& help) {
  app_.add_flag(Cat(Note(name, "[=TEXT]", help), "{", alone, "}"), *target, help);
}
void Options::Value(const std::string& names, std::string* target, const std::string& help,
                    PathUse use) {
  const std::string own = Note(names, ValueOf(use), help, *target);
  shown_.back().path = use;
  app_.add_option(own, *target, help)->check(NotBlank);
  paths_.push_back({LongName(own), use, target, nullptr});
}
void Options::FileOrStdout(const std::string& names, std::string* target, const std::string& help) {
  Value(names, target, help, PathUse::kWrite);
  paths_.back().takes_stream = true;
}
void Options::Value(const std::string& names, int* target, const std::string& help, int least) {
  app_.add_option(Note(names, "N", help, Cat(*target)), *target, help)->check(WholeNumber(least));
}
void Options::Value(const std::string& names, int64_t* target, const std::string& help,
                    int64_t least) {
  app_.add_option(Note(names, "N", help, Cat(*target)), *target, help)->check(WholeNumber(least));
}
void Options::Value(const std::string& names, uint64_t* target, const std::string& help) {
  app_.add_option(Note(names, "N", help, Cat(*target)), *target, help)
      ->check(WholeNumber(uint64_t{0}));
}
void Options::Value(const std::string& names, double* target, const std::string& help,
                    double least) {
  // A default below what may be given stands for "not given".
  const std::string standard = *target < least ? "" : FormatDouble(*target);
  app_.add_option(Note(names, "X", help, standard), *target, help)->check(FiniteNumber(least));
}
void Options::Values(const std::string& names, std::vector<std::string>* target,
                     const std::string& help, PathUse use) {
  const std::string own = Note(names, ValueOf(use), help, Join(*target, ","), true);
  shown_.back().path = use;
  app_.add_option(own, *target, help)->delimiter(',')->allow_extra_args(false)->check(NotBlank);
  paths_.push_back({LongName(own), use, nullptr, target});
}
void Options::Texts(const std::string& names, std::vector<std::string>* target,
                    const std::string& help) {
  const std::string own = Note(names, ValueOf(PathUse::kNone), help, "", true);
  app_.add_option(own, *target, help)->allow_extra_args(false)->check(NotBlank);
}
void Options::Choice(const std::string& names, std::string* target,
                     const std::vector<std::string>& choices, const std::string& help) {
  const std::string list = Join(choices, "|");
  constexpr size_t kShort = 24;  // longer lists stand behind the help
  const bool is_short = list.size() <= kShort;
  const std::string own =
      Note(names, is_short ? list : "NAME",
           is_short ? help : Cat(help, " (one of ", Join(choices, ", "), ")"), *target);
  Offer(choices);
  app_.add_option(own, *target, help)->check(OneOf(choices));
}
void Options::Checked(const std::string& names, std::string* target, const std::string& kind,
                      std::function<std::string(const std::string&)> refuse,
                      const std::string& help) {
  app_.add_option(Note(names, kind, help, *target), *target, help)
      ->check(CLI::Validator(
          [refuse = std::move(refuse)](std::string& text) { return refuse(text); }, ""));
}
void Options::Share(const std::string& names, double* target, const std::string& help) {
  const std::string own = Note(names, "SHARE", help);
  app_.add_option_function<std::string>(
      own,
      [own, target](const std::string& text) {
        const auto share = ParseShare(text);
        if (!share || share->value < 0)
          throw CLI::ValidationError(own, Cat("'", text, "' is no share (0.5% or 0.005)"));
        *target = share->value;
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

/// Prints `text`, and ends.
int FinishText(const std::string& tool, const Result<std::string>& text) {
  const Status written = text.ok() ? WriteStream(stdout, *text) : text.status();
  return Finish(tool, written.ok() ? Result<ExitCode>(kExitOk) : Result<ExitCode>(written));
}

int RunToolOn(int argc, char** argv, std::string_view about,
              std::vector<std::unique_ptr<Command>>& commands) {
  const SignalGuard signals;
  const OpRegistry ops = AllOps();
  const std::string tool = BaseName(argc > 0 ? argv[0] : "infer-opt");
  CLI::App app{std::string(about), tool};
  app.set_help_flag();
  app.require_subcommand(1);
  std::vector<CommonOptions> common(commands.size());
  std::vector<std::vector<PathOption>> paths(commands.size());
  std::vector<CLI::App*> subs;
  ToolHelp tool_help{tool, std::string(about), {}};
  std::vector<HelpPage>& pages = tool_help.commands;
  for (size_t i = 0; i < commands.size(); ++i) {
    CLI::App* sub =
        app.add_subcommand(std::string(commands[i]->name()), std::string(commands[i]->help()));
    sub->set_help_flag();
    Options options(*sub, paths[i]);
    commands[i]->Declare(options);
    // compare and peers have a --timeout of their own, for engines that they start.
    common[i].Declare(options, sub->get_option_no_throw("--timeout") != nullptr);
    pages.push_back(options.help());
    pages.back().command = Cat(tool, " ", commands[i]->name());
    pages.back().about = commands[i]->help();
    pages.back().examples = commands[i]->examples();
    subs.push_back(sub);
  }
  pages.push_back(CompletionPage(tool));
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const std::vector<std::string> given = arguments;
  TakeHelpCommand(arguments);
  std::vector<std::string> names;
  for (const HelpPage& page : pages) names.push_back(CommandName(page));
  const auto at =
      arguments.empty() ? names.end() : std::find(names.begin(), names.end(), arguments.front());
  const size_t chosen = static_cast<size_t>(at - names.begin());
  const HelpPage* page = chosen < pages.size() ? &pages[chosen] : nullptr;
  if (const auto text = GeneratedHelp(given, tool_help)) return FinishText(tool, *text);
  if (const std::string text = AskedFor(arguments, tool_help, page); !text.empty())
    return FinishText(tool, text);
  const auto config = TakeConfig(arguments, app);
  if (!config.ok()) return Finish(tool, config.status());
  if (const Status named = CheckCommandName(arguments, names); !named.ok())
    return Finish(tool, named);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    if (const std::string where = config->Blamed(e.what()); !where.empty())
      return Finish(tool, InvalidModel(where + e.what()));
    if (chosen >= subs.size()) return Finish(tool, InvalidArgument(e.what()));
    return Finish(pages[chosen].command,
                  InvalidArgument(InOwnWords({e.get_name(), e.what(), subs[chosen]->remaining()},
                                             pages[chosen])));
  }
  Context context(ops, pages[chosen].command, std::vector<std::string>(argv, argv + argc),
                  PathsOf(paths[chosen]), signals.token());
  if (const Status set = SetThreads(*subs[chosen], argv); !set.ok()) return Finish(tool, set);
  if (const Status set = common[chosen].Apply(context); !set.ok()) return Finish(tool, set);
  return Execute(*commands[chosen], context);
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
