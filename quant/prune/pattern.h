#pragma once
/// Which weights may become zero together, and which of them do. No graph and no data here.
///
/// Weights are a matrix [rows, depth]: a row per number that the layer makes (an output channel;
/// for ConvTranspose an output channel at one tap), and along it what the number is a sum over. The
/// depth of a convolution runs [taps, channels], channels innermost, so that neighbours along the
/// depth are input channels at one tap: what sparse kernels and 2:4 hardware read. N:M groups and
/// blocks tile the channels of one tap and the rows of one convolution group; they never reach
/// across, and what is left at the end of either is a smaller unit, as if padded with zeros.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/support/status.h"

namespace infer {

struct SparsityPattern {
  enum class Kind : uint8_t { kUnstructured, kNm, kBlocks };
  Kind kind = Kind::kUnstructured;
  double share = 0.5;    ///< of the units (weights, blocks) that become zero; not of N:M
  int64_t n = 2, m = 4;  ///< N:M: of each m neighbours at most n stay
  int64_t block_rows = 1, block_columns = 1;
};
/// "50 % unstructured", "2:4", "50 % in blocks of 1x4".
std::string ToString(const SparsityPattern& p);
/// "2:4". InvalidArgument: no two numbers, or nothing that would be pruned or be left.
Result<SparsityPattern> ParseNm(std::string_view text);
/// "1x4": rows x neighbours along the depth. InvalidArgument: no two numbers of 1 to 256, or 1x1.
Result<SparsityPattern> ParseBlocks(std::string_view text);
/// InvalidArgument: a share that is not above 0 and below 1.
Status CheckShare(double share);

/// The extents of a matrix of weights.
struct WeightPlane {
  int64_t groups = 1;
  int64_t rows = 0;      ///< of one group
  int64_t channels = 0;  ///< innermost part of the depth
  int64_t taps = 1;
  int64_t depth() const { return taps * channels; }
  int64_t all_rows() const { return groups * rows; }
  int64_t size() const { return all_rows() * depth(); }
  bool operator==(const WeightPlane&) const = default;
};

/// 1: the weight stays, 0: it is zero. [all_rows, depth].
using KeepMask = std::vector<uint8_t>;
int64_t ZerosIn(const KeepMask& keep);

/// Weights, groups of N:M, or blocks.
int64_t UnitsOf(const WeightPlane& plane, const SparsityPattern& p);
/// How many of the units `share` is, to the nearest. N:M: all.
int64_t UnitsToZero(int64_t units, const SparsityPattern& p);
/// Weights that N:M makes zero: of a group of r, max(r - n, 0).
int64_t NmZeros(const WeightPlane& plane, const SparsityPattern& p);

/// Sums of `scores` [all_rows, depth] by unit, in a fixed order.
std::vector<float> UnitScores(const WeightPlane& plane, const SparsityPattern& p,
                              std::span<const float> scores);
/// Why no unit of the pattern is whole in this plane; "" where one is.
std::string WhyNotWhole(const WeightPlane& plane, const SparsityPattern& p);

/// Boundaries of the depth that no unit reaches across: where a sweep may pause. Ascending, from 0
/// to depth, steps of `least` or the unit that crosses it.
std::vector<int64_t> DepthCuts(const WeightPlane& plane, const SparsityPattern& p, int64_t least);

/// Marks `units` of the units within [begin, end) of the depth as zero: those of least sum of
/// scores, of equal ones the first. N:M: those of each group beyond n. `scores`: [all_rows, depth].
/// Pre: DepthCuts has both bounds; units <= UnitsWithin.
void DropLeast(const WeightPlane& plane, const SparsityPattern& p, std::span<const float> scores,
               int64_t begin, int64_t end, int64_t units, std::span<uint8_t> keep);
int64_t UnitsWithin(const WeightPlane& plane, const SparsityPattern& p, int64_t begin, int64_t end);
/// The same over the whole depth, from a mask that keeps everything.
KeepMask KeepBest(const WeightPlane& plane, const SparsityPattern& p, std::span<const float> scores,
                  int64_t units);
/// The same for each row by itself, unstructured: the rows share `units` evenly, to one.
KeepMask KeepBestOfRows(const WeightPlane& plane, std::span<const float> scores, int64_t units);

}  // namespace infer
