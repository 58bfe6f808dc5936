#pragma once
/// The inner loop of convolutions whose points read the same taps, compiled once per instruction
/// set (tiles.inc) and chosen at run time. No allocation, no threads here.
#include <cstdint>

namespace infer::simd {

/// d(p, o) = clamp(start[o] + (add ? d(p, o) : 0) + sum_r sum_k x[p][x_at[r] + k] * w(w_at[r] + k,
/// o), lo, hi), o < vectors * lanes, where d(p, o) is at d[p] + o / lanes * d_vector + o % lanes;
/// summed in the order of r and k, so that an element has the same bits whatever is computed with
/// it. Of any alignment; a point may stand twice in a tile.
struct TileCall {
  const float* const* x = nullptr;
  float* const* d = nullptr;
  int64_t d_vector = 0;  ///< floats from a vector of d to the next
  int64_t points = 0;    ///< a multiple of Tiles::points(vectors)
  int vectors = 1;       ///< 1 or 2
  /// Runs of what a point reads: floats from its x, rows of w, and how many of both.
  const int64_t* x_at = nullptr;
  const int64_t* w_at = nullptr;
  const int64_t* length = nullptr;
  int64_t runs = 0;
  const float* w = nullptr;      ///< [row][vectors * lanes]
  const float* start = nullptr;  ///< [vectors * lanes]; nullptr: zeros
  bool add = false;
  float lo = -__builtin_inff(), hi = __builtin_inff();  ///< NaN passes
};

struct Tiles {
  const char* isa;
  int lanes;          ///< of a vector
  int points_of_one;  ///< that are computed together, by one vector
  int points_of_two;  ///< by two vectors
  void (*multiply)(const TileCall& call);
  /// to[c * to_step + r] = from[r * from_step + c], r < rows, c < columns.
  void (*transpose)(const float* from, int64_t from_step, int64_t rows, int64_t columns, float* to,
                    int64_t to_step);

  int points(int vectors) const { return vectors == 2 ? points_of_two : points_of_one; }
};

/// Chosen like TheLoops().
const Tiles& TheTiles();

}  // namespace infer::simd
