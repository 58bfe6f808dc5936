#include "lib/support/strings.h"
#include "tools/common/completion.h"

namespace infer {
namespace {

/// Inside the brackets of an _arguments specification.
std::string InBrackets(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == '\\' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

/// Commands of _describe and names of values: ":" separates.
std::string WithoutColon(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string ZshAction(const OptionHelp& o) {
  if (!o.choices.empty()) {
    std::vector<std::string> words;
    for (const std::string& choice : o.choices) words.push_back(WithoutColon(choice));
    return Cat("(", Join(words, " "), ")");
  }
  return TakesFolder(o) ? "_files -/" : TakesFile(o) ? "_files" : " ";
}

std::string ZshSpecification(const OptionHelp& o) {
  const std::string line = " \\\n        ";
  if (o.is_argument)
    return Cat(line,
               Quoted(Cat(o.several ? "*" : "", ":", WithoutColon(o.names), ":", ZshAction(o))));
  std::string out;
  const std::vector<std::string> names = Split(o.names, ',');
  // Given once, neither spelling is offered again.
  const std::string once = o.several ? "*" : Cat("(", Join(names, " "), ")");
  for (const std::string& name : names) {
    const bool is_long = name.starts_with("--");
    const std::string takes = o.value.empty()         ? ""
                              : TakesOptionalValue(o) ? "=-"
                              : is_long               ? "="
                                                      : "+";
    const std::string value = o.value.empty() ? ""
                                              : Cat(TakesOptionalValue(o) ? "::" : ":",
                                                    WithoutColon(o.value), ":", ZshAction(o));
    out += Cat(line, Quoted(Cat(once, name, takes, "[", InBrackets(MenuText(o.help)), "]", value)));
  }
  return out;
}

}  // namespace

std::string ZshCompletion(const ToolHelp& help) {
  const std::string function = ShellFunction(help.tool);
  std::string out =
      Cat("#compdef ", help.tool, "\n# zsh completion for ", help.tool, ", made by: ", help.tool,
          " completion zsh\n", function, "() {\n  local -a commands\n  commands=(\n");
  for (const HelpPage& page : help.commands)
    out += Cat("    ", Quoted(Cat(CommandName(page), ":", WithoutColon(page.about))), "\n");
  out += "    'help:Tell what a command does'\n  )\n";
  out +=
      "  if (( CURRENT == 2 )); then\n    _describe -t commands command commands\n    return\n"
      "  fi\n  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  out += "    help) _describe -t commands command commands ;;\n";
  for (const HelpPage& page : help.commands) {
    out += Cat("    ", CommandName(page), ")\n      _arguments -S");
    for (const OptionHelp& o : page.options) out += ZshSpecification(o);
    out += " ;;\n";
  }
  return Cat(out, "  esac\n}\nif [[ $funcstack[1] == ", function, " ]]; then\n  ", function,
             " \"$@\"\nelse\n  compdef ", function, " ", help.tool, "\nfi\n");
}

}  // namespace infer
