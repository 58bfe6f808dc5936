#pragma once
/// --help as text: options in groups, with what they take, wrapped to the terminal.
#include <string>
#include <vector>

namespace infer {

/// An option or argument as --help shows it.
struct OptionHelp {
  std::string names;     ///< "-o,--output"; of an argument "MODEL"
  std::string value;     ///< "FILE"; "" of a flag
  std::string help;      ///< one sentence
  std::string standard;  ///< the value without the option; "": none worth telling
  std::string group;
  bool is_argument = false;
  bool required = false;
  bool several = false;  ///< may be given more than once
  bool rare = false;     ///< shown by --help-all only
};

struct HelpPage {
  std::string command;  ///< "infer-opt fuse"
  std::string about;    ///< one line
  std::vector<OptionHelp> options;
  std::string examples;
  std::string explained, explained_rarely;  ///< behind the options; the latter by --help-all only
};

/// "--output" of "-o,--output".
std::string LongName(const std::string& names);
/// "infer-opt fuse MODEL [options]".
std::string UsageLine(const HelpPage& page);
/// `width`: characters of a line. `all`: rare options, too.
std::string HelpText(const HelpPage& page, size_t width, bool all);

/// The commands of a tool, below `usage`.
struct CommandHelp {
  std::string name, about;
};
std::string ToolHelpText(const std::string& tool, const std::string& about,
                         const std::vector<CommandHelp>& commands, size_t width);

}  // namespace infer
