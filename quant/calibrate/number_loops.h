#pragma once
/// The loops that every number of every sample goes through, compiled once per instruction set. All
/// of them give the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace infer {

/// Bins [first, first + Histogram::kBins), each 1 / inverse wide.
struct BinWindow {
  float inverse = 1;  ///< a power of two
  int32_t first = 0;
};

struct NumberLoops {
  std::string_view isa;
  /// Least and greatest of n >= 1 numbers. False: one is NaN or infinite, and `lo` and `hi` say
  /// nothing.
  bool (*bounds)(const float* x, size_t n, float& lo, float& hi);
  /// Counts each number in one of the two tables (kBins each, one after the other): neighbours in
  /// one bin then do not wait for each other. Pre: all lie within the window, whose bins an f32
  /// holds exactly.
  void (*count)(const float* x, size_t n, const BinWindow& window, uint32_t* tables);
};

/// The best table that this machine and INFER_MAX_ISA allow.
const NumberLoops& TheNumberLoops();

}  // namespace infer
