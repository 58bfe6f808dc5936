#include "tools/common/completion.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// "a|-b|--c) " before what bash does there.
std::string BashCase(const std::vector<std::string>& patterns, const std::string& body,
                     const std::string& indent) {
  return patterns.empty() ? "" : Cat(indent, Join(patterns, "|"), ") ", body, " ;;\n");
}

/// The options of a page by what completes their value.
struct BashKinds {
  std::vector<std::string> all, files, folders, free;
  std::string choices;  // cases
  std::string argument = "none";
  std::vector<std::string> argument_words;
};

BashKinds BashKindsOf(const HelpPage& page) {
  BashKinds k;
  for (const OptionHelp& o : page.options) {
    if (o.is_argument) {
      if (TakesFile(o)) k.argument = "file";
      k.argument_words.insert(k.argument_words.end(), o.choices.begin(), o.choices.end());
      continue;
    }
    const std::vector<std::string> names = Split(o.names, ',');
    k.all.insert(k.all.end(), names.begin(), names.end());
    if (o.value.empty() || TakesOptionalValue(o)) continue;
    if (!o.choices.empty()) {
      k.choices += BashCase(names, Cat("words=", Quoted(Join(o.choices, " "))), "        ");
      continue;
    }
    auto& kind = TakesFolder(o) ? k.folders : TakesFile(o) ? k.files : k.free;
    kind.insert(kind.end(), names.begin(), names.end());
  }
  return k;
}

/// bash breaks words at "=", so that --option=val is three of them, and NAME=FILE as well.
constexpr std::string_view kBashWords = R"(
  COMPREPLY=()
  local cur=${COMP_WORDS[COMP_CWORD]} at=$COMP_CWORD prefix= option= kind= words= options=
  if [[ $cur == = ]]; then
    cur=
  elif [[ $at -gt 0 && ${COMP_WORDS[at - 1]} == = ]]; then
    at=$((at - 1))
  fi
  [[ $at -gt 0 ]] && option=${COMP_WORDS[at - 1]}
  if [[ ${COMP_WORDS[at]} == = && $option != -* && $at -gt 1 ]]; then
    option=${COMP_WORDS[at - 2]}
  fi
  if [[ $cur == --*=* ]]; then
    option=${cur%%=*} prefix=${cur%%=*}= cur=${cur#*=}
  fi
)";

constexpr std::string_view kBashReplies = R"(
  if [[ -z $words && -z $kind ]]; then
    if [[ $cur == -* ]]; then
      words=$options
    elif [[ $argument == file ]]; then
      kind=file
    else
      words=$argument
    fi
  fi
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$words" -- "$cur")
  elif [[ $kind == file ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -P "$prefix" -f -- "$cur")
  elif [[ $kind == folder ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -P "$prefix" -d -- "$cur")
  fi
}
)";

std::string BashCommand(const HelpPage& page) {
  const BashKinds k = BashKindsOf(page);
  std::string argument = k.argument;
  if (!k.argument_words.empty()) argument = Join(k.argument_words, " ");
  if (argument == "none") argument.clear();
  std::string out =
      Cat("    ", CommandName(page), ")\n      options=", Quoted(Join(k.all, " ")), "\n");
  out += Cat("      argument=", Quoted(argument), "\n      case $option in\n", k.choices);
  out += BashCase(k.files, "kind=file", "        ");
  out += BashCase(k.folders, "kind=folder", "        ");
  out += BashCase(k.free, "kind=none", "        ");
  return out + "      esac ;;\n";
}

}  // namespace

std::string ShellFunction(const std::string& tool) {
  std::string name = "_" + tool;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string MenuText(const std::string& help) {
  constexpr size_t kMost = 80;
  std::string text = help.substr(0, help.find('\n'));
  if (const size_t end = text.find_first_of(";:"); end != text.npos && end > 10) text.resize(end);
  if (text.size() <= kMost) return text;
  const size_t space = text.rfind(' ', kMost);
  return text.substr(0, space == text.npos ? kMost : space) + " ...";
}

std::string BashCompletion(const ToolHelp& help) {
  std::vector<std::string> names;
  for (const HelpPage& page : help.commands) names.push_back(CommandName(page));
  const std::string function = ShellFunction(help.tool);
  std::string out = Cat("# bash completion for ", help.tool, ", made by: ", help.tool,
                        " completion bash\n", function, "() {", kBashWords, "  local argument=\n");
  out += Cat("  if [[ $COMP_CWORD -le 1 ]]; then\n    words=",
             Quoted(Join(names, " ") + " help --help --version"), "\n  fi\n");
  out += "  [[ $COMP_CWORD -gt 1 ]] && case ${COMP_WORDS[1]} in\n";
  out += Cat("    help) kind=none words=", Quoted(Join(names, " ")), " ;;\n");
  for (const HelpPage& page : help.commands) out += BashCommand(page);
  return Cat(out, "  esac\n", kBashReplies, "complete -F ", function, " ", help.tool, "\n");
}

std::string CompletionScript(const std::string& shell, const ToolHelp& help) {
  if (shell == "zsh") return ZshCompletion(help);
  return shell == "fish" ? FishCompletion(help) : BashCompletion(help);
}

}  // namespace infer
