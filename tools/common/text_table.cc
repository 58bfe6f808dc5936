#include "tools/common/text_table.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/terminal.h"

namespace infer {
namespace {

using TableRows = std::vector<std::vector<std::string>>;

constexpr size_t kGap = 2;          // between columns
constexpr size_t kLeastWidth = 10;  // to which a column is cut
constexpr std::string_view kCut = "\u2026";

std::vector<std::string>& WantedColumns() {
  static std::vector<std::string> heads;
  return heads;
}

bool BeginsCharacter(char c) { return (c & 0xc0) != 0x80; }

/// Display width of UTF-8 text: code points (no wide characters in our tables).
size_t WidthOf(const std::string& s) {
  return static_cast<size_t>(std::count_if(s.begin(), s.end(), BeginsCharacter));
}

bool LooksNumeric(const std::string& s) {
  return s.empty() || s == "-" || std::isdigit(static_cast<unsigned char>(s[0])) ||
         ((s[0] == '-' || s[0] == '+') && s.size() > 1);
}

std::string Lower(std::string s) {
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

/// `s` in `width` characters, a part of it as an ellipsis.
std::string Cut(const std::string& s, size_t width, bool keep_end) {
  const size_t all = WidthOf(s);
  if (all <= width) return s;
  size_t skip = keep_end ? all - width + 1 : width - 1, at = 0;
  while (at < s.size() && (skip > 0 || !BeginsCharacter(s[at]))) {
    if (BeginsCharacter(s[at])) --skip;
    ++at;
    while (at < s.size() && !BeginsCharacter(s[at])) ++at;
  }
  return keep_end ? Cat(kCut, s.substr(at)) : Cat(s.substr(0, at), kCut);
}

void KeepWantedColumns(TableRows& rows) {
  const std::vector<std::string>& wanted = WantedColumns();
  if (wanted.empty()) return;
  std::vector<bool> kept;
  for (const std::string& head : rows.front())
    kept.push_back(std::any_of(wanted.begin(), wanted.end(), [&](const std::string& glob) {
      return GlobMatch(Lower(glob), Lower(head));
    }));
  if (kept.empty() || std::none_of(kept.begin(), kept.end(), [](bool b) { return b; })) return;
  kept[0] = true;
  for (auto& row : rows) {
    std::vector<std::string> cells;
    for (size_t c = 0; c < row.size(); ++c)
      if (c >= kept.size() || kept[c]) cells.push_back(std::move(row[c]));
    row = std::move(cells);
  }
}

/// Takes from the widest columns of text until a line fits into `room`, or all are as narrow as
/// they may be.
void Narrow(std::vector<size_t>& width, const std::vector<bool>& numeric, size_t room) {
  const auto line = [&] {
    return std::accumulate(width.begin(), width.end(), kGap * (width.size() - 1));
  };
  while (line() > room) {
    size_t widest = width.size();
    for (size_t c = 0; c < width.size(); ++c)
      if (!numeric[c] && width[c] > kLeastWidth &&
          (widest == width.size() || width[c] > width[widest]))
        widest = c;
    if (widest == width.size()) return;
    --width[widest];
  }
}

}  // namespace

void SetTableColumns(std::vector<std::string> heads) { WantedColumns() = std::move(heads); }

std::string TextTable(TableRows rows) {
  if (rows.empty()) return {};
  KeepWantedColumns(rows);
  for (auto& row : rows)
    for (std::string& cell : row) cell = Printable(cell);
  std::vector<size_t> width;
  std::vector<bool> numeric;
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (c >= width.size()) {
        width.resize(c + 1, 0);
        numeric.resize(c + 1, true);
      }
      width[c] = std::max(width[c], WidthOf(rows[r][c]));
      if (r > 0 && !LooksNumeric(rows[r][c])) numeric[c] = false;
    }
  if (const size_t room = TerminalWidth(); room > 0 && !width.empty()) Narrow(width, numeric, room);
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string cell = Cut(row[c], width[c], c == 0);
      const std::string pad(width[c] - WidthOf(cell), ' ');
      if (c) line += std::string(kGap, ' ');
      line += numeric[c] ? pad + cell : cell + pad;
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace infer
