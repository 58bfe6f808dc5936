#pragma once
/// Products by weights most of which are zero: lists of the others, in blocks of 16, 4 or 1
/// neighbouring outputs of one term. Compiled once per instruction set (sparse.inc) and chosen at
/// run time. No allocation, no threads here.
#include <cstdint>

namespace infer::simd {

/// Outputs of a panel, and terms of a block of packed rows.
constexpr int64_t kSparsePanel = 16;
/// Entries of the lists of `lists` come in multiples of this.
constexpr int64_t kSparseRun = 4;

/// Results of one panel: d[r][j] = clamp(start[j] + (add ? d[r][j] : 0) + sum_i x(r, at[i]) *
/// w[i][j], lo, hi). The order of a sum depends on `count` and the number of rows only.
struct SparsePanelCall {
  const float* x = nullptr;      ///< [blocks of 16 terms][panel_rows][16]
  const uint16_t* at = nullptr;  ///< [count]: where x has the term of block i, row 0
  const float* w = nullptr;      ///< [count][16]
  int64_t count = 0;
  float* d = nullptr;               ///< of any alignment
  int64_t d_row = 0, d_vector = 0;  ///< floats from one row, and one vector, to the next
  const float* start = nullptr;     ///< [16], of any alignment; nullptr: zeros
  bool add = false;
  float lo = -__builtin_inff(), hi = __builtin_inff();  ///< NaN passes
};

/// Sums of several lists with the rows side by side: d[place[l] + o][r] = (add ? d[..][r] : 0) +
/// sum_i x[at[i] + r] * w[i][o], starts[l] <= i < starts[l + 1].
struct SparseListsCall {
  const float* x = nullptr;
  const uint16_t* at = nullptr;
  const float* w = nullptr;          ///< [entries][outputs of a block]
  const uint32_t* starts = nullptr;  ///< [lists + 1], multiples of kSparseRun
  const uint8_t* place = nullptr;    ///< [lists]
  int64_t lists = 0;
  float* d = nullptr;  ///< [..][list_rows]
  bool add = false;
};

/// A matrix as it lies in blocks of as many columns as a vector has lanes: element (r, c) at
/// from[r * row + c / lanes * block + c % lanes].
struct SparseRows {
  const float* from = nullptr;
  int64_t row = 0, block = 0;
  int64_t rows = 0, columns = 0;
};

/// d(r, c) = clamp(start[c] + (add ? d(r, c) : 0) + sums[c][r], lo, hi) for rows and columns up to
/// `lanes`, d of any alignment.
struct SparseResults {
  const float* sums = nullptr;  ///< [columns][list_rows]
  int64_t rows = 0, columns = 0;
  float* d = nullptr;
  int64_t d_row = 0;
  const float* start = nullptr;  ///< [columns]; nullptr: zeros
  bool add = false;
  float lo = -__builtin_inff(), hi = __builtin_inff();
};

struct Sparse {
  const char* isa;
  int lanes;
  int panel_rows;       ///< of one call of `panel`, and of a packed tile
  int64_t panel_terms;  ///< whose rows stay in L1
  /// Pre: 1 <= rows <= panel_rows.
  void (*panel)(int rows, const SparsePanelCall& call);
  int64_t list_rows;   ///< of a packed tile: 4 vectors
  int64_t list_terms;  ///< whose rows stay in L1
  /// Pre: 1 <= vectors <= 4; outputs of a block 1 or 4.
  void (*lists)(int vectors, int outputs, const SparseListsCall& call);
  /// to[c / 16][r][c % 16], columns padded with zeros to whole blocks. Whether all are finite.
  bool (*pack_rows)(const SparseRows& rows, float* to);
  /// to[c * list_rows + r] for at most `lanes` rows, those missing as zeros. Whether all are
  /// finite.
  bool (*turn_rows)(const SparseRows& rows, float* to);
  void (*results)(const SparseResults& call);
};

/// nullptr where the machine, or INFER_MAX_ISA, allows none of the instruction sets.
const Sparse* TheSparse();

}  // namespace infer::simd
