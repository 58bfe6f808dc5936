#pragma once
/// Tables for people, in text.
#include <string>
#include <vector>

namespace infer {

/// An aligned text table; the first row is the header. Columns of numbers are right-aligned;
/// control characters are escaped. Where the terminal is narrower, columns of text are cut: the
/// first (names) at its beginning, others at their end.
std::string TextTable(std::vector<std::vector<std::string>> rows);

/// The columns that tables show beside their first: globs of heads, upper and lower case being one;
/// none: all. Of the process, for --columns, before any table is made. A table that has none of
/// them shows all.
void SetTableColumns(std::vector<std::string> heads);

}  // namespace infer
