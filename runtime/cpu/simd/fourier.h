#pragma once
/// The passes of a discrete Fourier transform over lines side by side, compiled once per
/// instruction set (fourier.inc) and chosen at run time. A row is one complex number of each line:
/// [2][lanes], real parts first. Numbers are f64: what cancels beside large sums is
/// expected to be 0. No allocation, no threads here.
#include <cstdint>

namespace infer::simd {

/// Beyond 5 a radix takes a multiplication per pair of operand and result.
constexpr int kMostRadix = 13;

/// One pass of Stockham's transform (C. Van Loan, "Computational Frameworks for the Fast Fourier
/// Transform", 1992), whose last pass leaves the results in order: for p < m, q < s
/// y[q + s (radix p + k)] = factors[p][k] sum_j roots[j k mod radix] x[q + s (p + m j)].
struct FourierPass {
  int radix = 2;  ///< 2, 3, 4, 5 or odd up to kMostRadix
  int64_t m = 1, s = 1;
  const double* factors = nullptr;  ///< [m][radix - 1][2], of k = 1, 2, ...
  const double* roots = nullptr;    ///< [radix][2]; not read for 2 to 5
};

struct Fourier {
  const char* isa;
  int lanes;
  void (*pass)(const FourierPass& pass, const double* x, double* y);
  /// y[r] = x[r] * factors[r], complex; with `swapped` real and imaginary parts change places then.
  /// y may be x.
  void (*multiply)(const double* x, const double* factors, int64_t rows, bool swapped, double* y);
  /// The same with a factor for each lane, factors [rows][2][lanes]; not swapped.
  void (*multiply_lanes)(const double* x, const double* factors, int64_t rows, double* y);
  /// Row r of lane l: from[l][2 r] window[2 r] and from[l][2 r + 1] window[2 r + 1].
  void (*read_frames)(const float* const* from, const double* window, int64_t rows, double* y);
  /// The spectrum of 2 rows real numbers from that of `rows` pairs of them (read_frames), results 0
  /// to `rows` of lane l to to[l]; factors[k] is -i/2 e^(-pi i k / rows), k < rows.
  void (*write_halves)(const double* x, const double* factors, int64_t rows, float* const* to);
};

/// Chosen like TheLoops().
const Fourier& TheFourier();

}  // namespace infer::simd
