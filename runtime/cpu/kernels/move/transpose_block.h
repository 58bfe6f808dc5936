#pragma once
/// Transposition in registers, block by block.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace infer {

/// Rows and columns of a tile.
inline constexpr int64_t kTile = 16;

/// Elements of a and b in turn: place i has a's where i is even, b's where it is odd.
template <int kFirst, typename V, int... kPlaces>
V InTurn(V a, V b, std::integer_sequence<int, kPlaces...>) {
  constexpr int kSide = sizeof...(kPlaces);
  return __builtin_shufflevector(a, b, (kPlaces % 2 * kSide + kFirst + kPlaces / 2)...);
}

/// Elements of a register, which are as many as the rows of a block that is transposed in
/// registers.
template <typename T>
inline constexpr int kSideOf = 16 / static_cast<int>(sizeof(T));
/// T: an integer, or bytes side by side.
template <typename T>
struct Block {
  static constexpr int kSide = kSideOf<T>;
  using Lane = std::conditional_t<std::is_integral_v<T>, T, uint64_t>;
  static_assert(sizeof(Lane) == sizeof(T));
  typedef Lane Row __attribute__((vector_size(16)));
  Row rows[kSide];

  void Load(int i, const T* from) { std::memcpy(&rows[i], from, sizeof(Row)); }
  void Store(int i, T* to) const { std::memcpy(to, &rows[i], sizeof(Row)); }
  void Transpose() {
    constexpr std::make_integer_sequence<int, kSide> places;
    // Each round interleaves rows half the side apart; log2 of the side of them transpose.
    for (int round = 1; round < kSide; round *= 2) {
      Row next[kSide];
      for (int i = 0; i < kSide / 2; ++i) {
        next[2 * i] = InTurn<0>(rows[i], rows[i + kSide / 2], places);
        next[2 * i + 1] = InTurn<kSide / 2>(rows[i], rows[i + kSide / 2], places);
      }
      std::copy_n(next, kSide, rows);
    }
  }
};

/// A tile of kTile x kTile elements of 1 to 8 bytes, transposed in registers block by block:
/// element by element it is bound by single loads and stores.
template <typename T>
void TransposeTile(const T* x, int64_t x_step, T* y, int64_t y_step) {
  constexpr int kSide = kSideOf<T>;
  for (int64_t r = 0; r < kTile; r += kSide)
    for (int64_t k = 0; k < kTile; k += kSide) {
      Block<T> b;
      for (int i = 0; i < kSide; ++i) b.Load(i, x + (k + i) * x_step + r);
      b.Transpose();
      for (int i = 0; i < kSide; ++i) b.Store(i, y + (r + i) * y_step + k);
    }
}

/// y[r * n + k] = x[r + k * step] of 4 bytes each, k < n: few columns, as channels of an image that
/// come to lie last. A block is stored whole; what it writes behind its row is written again with
/// the next one, so that the last row is left to single stores.
template <typename T>
void TransposeFewColumns(const T* x, int64_t step, T* y, int64_t rows, int64_t n) {
  constexpr int64_t kSide = kSideOf<T>;
  int64_t r = 0;
  for (; r + kSide < rows; r += kSide)
    for (int64_t k = (n - 1) / kSide * kSide; k >= 0; k -= kSide) {
      Block<T> b;
      for (int64_t i = 0; i < kSide; ++i)
        b.Load(static_cast<int>(i), x + r + std::min(k + i, n - 1) * step);
      b.Transpose();
      for (int64_t i = 0; i < kSide; ++i) b.Store(static_cast<int>(i), y + (r + i) * n + k);
    }
  for (; r < rows; ++r)
    for (int64_t k = 0; k < n; ++k) y[r * n + k] = x[r + k * step];
}

/// y[r * y_step + k] = x[r + k * step] of 4 bytes each, r < rows <= step: few rows, as channels
/// that lay last. A block is loaded whole; what it reads behind its column is the next one's, so
/// that the last columns are left to single loads.
template <typename T>
void TransposeFewRows(const T* x, int64_t step, T* y, int64_t y_step, int64_t rows, int64_t n) {
  constexpr int64_t kSide = kSideOf<T>;
  int64_t k = 0;
  for (; k + kSide < n; k += kSide)
    for (int64_t r = 0; r < rows; r += kSide) {
      Block<T> b;
      for (int64_t i = 0; i < kSide; ++i) b.Load(static_cast<int>(i), x + r + (k + i) * step);
      b.Transpose();
      for (int64_t i = 0; i < std::min(kSide, rows - r); ++i)
        b.Store(static_cast<int>(i), y + (r + i) * y_step + k);
    }
  for (; k < n; ++k)
    for (int64_t r = 0; r < rows; ++r) y[r * y_step + k] = x[r + k * step];
}

}  // namespace infer
