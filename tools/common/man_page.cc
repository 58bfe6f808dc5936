#include "tools/common/man_page.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "tools/common/usage.h"
#include "tools/common/version.h"

namespace infer {
namespace {

struct ManEntry {
  const char *name, *what;
};

/// docs/cli.md says it at length.
constexpr ManEntry kExitStatus[] = {
    {"0", "Success."},
    {"1", "A gate failed: accuracy, comparison, target, or what the command checks."},
    {"2", "Usage: an option, value or name that is unknown or contradicts another."},
    {"3", "Bad input: a model, data, label or config file that is broken or does not fit."},
    {"4", "Unsupported: an operator, type or device."},
    {"5", "The system refused to read or write."},
    {"6", "Inconclusive: a gate that the data or the time measured cannot decide."},
    {"70", "An internal error."},
    {"71", "Out of memory or threads."},
    {"124", "The time of --timeout passed."},
    {"128+n", "Ended by signal n."},
};

constexpr ManEntry kEnvironment[] = {
    {"XDG_CACHE_HOME", "Folder of choices that --tune keeps; else ~/.cache."},
    {"NO_COLOR", "Where it is set, no colours on a terminal either."},
    {"OMP_WAIT_POLICY", "passive: threads sleep between loops at once; active: they never do."},
    {"OMP_PLACES, OMP_PROC_BIND", "Where threads run; set by --pin unless set already."},
};

/// `text` as roff reads it: everything means itself. `plain`: hyphens may be typographic ones.
std::string Roff(std::string_view text, bool plain = false) {
  std::string out;
  if (!text.empty() && (text[0] == '.' || text[0] == '\'')) out += "\\&";
  for (const char c : text) switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += plain ? "-" : "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '`': out += "\\(ga"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      case '"': out += "\\(dq"; break;
      default: out += c;
    }
  return out;
}

/// A paragraph: in words that hold more than letters, a hyphen is the character of the keyboard.
std::string Prose(const std::string& text) {
  std::string out;
  for (const std::string& word : Split(text, ' ')) {
    if (word.empty()) continue;
    const bool is_word = !word.starts_with('-') && word.find_first_of("=/_.<>|*{") == word.npos;
    out += Cat(out.empty() ? "" : " ", Roff(word, is_word));
  }
  return out.empty() ? out : Cat(out.starts_with('.') ? "\\&" : "", out, "\n");
}

/// Lines as they stand.
std::string KeptLines(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  std::string out = ".nf\n";
  for (const std::string& line : Split(text, '\n')) out += Cat(Roff(line), "\n");
  return out + ".fi\n";
}

std::string ManHeading(const std::string& name, const std::string& page, const std::string& about,
                       const std::string& tool, const std::string& date) {
  return Cat(".TH ", Roff(Upper(page)), " 1 \"", date, "\" \"", Roff(tool), " ", kVersion, "\" \"",
             Roff(tool), " manual\"\n.SH NAME\n", Roff(name), " \\- ", Prose(about));
}

std::string ManEntryText(const std::string& tag, const std::string& text) {
  return Cat(".TP\n", tag, "\n", text.empty() ? "\\&\n" : text);
}

std::string OptionTag(const OptionHelp& o) {
  if (o.is_argument) return Cat("\\fI", Roff(o.names), "\\fR", o.several ? "..." : "");
  std::vector<std::string> names;
  for (const std::string& name : Split(o.names, ','))
    names.push_back(Cat("\\fB", Roff(name), "\\fR"));
  const char* space = TakesOptionalValue(o) ? "" : " ";
  return Cat(Join(names, ", "), o.value.empty() ? "" : Cat(space, "\\fI", Roff(o.value), "\\fR"));
}

std::string OptionText(const OptionHelp& o) {
  return Prose(Cat(o.help, o.standard.empty() ? "" : Cat(" (default: ", o.standard, ")"),
                   o.help.ends_with('.') || !o.standard.empty() ? "" : "."));
}

std::string OptionsOf(const HelpPage& page) {
  std::vector<std::string> groups;
  for (const OptionHelp& o : page.options)
    if (std::find(groups.begin(), groups.end(), o.group) == groups.end()) groups.push_back(o.group);
  std::string out = ".SH OPTIONS\n";
  for (const std::string& group : groups) {
    out += Cat(".SS ", Roff(group), "\n");
    for (const OptionHelp& o : page.options)
      if (o.group == group) out += ManEntryText(OptionTag(o), OptionText(o));
  }
  return out;
}

std::string ManSynopsis(const HelpPage& page) {
  std::string out = Cat(".SH SYNOPSIS\n\\fB", Roff(page.command), "\\fR");
  for (const OptionHelp& o : page.options) {
    if (!o.is_argument) continue;
    out += o.required ? Cat(" ", OptionTag(o)) : Cat(" [", OptionTag(o), "]");
  }
  return out + " [\\fIoptions\\fR]\n";
}

template <typename List>
std::string ManList(const char* title, const List& list) {
  std::string out = Cat(".SH ", title, "\n");
  for (const ManEntry& d : list)
    out += ManEntryText(Cat("\\fB", Roff(d.name), "\\fR"), Prose(d.what));
  return out;
}

std::string WithDashes(std::string command) {
  std::replace(command.begin(), command.end(), ' ', '-');
  return command;
}

std::string ManReference(const std::string& page) { return Cat("\\fB", Roff(page), "\\fR(1)"); }

std::string ManPageOf(const HelpPage& page, const ToolHelp& help, const std::string& date) {
  std::string examples = page.examples;
  if (examples.starts_with("Examples:\n")) examples.erase(0, examples.find('\n') + 1);
  std::string out =
      ManHeading(WithDashes(page.command), WithDashes(page.command), page.about, help.tool, date);
  out += ManSynopsis(page);
  out += Cat(".SH DESCRIPTION\n", Prose(page.about + "."));
  for (const std::string& text : {page.explained, page.explained_rarely})
    if (!text.empty()) out += Cat(".PP\n", KeptLines(text));
  out += OptionsOf(page);
  if (!examples.empty()) out += Cat(".SH EXAMPLES\n", KeptLines(examples));
  out += ManList("EXIT STATUS", kExitStatus);
  std::vector<std::string> others = {ManReference(help.tool)};
  for (const HelpPage& other : help.commands)
    if (&other != &page) others.push_back(ManReference(WithDashes(other.command)));
  return Cat(out, ".SH SEE ALSO\n", Join(others, ",\n"), "\n");
}

std::string ManPageOf(const ToolHelp& help, const std::string& date) {
  // NAME ends without a full stop (lexgrog).
  std::string about = help.about;
  while (about.ends_with('.')) about.pop_back();
  std::string out = ManHeading(help.tool, help.tool, about, help.tool, date);
  const std::string tool = Cat("\\fB", Roff(help.tool), "\\fR");
  out += Cat(".SH SYNOPSIS\n", tool, " \\fICOMMAND\\fR [\\fIoptions\\fR]\n.br\n", tool,
             " \\fBhelp\\fR [\\fICOMMAND\\fR]\n");
  out += Cat(".SH DESCRIPTION\n", Prose(help.about), ".SH COMMANDS\n");
  for (const HelpPage& page : help.commands)
    out += ManEntryText(ManReference(WithDashes(page.command)), Prose(page.about + "."));
  out +=
      Cat(".SH OPTIONS\n", ManEntryText("\\fB\\-h\\fR, \\fB\\-\\-help\\fR", "List the commands.\n"),
          ManEntryText("\\fB\\-V\\fR, \\fB\\-\\-version\\fR", "Print the version.\n"));
  return Cat(out, ManList("EXIT STATUS", kExitStatus), ManList("ENVIRONMENT", kEnvironment));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ManPages(const ToolHelp& help,
                                                          const std::string& date) {
  std::vector<std::pair<std::string, std::string>> pages = {
      {help.tool + ".1", ManPageOf(help, date)}};
  for (const HelpPage& page : help.commands)
    pages.emplace_back(WithDashes(page.command) + ".1", ManPageOf(page, help, date));
  return pages;
}

}  // namespace infer
