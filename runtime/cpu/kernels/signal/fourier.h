#pragma once
/// Discrete Fourier transforms in f64 of any length, by passes of radix 4, 2, 3, 5 and odd ones up
/// to simd::kMostRadix; lengths with a larger prime factor as a convolution (L. Bluestein, "A
/// linear filtering approach to the computation of discrete Fourier transform", 1970).
///
/// Error: below 1e-14 of the largest result (tests/runtime/cpu/fourier_test.cc).
#include <memory>
#include <vector>

#include "runtime/cpu/simd/fourier.h"

namespace infer {

/// Transforms of `lanes` lines side by side: rows [n][2][lanes].
class LineFourier {
 public:
  /// Pre: n >= 1.
  LineFourier(int64_t n, const simd::Fourier& loops);

  int64_t n() const { return n_; }
  /// Of each of the two buffers that Run() takes.
  int64_t rows() const { return inner_ ? 2 * inner_->rows() : n_; }
  /// sum_i e^(-2 pi i k / n) x[i] of the rows of x; both buffers are written, and the results lie
  /// in the one that is returned. The same bits for every lane, whatever lies in the others.
  double* Run(double* x, double* work) const;

 private:
  void AddPasses();
  void MakeChirps();
  double* Convolve(double* x, double* work) const;

  int64_t n_;
  const simd::Fourier& loops_;
  struct Stage {
    simd::FourierPass pass;  // without its pointers
    std::vector<double> factors, roots;
  };
  std::vector<Stage> stages_;
  // Bluestein's: a transform of a power of two, e^(-pi i j^2 / n) and its conjugate, the spectrum
  // of the latter over inner_->n().
  std::unique_ptr<LineFourier> inner_;
  std::vector<double> chirp_, back_, spectrum_;
};

/// The transform of one line, whose elements a lane takes every `columns`-th of.
class SingleFourier {
 public:
  /// The largest number of columns for `n`: a divisor of it, at most `lanes`.
  static int64_t ColumnsOf(int64_t n, int lanes);
  /// Pre: n >= 1.
  SingleFourier(int64_t n, const simd::Fourier& loops);

  int64_t columns() const { return across_.n(); }
  /// Of each of the two buffers that Run() takes, in rows [2][lanes].
  int64_t rows() const;
  /// x holds element i in row i / columns(), lane i % columns(). `store(k, re, im, count)` takes
  /// results k, k + 1, ... once each.
  template <typename F>
  void Run(double* x, double* work, const F& store) const {
    const int lanes = loops_.lanes;
    double* const along = Along(x, work);
    double* const other = along == x ? work : x;
    for (int64_t first = 0; first < along_.n(); first += lanes) {
      const int64_t count = along_.n() - first < lanes ? along_.n() - first : lanes;
      const double* const block = Across(along, first, count, other);
      for (int64_t k = 0; k < columns(); ++k)
        store(first + k * along_.n(), block + k * 2 * lanes, block + (k * 2 + 1) * lanes, count);
    }
  }

 private:
  double* Along(double* x, double* work) const;
  const double* Across(const double* rows, int64_t first, int64_t count, double* work) const;

  const simd::Fourier& loops_;
  LineFourier along_, across_;
  std::vector<double> factors_;  // [rows of along_][2][lanes]
};

}  // namespace infer
