#include "tools/common/usage.h"

#include <algorithm>
#include <cctype>

#include "lib/support/similar.h"
#include "lib/support/strings.h"

namespace infer {

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

Status CheckCommandName(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& names) {
  if (arguments.empty())
    return InvalidArgument(
        Cat("a command is missing; there are: ", Join(names, ", "), " (--help says more)"));
  if (arguments.front().starts_with('-')) return {};
  if (std::find(names.begin(), names.end(), arguments.front()) != names.end()) return {};
  return InvalidArgument(Cat("there is no command '", arguments.front(), "'; there are: ",
                             Join(names, ", "), DidYouMean(arguments.front(), names)));
}

void TakeHelpCommand(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "help") return;
  arguments.erase(arguments.begin());
  if (arguments.empty() || arguments[0].starts_with('-'))
    arguments = {"--help"};
  else
    arguments.emplace_back("--help");
}

std::string InOwnWords(const ParseFailure& failure, const HelpPage& page) {
  const std::string& message = failure.message;
  std::vector<std::string> names;
  for (const OptionHelp& o : page.options)
    if (!o.is_argument)
      for (const std::string& name : Split(o.names, ',')) names.push_back(name);
  const std::string more = Cat(" (", page.command, " --help lists the options)");
  for (const std::string& given : failure.rest) {
    const std::string name = given.substr(0, given.find('='));
    if (name.size() > 1 && name[0] == '-')
      return Cat("there is no option ", name, DidYouMean(name, names), more);
  }
  const std::string first = message.substr(0, message.find_first_of(": "));
  for (const OptionHelp& o : page.options) {
    const bool named = o.is_argument ? Upper(first) == o.names : LongName(o.names) == first;
    if (!named) continue;
    if (failure.kind == "RequiredError")
      return Cat(o.names, " is missing: ", UsageLine(page), more);
    if (failure.kind == "ArgumentMismatch")
      return Cat(first, o.value.empty() ? " takes no value" : Cat(" needs a value: ", first, " "),
                 o.value);
  }
  if (!failure.rest.empty())
    return Cat("'", failure.rest.front(), "' is one argument too many: ", UsageLine(page));
  return message;
}

}  // namespace infer
