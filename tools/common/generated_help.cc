#include "tools/common/generated_help.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "lib/support/file.h"
#include "lib/support/similar.h"
#include "lib/support/strings.h"
#include "tools/common/completion.h"
#include "tools/common/man_page.h"

namespace infer {
namespace {

const std::vector<std::string>& ShellNames() {
  static const std::vector<std::string> shells(kShells.begin(), kShells.end());
  return shells;
}

std::string DateOfPages() {
  std::time_t seconds = std::time(nullptr);
  if (const char* given = std::getenv("SOURCE_DATE_EPOCH"))
    if (const auto n = ParseInt(given)) seconds = static_cast<std::time_t>(*n);
  std::tm utc{};
  char text[16];
  if (!gmtime_r(&seconds, &utc)) return "";
  return std::string(text, std::strftime(text, sizeof(text), "%F", &utc));
}

Result<std::string> WriteManPages(const std::string& folder, const ToolHelp& help) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return IoError(Cat("cannot make ", folder, ": ", error.message()));
  std::string out;
  for (const auto& [name, text] : ManPages(help, DateOfPages())) {
    const std::string path = Cat(folder, "/", name);
    INFER_TRY(WriteFileAtomically(path, text));
    out += Cat("wrote ", path, "\n");
  }
  return out;
}

Result<std::string> RequestedCompletion(const std::vector<std::string>& arguments,
                                        const ToolHelp& help) {
  const std::string usage = Cat("; usage: ", help.tool, " completion ", Join(ShellNames(), "|"));
  if (arguments.size() < 2) return InvalidArgument("a shell is missing" + usage);
  if (arguments.size() > 2)
    return InvalidArgument(Cat("'", arguments[2], "' is one argument too many", usage));
  if (std::find(ShellNames().begin(), ShellNames().end(), arguments[1]) == ShellNames().end())
    return InvalidArgument(Cat("'", arguments[1], "' is none of ", Join(ShellNames(), ", "),
                               DidYouMean(arguments[1], ShellNames())));
  return CompletionScript(arguments[1], help);
}

}  // namespace

HelpPage CompletionPage(const std::string& tool) {
  HelpPage page;
  page.command = tool + " completion";
  page.about = "Print a completion script for bash, zsh or fish";
  page.options = {
      {.names = "SHELL",
       .value = "",
       .help = Join(ShellNames(), ", "),
       .standard = "",
       .group = "Arguments",
       .is_argument = true,
       .required = true,
       .choices = ShellNames()},
      {.names = "-h,--help", .value = "", .help = "This text", .standard = "", .group = "Options"}};
  page.examples = Cat("Examples:\n  source <(", tool, " completion bash)\n  ", tool,
                      " completion bash > ~/.local/share/bash-completion/completions/", tool,
                      "\n  ", tool, " completion zsh > \"${fpath[1]}/_", tool, "\"\n  ", tool,
                      " completion fish > ~/.config/fish/completions/", tool, ".fish\n");
  return page;
}

std::optional<Result<std::string>> GeneratedHelp(const std::vector<std::string>& arguments,
                                                 const ToolHelp& help) {
  if (arguments.empty()) return std::nullopt;
  const bool is_question = std::any_of(arguments.begin(), arguments.end(), [](const auto& a) {
    return a == "-h" || a == "--help" || a == "--help-all";
  });
  if (arguments[0] == "completion" && !is_question) return RequestedCompletion(arguments, help);
  if (arguments[0] != "help" || arguments.size() < 2 || arguments[1] != "--man")
    return std::nullopt;
  if (arguments.size() != 3) return InvalidArgument("help --man DIR: one folder");
  return WriteManPages(arguments[2], help);
}

}  // namespace infer
