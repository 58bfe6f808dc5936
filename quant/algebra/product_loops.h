#pragma once
/// The innermost loop of a dense product, compiled once per instruction set: one tile of the
/// result, which stays in registers while the depth is walked (K. Goto and R. van de Geijn,
/// "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 2008).
#include <cstdint>
#include <string_view>

namespace infer {

template <class T>
struct TileLoop {
  int64_t rows = 0, columns = 0;  ///< of a tile
  /// tile [rows, columns], `stride` numbers from row to row, += a^T b: a is packed as
  /// [depth][rows], b as [depth][columns]. Each number is summed over the depth in order, and added
  /// to the tile once.
  void (*add)(int64_t depth, const T* a, const T* b, T* tile, int64_t stride) = nullptr;
};

struct ProductLoops {
  std::string_view isa;
  TileLoop<float> f32;
  TileLoop<double> f64;

  template <class T>
  const TileLoop<T>& of() const {
    if constexpr (sizeof(T) == sizeof(float))
      return f32;
    else
      return f64;
  }
};

/// The best table that this machine and INFER_MAX_ISA allow.
const ProductLoops& TheProductLoops();

}  // namespace infer
