#pragma once
/// What is wrong with a command line, in our words.
#include <string>
#include <vector>

#include "lib/support/status.h"
#include "tools/common/help_text.h"

namespace infer {

std::string Upper(std::string text);

/// InvalidArgument, with similar names, where the first argument is no command, or none stands.
Status CheckCommandName(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& commands);

/// "help", "help CMD" and "help --all" as "--help" and "CMD --help".
void TakeHelpCommand(std::vector<std::string>& arguments);

/// What a parser says of a command line.
struct ParseFailure {
  std::string kind;               ///< "RequiredError", "ArgumentMismatch", ... of CLI11
  std::string message;            ///< begins with the name of the option
  std::vector<std::string> rest;  ///< arguments that fit nothing
};
std::string InOwnWords(const ParseFailure& failure, const HelpPage& page);

}  // namespace infer
