#include "tools/graph/layered.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace infer {
namespace {

constexpr int kOrderSweeps = 10, kPlaceSweeps = 20;
constexpr double kBendWeight = 8, kChainWeight = 6, kBoxWeight = 3, kBranchWeight = 0.1;

/// Which boxes lie under which: each pair of source and sink once, without those that close a
/// cycle.
struct Links {
  std::vector<std::vector<int>> above, below;
};

/// Boxes so that sources come first; where only cycles are left, the first box of the program.
std::vector<int> ProgramOrder(size_t boxes, const std::vector<std::vector<int>>& readers) {
  std::vector<int> waits(boxes, 0), order;
  for (const auto& sinks : readers)
    for (const int s : sinks) ++waits[static_cast<size_t>(s)];
  std::set<int> ready, left;
  for (size_t i = 0; i < boxes; ++i) {
    left.insert(static_cast<int>(i));
    if (waits[i] == 0) ready.insert(static_cast<int>(i));
  }
  while (!left.empty()) {
    const int next = ready.empty() ? *left.begin() : *ready.begin();
    ready.erase(next);
    left.erase(next);
    order.push_back(next);
    for (const int s : readers[static_cast<size_t>(next)])
      if (--waits[static_cast<size_t>(s)] == 0 && left.contains(s)) ready.insert(s);
  }
  return order;
}

class Layout {
 public:
  explicit Layout(const LevelToLay& level) : level_(level), boxes_(level.widths.size()) {}

  Rows Run() {
    Link();
    ChooseRows();
    MakePlaces();
    Order();
    GivePlaces();
    return Result();
  }

 private:
  bool IsFirst(size_t box) const { return !level_.first.empty() && level_.first[box]; }
  bool IsLast(size_t box) const { return !level_.last.empty() && level_.last[box]; }

  void Link() {
    std::vector<std::vector<int>> readers(boxes_);
    for (const Wire& w : level_.wires)
      for (const int s : w.sinks)
        if (s != w.source) readers[static_cast<size_t>(w.source)].push_back(s);
    for (auto& r : readers) {
      std::sort(r.begin(), r.end());
      r.erase(std::unique(r.begin(), r.end()), r.end());
    }
    order_ = ProgramOrder(boxes_, readers);
    std::vector<int> rank(boxes_);
    for (size_t i = 0; i < boxes_; ++i) rank[static_cast<size_t>(order_[i])] = static_cast<int>(i);
    links_.above.resize(boxes_);
    links_.below.resize(boxes_);
    for (size_t i = 0; i < boxes_; ++i)
      for (const int s : readers[i]) {
        if (rank[static_cast<size_t>(s)] < rank[i]) continue;
        links_.below[i].push_back(s);
        links_.above[static_cast<size_t>(s)].push_back(static_cast<int>(i));
      }
  }

  /// The longest path from above; then boxes that more wires leave than reach sink towards their
  /// readers.
  void ChooseRows() {
    row_.assign(boxes_, 0);
    const bool has_first =
        std::find(level_.first.begin(), level_.first.end(), true) != level_.first.end();
    for (const int b : order_) {
      const auto i = static_cast<size_t>(b);
      if (has_first && !IsFirst(i)) row_[i] = std::max(row_[i], 1);
      for (const int s : links_.below[i])
        row_[static_cast<size_t>(s)] = std::max(row_[static_cast<size_t>(s)], row_[i] + 1);
    }
    std::vector<int> made(boxes_, 0);
    for (const Wire& w : level_.wires) ++made[static_cast<size_t>(w.source)];
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const auto i = static_cast<size_t>(*it);
      if (IsFirst(i) || links_.below[i].empty()) continue;
      if (links_.above[i].size() >= static_cast<size_t>(std::max(made[i], 1))) continue;
      int lowest = std::numeric_limits<int>::max();
      for (const int s : links_.below[i]) lowest = std::min(lowest, row_[static_cast<size_t>(s)]);
      row_[i] = std::max(row_[i], lowest - 1);
    }
    int most = 0;
    for (size_t i = 0; i < boxes_; ++i) most = std::max(most, row_[i] + (IsLast(i) ? 0 : 1));
    for (size_t i = 0; i < boxes_; ++i)
      if (IsLast(i)) row_[i] = most;
    rows_ = boxes_ == 0 ? 0 : 1 + *std::max_element(row_.begin(), row_.end());
  }

  int SourceRow(const Wire& w) const { return row_[static_cast<size_t>(w.source)]; }
  int LowestSink(const Wire& w) const {
    int lowest = SourceRow(w);
    for (const int s : w.sinks) lowest = std::max(lowest, row_[static_cast<size_t>(s)]);
    return lowest;
  }

  /// Boxes are places 0 to boxes_ - 1, bends come behind them. The shortest wires bend first.
  void MakePlaces() {
    std::vector<size_t> shortest(level_.wires.size());
    std::iota(shortest.begin(), shortest.end(), size_t{0});
    const auto span = [&](size_t w) {
      return LowestSink(level_.wires[w]) - SourceRow(level_.wires[w]);
    };
    std::stable_sort(shortest.begin(), shortest.end(),
                     [&](size_t a, size_t b) { return span(a) < span(b); });
    int64_t left = static_cast<int64_t>(kMaxBendsPerBox) * static_cast<int64_t>(boxes_) + 1000;
    wire_of_.assign(boxes_, -1);
    place_row_ = row_;
    up_.resize(boxes_);
    down_.resize(boxes_);
    for (const size_t w : shortest) {
      const Wire& wire = level_.wires[w];
      const int from = SourceRow(wire), bends = std::max(0, LowestSink(wire) - from - 1);
      left -= bends;
      if (left < 0) break;
      Bend(static_cast<int>(w), wire, from, bends);
    }
  }

  void Bend(int w, const Wire& wire, int from, int bends) {
    const auto first = static_cast<int>(place_row_.size());
    int before = wire.source;
    for (int i = 0; i < bends; ++i) {
      place_row_.push_back(from + 1 + i);
      wire_of_.push_back(w);
      up_.emplace_back();
      down_.emplace_back();
      Join(before, first + i);
      before = first + i;
    }
    std::vector<int> sinks = wire.sinks;
    std::sort(sinks.begin(), sinks.end());
    sinks.erase(std::unique(sinks.begin(), sinks.end()), sinks.end());
    for (const int s : sinks) {
      const int row = row_[static_cast<size_t>(s)];
      if (row <= from) continue;
      Join(row == from + 1 ? wire.source : first + row - from - 2, s);
    }
  }

  void Join(int above, int below) {
    down_[static_cast<size_t>(above)].push_back(below);
    up_[static_cast<size_t>(below)].push_back(above);
  }

  void Order() {
    in_row_.assign(static_cast<size_t>(rows_), {});
    at_.assign(place_row_.size(), 0);
    for (const int b : order_)
      in_row_[static_cast<size_t>(row_[static_cast<size_t>(b)])].push_back(b);
    for (size_t p = boxes_; p < place_row_.size(); ++p)
      in_row_[static_cast<size_t>(place_row_[p])].push_back(static_cast<int>(p));
    for (const auto& row : in_row_) Number(row);
    auto best = in_row_;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int sweep = 0; sweep < kOrderSweeps && least > 0; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (int k = 1; k < rows_; ++k)
        SortByNeighbours(static_cast<size_t>(down ? k : rows_ - 1 - k), down ? up_ : down_);
      const int64_t crossings = Crossings();
      if (crossings >= least) continue;
      least = crossings;
      best = in_row_;
    }
    in_row_ = std::move(best);
    for (const auto& row : in_row_) Number(row);
  }

  void Number(const std::vector<int>& row) {
    for (size_t i = 0; i < row.size(); ++i) at_[static_cast<size_t>(row[i])] = static_cast<int>(i);
  }

  /// By the mean of the neighbours' positions; places without neighbours stay where they are.
  void SortByNeighbours(size_t r, const std::vector<std::vector<int>>& neighbours) {
    auto& row = in_row_[r];
    std::vector<std::pair<double, int>> keyed;
    for (const int p : row) {
      const auto& near = neighbours[static_cast<size_t>(p)];
      double sum = 0;
      for (const int n : near) sum += at_[static_cast<size_t>(n)];
      const double own = at_[static_cast<size_t>(p)];
      keyed.emplace_back(near.empty() ? own : sum / static_cast<double>(near.size()), p);
    }
    std::stable_sort(keyed.begin(), keyed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < row.size(); ++i) row[i] = keyed[i].second;
    Number(row);
  }

  int64_t Crossings() const {
    int64_t sum = 0;
    std::vector<int> below;
    for (int r = 0; r + 1 < rows_; ++r) {
      below.clear();
      for (const int p : in_row_[static_cast<size_t>(r)]) {
        const size_t from = below.size();
        for (const int n : down_[static_cast<size_t>(p)])
          below.push_back(at_[static_cast<size_t>(n)]);
        std::sort(below.begin() + static_cast<ptrdiff_t>(from), below.end());
      }
      sum += Inversions(below, in_row_[static_cast<size_t>(r) + 1].size());
    }
    return sum;
  }

  /// Pairs out of order, counted with a Fenwick tree.
  static int64_t Inversions(const std::vector<int>& values, size_t limit) {
    std::vector<int> tree(limit + 1, 0);
    int64_t sum = 0, seen = 0;
    for (const int v : values) {
      int64_t not_above = 0;
      for (auto i = static_cast<size_t>(v) + 1; i > 0; i &= i - 1) not_above += tree[i];
      sum += seen++ - not_above;
      for (auto i = static_cast<size_t>(v) + 1; i <= limit; i += i & (~i + 1)) ++tree[i];
    }
    return sum;
  }

  double WidthOf(int place) const {
    return static_cast<size_t>(place) < boxes_ ? level_.widths[static_cast<size_t>(place)] : 0;
  }
  bool IsBend(int place) const { return static_cast<size_t>(place) >= boxes_; }
  Place PlaceOf(int p) const {
    return {IsBend(p) ? -1 : p, IsBend(p) ? wire_of_[static_cast<size_t>(p)] : -1,
            x_.empty() ? 0 : x_[static_cast<size_t>(p)]};
  }
  double Between(int left, int right) const {
    return DistanceOf(PlaceOf(left), WidthOf(left), PlaceOf(right), WidthOf(right));
  }

  /// Every row towards its neighbours above, then below, in the end both at once.
  void GivePlaces() {
    x_.assign(place_row_.size(), 0);
    for (const auto& row : in_row_) {
      double x = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        if (i > 0) x += Between(row[i - 1], row[i]);
        x_[static_cast<size_t>(row[i])] = x;
      }
      for (const int p : row) x_[static_cast<size_t>(p)] -= x / 2;
    }
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      const bool down = sweep % 2 == 0, both = sweep >= kPlaceSweeps - 4;
      for (int k = 0; k < rows_; ++k)
        PlaceRow(in_row_[static_cast<size_t>(down ? k : rows_ - 1 - k)], down || both,
                 !down || both);
    }
  }

  /// Wires that pass rows are to be straight, then chains (no other neighbour between), then wires
  /// to the next row.
  double StraightnessOf(int p, int n) const {
    if (IsBend(p) && IsBend(n)) return kBendWeight;
    const bool p_above = place_row_[static_cast<size_t>(p)] < place_row_[static_cast<size_t>(n)];
    const int above = p_above ? p : n, below = p_above ? n : p;
    return down_[static_cast<size_t>(above)].size() == 1 &&
                   up_[static_cast<size_t>(below)].size() == 1
               ? kChainWeight
           : IsBend(p) || IsBend(n) ? kBranchWeight
                                    : kBoxWeight;
  }

  void PlaceRow(const std::vector<int>& row, bool use_above, bool use_below) {
    std::vector<double> wanted, weights, distances;
    for (size_t i = 0; i < row.size(); ++i) {
      const int p = row[i];
      double sum = 0, weight = 0;
      const auto add = [&](const std::vector<int>& near) {
        for (const int n : near) {
          const double w = StraightnessOf(p, n);
          sum += w * x_[static_cast<size_t>(n)];
          weight += w;
        }
      };
      if (use_above) add(up_[static_cast<size_t>(p)]);
      if (use_below) add(down_[static_cast<size_t>(p)]);
      wanted.push_back(weight > 0 ? sum / weight : x_[static_cast<size_t>(p)]);
      weights.push_back(weight > 0 ? weight : 0.01);
      if (i > 0) distances.push_back(Between(row[i - 1], p));
    }
    const std::vector<double> x = SpreadOut(wanted, weights, distances);
    for (size_t i = 0; i < row.size(); ++i) x_[static_cast<size_t>(row[i])] = x[i];
  }

  Rows Result() const {
    double left = std::numeric_limits<double>::max();
    for (size_t p = 0; p < x_.size(); ++p)
      left = std::min(left, x_[p] - WidthOf(static_cast<int>(p)) / 2);
    Rows rows;
    for (const auto& row : in_row_) {
      auto& out = rows.emplace_back();
      for (const int p : row) {
        out.push_back(PlaceOf(p));
        out.back().x -= left;
      }
    }
    return rows;
  }

  const LevelToLay& level_;
  size_t boxes_;
  std::vector<int> order_;
  Links links_;
  std::vector<int> row_;  // of a box
  int rows_ = 0;
  std::vector<int> place_row_, wire_of_;     // of a place
  std::vector<std::vector<int>> up_, down_;  // neighbours in the row above and below
  std::vector<std::vector<int>> in_row_;     // from left to right
  std::vector<int> at_;                      // position within the row
  std::vector<double> x_;
};

}  // namespace

double DistanceOf(const Place& left, double left_width, const Place& right, double right_width) {
  const bool bends = left.box < 0 && right.box < 0;
  return (left_width + right_width) / 2 + (bends ? kBendGap
                                           : left.box < 0 || right.box < 0
                                               ? (kBoxGap + kBendGap) / 2
                                               : kBoxGap);
}

std::vector<double> SpreadOut(std::span<const double> wanted, std::span<const double> weights,
                              std::span<const double> distances) {
  // With the distances taken off, places only need to ascend: blocks of equal places that would
  // descend are merged to their mean.
  struct Block {
    double sum, weight;
    size_t count;
    double mean() const { return sum / weight; }
  };
  std::vector<Block> blocks;
  double offset = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i > 0) offset += distances[i - 1];
    blocks.push_back({(wanted[i] - offset) * weights[i], weights[i], 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().weight += last.weight;
      blocks.back().count += last.count;
    }
  }
  std::vector<double> out;
  offset = 0;
  for (const Block& b : blocks)
    for (size_t k = 0; k < b.count; ++k) {
      if (!out.empty()) offset += distances[out.size() - 1];
      out.push_back(b.mean() + offset);
    }
  return out;
}

Rows LayOut(const LevelToLay& level) { return Layout(level).Run(); }

}  // namespace infer
