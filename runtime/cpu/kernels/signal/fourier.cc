#include "runtime/cpu/kernels/signal/fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace infer {
namespace {

/// e^(sign 2 pi i k / n), appended.
void AppendRoot(int64_t k, int64_t n, double sign, std::vector<double>& to) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  to.push_back(std::cos(angle));
  to.push_back(sign * std::sin(angle));
}

/// Radices whose product is n; empty where a prime factor is too large.
std::vector<int> RadicesOf(int64_t n) {
  std::vector<int> radices;
  for (int r : {4, 2, 3, 5, 7, 11, 13})
    for (; n % r == 0; n /= r) radices.push_back(r);
  if (n > 1) radices.clear();
  return radices;
}

int64_t PowerFrom(int64_t least) {
  int64_t n = 1;
  while (n < least) n *= 2;
  return n;
}

}  // namespace

LineFourier::LineFourier(int64_t n, const simd::Fourier& loops) : n_(n), loops_(loops) {
  if (n > 1 && RadicesOf(n).empty())
    MakeChirps();
  else
    AddPasses();
}

void LineFourier::AddPasses() {
  int64_t left = n_, s = 1;
  for (int r : RadicesOf(n_)) {
    Stage stage;
    stage.pass.radix = r;
    stage.pass.m = left / r;
    stage.pass.s = s;
    for (int64_t p = 0; p < left / r; ++p)
      for (int64_t k = 1; k < r; ++k) AppendRoot(p * k, left, -1, stage.factors);
    for (int64_t j = 0; j < r; ++j) AppendRoot(j, r, -1, stage.roots);
    stages_.push_back(std::move(stage));
    left /= r;
    s *= r;
  }
}

void LineFourier::MakeChirps() {
  inner_ = std::make_unique<LineFourier>(PowerFrom(2 * n_ - 1), loops_);
  const int64_t size = inner_->n(), lanes = loops_.lanes;
  for (int64_t j = 0; j < n_; ++j) {
    // j^2 mod 2n, for j below 2^31.
    const auto square = static_cast<int64_t>(static_cast<uint64_t>(j) * static_cast<uint64_t>(j) %
                                             static_cast<uint64_t>(2 * n_));
    AppendRoot(square, 2 * n_, -1, chirp_);
    AppendRoot(square, 2 * n_, 1, back_);
  }
  const auto numbers = static_cast<size_t>(size * 2 * lanes);
  std::vector<double> x(numbers), work(numbers);
  for (int64_t j = 0; j < n_; ++j)
    for (int64_t part = 0; part < 2; ++part) {
      const double v = back_[static_cast<size_t>(2 * j + part)] / static_cast<double>(size);
      x[static_cast<size_t>((2 * j + part) * lanes)] = v;
      if (j > 0) x[static_cast<size_t>((2 * (size - j) + part) * lanes)] = v;
    }
  const double* const spectrum = inner_->Run(x.data(), work.data());
  for (int64_t i = 0; i < 2 * size; ++i) spectrum_.push_back(spectrum[i * lanes]);
}

double* LineFourier::Run(double* x, double* work) const {
  if (inner_) return Convolve(x, work);
  for (const Stage& stage : stages_) {
    simd::FourierPass pass = stage.pass;
    pass.factors = stage.factors.data();
    pass.roots = stage.roots.data();
    loops_.pass(pass, x, work);
    std::swap(x, work);
  }
  return x;
}

/// X[k] = c[k] sum_j (c[j] x[j]) conj(c[k - j]), c the chirp; the transform back is one forth
/// between two exchanges of real and imaginary parts.
double* LineFourier::Convolve(double* x, double* work) const {
  const int64_t row = int64_t{2} * loops_.lanes, half = inner_->rows() * row;
  double *const a = work, *const b = work + half;
  loops_.multiply(x, chirp_.data(), n_, false, a);
  std::fill(a + n_ * row, a + half, 0.0);
  double* const forth = inner_->Run(a, b);
  loops_.multiply(forth, spectrum_.data(), inner_->n(), true, forth);
  double* const back = inner_->Run(forth, forth == a ? b : a);
  loops_.multiply(back, back_.data(), n_, true, x);
  return x;
}

int64_t SingleFourier::ColumnsOf(int64_t n, int lanes) {
  int64_t d = std::min<int64_t>(lanes, n);
  while (n % d != 0) --d;
  return d;
}

SingleFourier::SingleFourier(int64_t n, const simd::Fourier& loops)
    : loops_(loops),
      along_(n / ColumnsOf(n, loops.lanes), loops),
      across_(ColumnsOf(n, loops.lanes), loops),
      factors_(static_cast<size_t>(along_.n() * 2 * loops.lanes)) {
  std::vector<double> root;
  for (int64_t k = 0; k < along_.n(); ++k)
    for (int64_t column = 0; column < columns(); ++column) {
      root.clear();
      AppendRoot(k * column, n, -1, root);
      for (int64_t part = 0; part < 2; ++part)
        factors_[static_cast<size_t>((2 * k + part) * loops.lanes + column)] =
            root[static_cast<size_t>(part)];
    }
}

int64_t SingleFourier::rows() const {
  // Across() puts its two buffers into the one that Along() has left.
  return std::max(along_.rows(), 2 * across_.rows());
}

double* SingleFourier::Along(double* x, double* work) const {
  double* const y = along_.Run(x, work);
  loops_.multiply_lanes(y, factors_.data(), along_.n(), y);
  return y;
}

/// Of rows `first` on, `count` of them: turned, and transformed.
const double* SingleFourier::Across(const double* rows, int64_t first, int64_t count,
                                    double* work) const {
  const int64_t lanes = loops_.lanes;
  for (int64_t column = 0; column < columns(); ++column)
    for (int64_t part = 0; part < 2; ++part) {
      const double* const from = rows + (2 * first + part) * lanes + column;
      double* const to = work + (2 * column + part) * lanes;
      for (int64_t k = 0; k < count; ++k) to[k] = from[k * 2 * lanes];
      std::fill(to + count, to + lanes, 0.0);
    }
  return across_.Run(work, work + across_.rows() * 2 * lanes);
}

}  // namespace infer
