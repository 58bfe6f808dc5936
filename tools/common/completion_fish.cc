#include "lib/support/strings.h"
#include "tools/common/completion.h"

namespace infer {
namespace {

/// fish knows \\ and \' within single quotes.
std::string FishQuoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string FishValue(const OptionHelp& o) {
  if (o.value.empty() || TakesOptionalValue(o)) return "";
  if (!o.choices.empty()) return Cat(" -x -a ", FishQuoted(Join(o.choices, " ")));
  if (TakesFolder(o)) return " -x -a '(__fish_complete_directories)'";
  return TakesFile(o) ? " -r -F" : " -x";
}

std::string FishLine(const OptionHelp& o, const std::string& begin) {
  if (o.is_argument) {
    if (!o.choices.empty()) return Cat(begin, " -a ", FishQuoted(Join(o.choices, " ")), "\n");
    return TakesFile(o) ? Cat(begin, " -F\n") : "";
  }
  std::string names;
  for (const std::string& name : Split(o.names, ','))
    names += name.starts_with("--") ? Cat(" -l ", name.substr(2)) : Cat(" -s ", name.substr(1));
  return Cat(begin, names, FishValue(o), " -d ", FishQuoted(MenuText(o.help)), "\n");
}

}  // namespace

std::string FishCompletion(const ToolHelp& help) {
  const std::string function = "_" + ShellFunction(help.tool) + "_command";
  const std::string complete = Cat("complete -c ", help.tool);
  std::string out =
      Cat("# fish completion for ", help.tool, ", made by: ", help.tool, " completion fish\n");
  // The command is the word behind the tool; without an argument: there is none yet.
  out += Cat("function ", function, "\n  set -l words (commandline -opc)\n",
             "  if test (count $argv) -eq 0\n    test (count $words) -eq 1\n  else\n",
             "    test (count $words) -gt 1; and contains -- $words[2] $argv\n  end\nend\n");
  out += Cat(complete, " -f\n");
  std::vector<std::string> names;
  for (const HelpPage& page : help.commands) {
    names.push_back(CommandName(page));
    out +=
        Cat(complete, " -n ", function, " -a ", names.back(), " -d ", FishQuoted(page.about), "\n");
  }
  out += Cat(complete, " -n ", function, " -a help -d 'Tell what a command does'\n");
  out += Cat(complete, " -n '", function, " help' -a ", FishQuoted(Join(names, " ")), "\n");
  for (const HelpPage& page : help.commands) {
    const std::string begin = Cat(complete, " -n '", function, " ", CommandName(page), "'");
    for (const OptionHelp& o : page.options) out += FishLine(o, begin);
  }
  return out;
}

}  // namespace infer
