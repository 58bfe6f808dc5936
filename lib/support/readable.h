#pragma once
/// Numbers and names as people read them on a terminal. Not for files: reports carry whole numbers
/// and names as they are.
#include <string>
#include <string_view>

namespace infer {

/// Fixed notation with `digits` decimals.
std::string Fixed(double v, int digits);
/// With at most `digits` significant digits: 0.00123, 1.2e-07.
std::string Rounded(double v, int digits);
/// Which ends of lines stay as they are.
enum class EndsOfLine {
  kNone,
  kIndented,  ///< where the next line is indented, as our lists are: no name starts its own line
  kAll,
};
/// Control characters (a terminal would obey them) and bytes that are no UTF-8 as "\n", "\x1b".
std::string Printable(std::string_view text, EndsOfLine keep = EndsOfLine::kNone);

}  // namespace infer
