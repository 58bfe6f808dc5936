#pragma once
/// Colour, where people look and want it.
#include <string>
#include <string_view>

namespace infer {

/// Standard output is a terminal that shows colours, and NO_COLOR (no-color.org) is not set.
bool ColourOnStdout();

enum class Style { kBold, kFaint, kGreen, kYellow, kRed, kCyan };
/// `text` in this style; unchanged where `on` is false.
std::string Styled(std::string_view text, Style style, bool on = ColourOnStdout());

}  // namespace infer
