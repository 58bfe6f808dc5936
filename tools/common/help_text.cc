#include "tools/common/help_text.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr size_t kLeft = 27;    // of the column of names, where the line is wide enough
constexpr size_t kNarrow = 56;  // below, help stands under the names
constexpr size_t kIndent = 6;   // of help under the names
constexpr size_t kLeast = 24;   // what a line holds however narrow the terminal is

/// The words of `text` in lines of `width`, each behind `indent` spaces but for the first.
std::string Wrapped(const std::string& text, size_t indent, size_t width) {
  const size_t room = std::max(kLeast, width > indent ? width - indent : 0);
  std::string out;
  size_t used = 0;
  for (const std::string& word : Split(text, ' ')) {
    if (word.empty()) continue;
    if (used > 0 && used + 1 + word.size() > room) {
      out += "\n" + std::string(indent, ' ');
      used = 0;
    }
    if (used > 0) out += ' ', ++used;
    out += word;
    used += word.size();
  }
  return out;
}

/// `left`, then `text` in a column of its own, or below where the line is narrow.
std::string Row(std::string left, const std::string& text, size_t width) {
  if (width < kNarrow)
    return Cat(left, "\n", std::string(kIndent, ' '), Wrapped(text, kIndent, width), "\n");
  if (left.size() + 2 > kLeft)
    left += "\n" + std::string(kLeft, ' ');
  else
    left.resize(kLeft, ' ');
  return Cat(left, Wrapped(text, kLeft, width), "\n");
}

/// "  -o, --output FILE".
std::string Left(const OptionHelp& o) {
  if (o.is_argument) return Cat("  ", o.names, o.several ? "..." : "");
  std::string names;
  for (const std::string& name : Split(o.names, ','))
    names += (names.empty() ? (name.starts_with("--") ? "      " : "  ") : ", ") + name;
  return o.value.empty() ? names : Cat(names, o.value.starts_with("[") ? "" : " ", o.value);
}

std::string Right(const OptionHelp& o) {
  return Cat(o.help, o.standard.empty() ? "" : Cat(" (default: ", o.standard, ")"));
}

/// Paragraphs of examples and explanations keep their lines.
std::string Kept(const std::string& text) {
  return text.empty() || text.ends_with('\n') ? text : text + "\n";
}

}  // namespace

std::string CommandName(const HelpPage& page) {
  return page.command.substr(page.command.rfind(' ') + 1);
}

std::string LongName(const std::string& names) { return names.substr(names.rfind(',') + 1); }

std::string UsageLine(const HelpPage& page) {
  std::string out = page.command;
  for (const OptionHelp& o : page.options) {
    if (!o.is_argument) continue;
    const std::string name = Cat(o.names, o.several ? "..." : "");
    out += o.required ? Cat(" ", name) : Cat(" [", name, "]");
  }
  return out + " [options]";
}

std::string HelpText(const HelpPage& page, size_t width, bool all) {
  std::string out = Cat("Usage: ", UsageLine(page), "\n\n", Wrapped(page.about, 0, width), "\n");
  std::vector<std::string> groups;
  int64_t left_out = 0;
  for (const OptionHelp& o : page.options) {
    if (o.rare && !all) ++left_out;
    if ((!o.rare || all) && std::find(groups.begin(), groups.end(), o.group) == groups.end())
      groups.push_back(o.group);
  }
  for (const std::string& group : groups) {
    out += Cat("\n", group, ":\n");
    for (const OptionHelp& o : page.options)
      if (o.group == group && (!o.rare || all)) out += Row(Left(o), Right(o), width);
  }
  if (left_out > 0) out += Cat("\n", left_out, " more options: ", page.command, " --help-all\n");
  if (!page.examples.empty()) out += Cat("\n", Kept(page.examples));
  if (!page.explained.empty()) out += Cat("\n", Kept(page.explained));
  if (all && !page.explained_rarely.empty()) out += Cat("\n", Kept(page.explained_rarely));
  return out;
}

std::string ToolHelpText(const ToolHelp& help, size_t width) {
  std::string out = Cat("Usage: ", help.tool, " COMMAND [options]\n\n",
                        Wrapped(help.about, 0, width), "\n\nCommands:\n");
  for (const HelpPage& page : help.commands)
    out += Row(Cat("  ", CommandName(page)), page.about, width);
  out += "\nOptions:\n";
  out +=
      Row("  -h, --help", Cat("This text; ", help.tool, " help COMMAND: that of a command"), width);
  out += Row("  -V, --version", "The version", width);
  return out;
}

}  // namespace infer
