#pragma once
/// Colour and width, where people look and want it.
#include <string>
#include <string_view>

namespace infer {

/// Standard output is a terminal that shows colours, and NO_COLOR (no-color.org) is not set.
bool ColourOnStdout();

enum class Style { kBold, kFaint, kGreen, kYellow, kRed, kCyan };
/// `text` in this style; unchanged where `on` is false.
std::string Styled(std::string_view text, Style style, bool on = ColourOnStdout());

/// Characters of a line of the terminal that `stream` (1 or 2) writes to; where it is none, what
/// COLUMNS says; 0 where nobody says.
size_t TerminalWidth(int stream = 1);

}  // namespace infer
