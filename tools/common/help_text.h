#pragma once
/// --help as text: options in groups, with what they take, wrapped to the terminal.
#include <string>
#include <vector>

namespace infer {

/// What a command does with the file or folder that an option names (tools/common/paths.h).
enum class PathUse {
  kNone,  ///< names no file
  kRead,
  kWrite,
  kWriteFolder,  ///< made where it is missing; files are written into it
};

/// An option or argument as --help shows it.
struct OptionHelp {
  std::string names;     ///< "-o,--output"; of an argument "MODEL"
  std::string value;     ///< "FILE"; "" of a flag
  std::string help;      ///< one sentence
  std::string standard;  ///< the value without the option; "": none worth telling
  std::string group;
  bool is_argument = false;
  bool required = false;
  bool several = false;                   ///< may be given more than once
  bool rare = false;                      ///< shown by --help-all only
  std::vector<std::string> choices = {};  ///< values that completion offers
  PathUse path = PathUse::kNone;
};

struct HelpPage {
  std::string command;  ///< "infer-opt fuse"
  std::string about;    ///< one line
  std::vector<OptionHelp> options;
  std::string examples;
  std::string explained, explained_rarely;  ///< behind the options; the latter by --help-all only
};

/// A tool with all its commands, for manual pages and completion.
struct ToolHelp {
  std::string tool, about;
  std::vector<HelpPage> commands;
};

/// "fuse" of "infer-opt fuse".
std::string CommandName(const HelpPage& page);
/// The value is not a word of its own: "--plan", "--plan=STEP".
inline bool TakesOptionalValue(const OptionHelp& o) { return o.value.starts_with("["); }
/// A folder is meant, or a file.
inline bool TakesFolder(const OptionHelp& o) {
  return o.path == PathUse::kWriteFolder || o.value == "DIR";
}
inline bool TakesFile(const OptionHelp& o) {
  return !TakesFolder(o) && (o.path != PathUse::kNone || o.value == "FILE");
}
/// "--output" of "-o,--output".
std::string LongName(const std::string& names);
/// "infer-opt fuse MODEL [options]".
std::string UsageLine(const HelpPage& page);
/// `width`: characters of a line. `all`: rare options, too.
std::string HelpText(const HelpPage& page, size_t width, bool all);

/// The tool's own --help: its commands.
std::string ToolHelpText(const ToolHelp& help, size_t width);

}  // namespace infer
