#include "tools/common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/support/strings.h"

namespace infer {

bool ColourOnStdout() {
  const char *none = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  if (none && *none) return false;
  if (!terminal || !*terminal || std::string_view(terminal) == "dumb") return false;
  return ::isatty(STDOUT_FILENO) != 0;
}

std::string Styled(std::string_view text, Style style, bool on) {
  if (!on || text.empty()) return std::string(text);
  int code = 0;
  switch (style) {
    case Style::kBold: code = 1; break;
    case Style::kFaint: code = 2; break;
    case Style::kGreen: code = 32; break;
    case Style::kYellow: code = 33; break;
    case Style::kRed: code = 31; break;
    case Style::kCyan: code = 36; break;
  }
  return Cat("\x1b[", code, "m", text, "\x1b[0m");
}

size_t TerminalWidth(int stream) {
  winsize size{};
  if (::isatty(stream) && ::ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const auto n = ParseInt(columns ? columns : "");
  return n && *n > 0 && *n < 10000 ? static_cast<size_t>(*n) : 0;
}

}  // namespace infer
