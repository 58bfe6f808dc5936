#include "quant/prune/pattern.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using Kind = SparsityPattern::Kind;

/// Two numbers of 1 to 256 around `between`.
bool ParsePair(std::string_view text, char between, int64_t& a, int64_t& b) {
  const size_t at = text.find(between);
  if (at == std::string_view::npos) return false;
  for (const auto& [part, number] :
       {std::pair(text.substr(0, at), &a), {text.substr(at + 1), &b}}) {
    if (part.empty() || part.size() > 3) return false;
    int64_t n = 0;
    for (const char c : part) {
      if (c < '0' || c > '9') return false;
      n = 10 * n + (c - '0');
    }
    *number = n;
  }
  return a <= 256 && b <= 256;
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Neighbours along the depth in one unit.
int64_t UnitColumns(const SparsityPattern& p) {
  return p.kind == Kind::kNm ? p.m : p.kind == Kind::kBlocks ? p.block_columns : 1;
}
int64_t UnitRows(const SparsityPattern& p) { return p.kind == Kind::kBlocks ? p.block_rows : 1; }

/// Calls f(first column, columns) for the units along [begin, end) of the depth.
template <typename F>
void ForColumns(const WeightPlane& plane, const SparsityPattern& p, int64_t begin, int64_t end,
                F f) {
  const int64_t step = UnitColumns(p);
  for (int64_t at = begin; at < end;) {
    const int64_t left = plane.channels - at % plane.channels;
    const int64_t count = std::min({step, left, end - at});
    f(at, count);
    at += count;
  }
}

struct ScoredUnit {
  float score;
  int64_t row, column, columns;
  bool operator<(const ScoredUnit& o) const {
    return std::tie(score, row, column) < std::tie(o.score, o.row, o.column);
  }
};

/// Rows of the unit that begins at `row`: it ends with its group.
int64_t RowsOfUnit(const WeightPlane& plane, const SparsityPattern& p, int64_t row) {
  return std::min(UnitRows(p), plane.rows - row % plane.rows);
}

template <typename F>
void ForUnits(const WeightPlane& plane, const SparsityPattern& p, int64_t begin, int64_t end, F f) {
  for (int64_t row = 0; row < plane.all_rows(); row += RowsOfUnit(plane, p, row))
    ForColumns(plane, p, begin, end,
               [&](int64_t column, int64_t columns) { f(row, column, columns); });
}

float SumOfUnit(const WeightPlane& plane, const SparsityPattern& p, std::span<const float> scores,
                int64_t row, int64_t column, int64_t columns) {
  float sum = 0;
  for (int64_t r = row; r < row + RowsOfUnit(plane, p, row); ++r)
    for (int64_t c = column; c < column + columns; ++c)
      sum += scores[static_cast<size_t>(r * plane.depth() + c)];
  return sum;
}

/// Of each group all but the n best become zero; of equal scores the first go.
void DropOfGroups(const WeightPlane& plane, const SparsityPattern& p, std::span<const float> scores,
                  int64_t begin, int64_t end, std::span<uint8_t> keep) {
  std::vector<std::pair<float, size_t>> group;
  ForUnits(plane, p, begin, end, [&](int64_t row, int64_t column, int64_t columns) {
    if (columns <= p.n) return;
    group.clear();
    for (int64_t c = 0; c < columns; ++c) {
      const auto i = static_cast<size_t>(row * plane.depth() + column + c);
      group.emplace_back(scores[i], i);
    }
    std::sort(group.begin(), group.end());
    for (int64_t c = 0; c < columns - p.n; ++c) keep[group[static_cast<size_t>(c)].second] = 0;
  });
}

}  // namespace

std::string ToString(const SparsityPattern& p) {
  if (p.kind == Kind::kNm) return Cat(p.n, ":", p.m);
  const std::string share = Cat(Rounded(100 * p.share, 4), " %");
  if (p.kind == Kind::kUnstructured) return share + " unstructured";
  return Cat(share, " in blocks of ", p.block_rows, "x", p.block_columns);
}

Result<SparsityPattern> ParseNm(std::string_view text) {
  SparsityPattern p;
  p.kind = Kind::kNm;
  if (!ParsePair(text, ':', p.n, p.m) || p.m < 1)
    return InvalidArgument(Cat("'", text, "' is no N:M pattern: write 2:4, 1 to 256 each"));
  if (p.n == 0)
    return InvalidArgument(Cat("'", text, "' leaves no weight: N of each M weights stay"));
  if (p.n >= p.m)
    return InvalidArgument(Cat("'", text,
                               "' prunes nothing: N of each M weights stay, so N is "
                               "less than M"));
  return p;
}

Result<SparsityPattern> ParseBlocks(std::string_view text) {
  SparsityPattern p;
  p.kind = Kind::kBlocks;
  if (!ParsePair(text, 'x', p.block_rows, p.block_columns) || p.block_rows < 1 ||
      p.block_columns < 1)
    return InvalidArgument(Cat("'", text,
                               "' is no block: write outputs x inputs, as 1x4 or 16x1, "
                               "1 to 256 each"));
  if (p.block_rows * p.block_columns == 1)
    return InvalidArgument("blocks of 1x1 are single weights: leave the blocks out");
  return p;
}

Status CheckShare(double share) {
  if (share > 0 && share < 1) return {};
  return InvalidArgument(Cat("a sparsity of ", Rounded(100 * share, 6), " % ",
                             share >= 1 ? "leaves no weight" : "prunes nothing",
                             ": it is above 0 % and below 100 %"));
}

int64_t ZerosIn(const KeepMask& keep) {
  return static_cast<int64_t>(std::count(keep.begin(), keep.end(), uint8_t{0}));
}

int64_t UnitsWithin(const WeightPlane& plane, const SparsityPattern& p, int64_t begin,
                    int64_t end) {
  int64_t columns = 0;
  if (UnitColumns(p) == 1) {
    columns = end - begin;
  } else {
    ForColumns(plane, p, begin, end, [&](int64_t, int64_t) { ++columns; });
  }
  return columns * plane.groups * CeilDiv(plane.rows, UnitRows(p));
}

int64_t UnitsOf(const WeightPlane& plane, const SparsityPattern& p) {
  return UnitsWithin(plane, p, 0, plane.depth());
}

int64_t UnitsToZero(int64_t units, const SparsityPattern& p) {
  if (p.kind == Kind::kNm) return units;
  return std::llround(p.share * static_cast<double>(units));
}

int64_t NmZeros(const WeightPlane& plane, const SparsityPattern& p) {
  const int64_t whole = plane.channels / p.m, rest = plane.channels % p.m;
  const int64_t of_tap = whole * (p.m - p.n) + std::max<int64_t>(rest - p.n, 0);
  return of_tap * plane.taps * plane.all_rows();
}

std::vector<float> UnitScores(const WeightPlane& plane, const SparsityPattern& p,
                              std::span<const float> scores) {
  std::vector<float> sums;
  sums.reserve(static_cast<size_t>(UnitsOf(plane, p)));
  ForUnits(plane, p, 0, plane.depth(), [&](int64_t row, int64_t column, int64_t columns) {
    sums.push_back(SumOfUnit(plane, p, scores, row, column, columns));
  });
  return sums;
}

std::string WhyNotWhole(const WeightPlane& plane, const SparsityPattern& p) {
  if (plane.channels < UnitColumns(p))
    return Cat("it sums over ", plane.channels, plane.channels == 1 ? " channel" : " channels",
               plane.groups > 1 ? " per group" : "", ", fewer than the ", UnitColumns(p),
               p.kind == Kind::kNm ? " of a group" : " of a block");
  if (plane.rows < UnitRows(p))
    return Cat("it has ", plane.rows, plane.rows == 1 ? " output" : " outputs",
               plane.groups > 1 ? " per group" : "", ", fewer than the ", UnitRows(p),
               " of a block");
  return "";
}

std::vector<int64_t> DepthCuts(const WeightPlane& plane, const SparsityPattern& p, int64_t least) {
  std::vector<int64_t> cuts = {0};
  ForColumns(plane, p, 0, plane.depth(), [&](int64_t column, int64_t columns) {
    const int64_t end = column + columns;
    if (end - cuts.back() >= least || end == plane.depth()) cuts.push_back(end);
  });
  return cuts;
}

void DropLeast(const WeightPlane& plane, const SparsityPattern& p, std::span<const float> scores,
               int64_t begin, int64_t end, int64_t units, std::span<uint8_t> keep) {
  if (p.kind == Kind::kNm) return DropOfGroups(plane, p, scores, begin, end, keep);
  if (units <= 0) return;
  std::vector<ScoredUnit> all;
  all.reserve(static_cast<size_t>(UnitsWithin(plane, p, begin, end)));
  ForUnits(plane, p, begin, end, [&](int64_t row, int64_t column, int64_t columns) {
    all.push_back({SumOfUnit(plane, p, scores, row, column, columns), row, column, columns});
  });
  const auto last = all.begin() + static_cast<std::ptrdiff_t>(units);
  if (last != all.end()) std::nth_element(all.begin(), last, all.end());
  for (auto u = all.begin(); u != last; ++u)
    for (int64_t r = u->row; r < u->row + RowsOfUnit(plane, p, u->row); ++r)
      for (int64_t c = u->column; c < u->column + u->columns; ++c)
        keep[static_cast<size_t>(r * plane.depth() + c)] = 0;
}

KeepMask KeepBest(const WeightPlane& plane, const SparsityPattern& p, std::span<const float> scores,
                  int64_t units) {
  KeepMask keep(static_cast<size_t>(plane.size()), 1);
  DropLeast(plane, p, scores, 0, plane.depth(), units, keep);
  return keep;
}

KeepMask KeepBestOfRows(const WeightPlane& plane, std::span<const float> scores, int64_t units) {
  KeepMask keep(static_cast<size_t>(plane.size()), 1);
  const WeightPlane row_plane{1, 1, plane.channels, plane.taps};
  const SparsityPattern single;
  KeepMask row(static_cast<size_t>(plane.depth()));
  int64_t done = 0;
  for (int64_t r = 0; r < plane.all_rows(); ++r) {
    const int64_t until =
        units / plane.all_rows() * (r + 1) + units % plane.all_rows() * (r + 1) / plane.all_rows();
    std::fill(row.begin(), row.end(), uint8_t{1});
    const auto at = static_cast<size_t>(r * plane.depth());
    DropLeast(row_plane, single, scores.subspan(at, row.size()), 0, plane.depth(), until - done,
              row);
    std::copy(row.begin(), row.end(), keep.begin() + static_cast<std::ptrdiff_t>(at));
    done = until;
  }
  return keep;
}

}  // namespace infer
