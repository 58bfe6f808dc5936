#pragma once
/// Layered drawing of a directed graph: boxes in rows from top to bottom, few crossings, short and
/// straight wires. The four steps of Sugiyama, Tagawa and Toda (IEEE Trans. SMC 11, 1981): cycles
/// are broken, boxes get rows, rows get an order (medians of neighbours), boxes get places in their
/// row (least squares that keep order and distance, by pooling adjacent violators). A value with
/// several readers is one wire that branches, so that its bends are counted once.
#include <span>
#include <vector>

namespace infer {

/// A value: what makes it, and what reads it. Indices of boxes.
struct Wire {
  int source;
  std::vector<int> sinks;
};

struct LevelToLay {
  std::vector<double> widths;     ///< of the boxes, in the order of the program
  std::vector<bool> first, last;  ///< boxes of the topmost and of the lowest row; empty: none
  std::vector<Wire> wires;
};

/// A box, or the place where a wire passes a row.
struct Place {
  int box;   ///< -1: a bend
  int wire;  ///< of a bend; -1: a box
  double x;  ///< of its middle
};
using Rows = std::vector<std::vector<Place>>;  ///< from top to bottom, each from left to right

/// Rows such that sources stand above sinks, but for wires that close a cycle. A wire has a bend in
/// each row between its source and its lowest sink, or none at all where there would be too many
/// (kMaxBendsPerBox). The leftmost edge is at 0. Takes milliseconds for thousands of boxes.
/// Pre: indices are in range; no wire leads from a box to itself alone.
Rows LayOut(const LevelToLay& level);

constexpr double kBoxGap = 26, kBendGap = 12;  ///< between neighbours of a row
constexpr int kMaxBendsPerBox = 24;

/// Places nearest to the wanted ones, by weighted squares, in which neighbours i and i + 1 are at
/// least distances[i] apart. Pre: `distances` has one entry less than `wanted`; weights are above
/// 0.
std::vector<double> SpreadOut(std::span<const double> wanted, std::span<const double> weights,
                              std::span<const double> distances);

/// Least distance of the middles of two neighbours; bends have width 0.
double DistanceOf(const Place& left, double left_width, const Place& right, double right_width);

}  // namespace infer
