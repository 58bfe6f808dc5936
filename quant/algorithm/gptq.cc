#include "quant/algorithm/gptq.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/support/strings.h"
#include "quant/algebra/eigen_product.h"
#include "quant/algorithm/input_sweep.h"

namespace infer {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<const Matrix>;
using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic>;

constexpr int64_t kErrorRows = 256;  // weights rows of one product when errors are summed

MatrixMap AsMatrix(std::span<const float> h, int64_t depth) {
  return MatrixMap(h.data(), depth, depth);
}

BlockParams ParamsOf(const BlockQuantized& q, int64_t row, int64_t k) {
  const auto i = static_cast<size_t>(row * q.blocks() + k / q.grid.BlockSize(q.depth));
  return {q.scales[i], q.zero_points[i]};
}

/// Sum over rows of d h d^T, d [rows, depth].
double QuadraticForm(const Matrix& d, const MatrixMap& h) {
  return static_cast<double>(Multiply(d, h).cwiseProduct(d).cast<double>().sum());
}

/// Rows [begin, begin + count) of W - Q.
Matrix Difference(const BlockWeights& w, const BlockQuantized& q, int64_t begin, int64_t count) {
  Matrix d(count, w.depth);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t k = 0; k < w.depth; ++k)
      d(r, k) = w.row(begin + r)[static_cast<size_t>(k)] -
                DecodeWeight(q.codes[static_cast<size_t>((begin + r) * w.depth + k)],
                             ParamsOf(q, begin + r, k));
  return d;
}

/// H in `order`, damped; inputs that are always 0 get a 1.
std::vector<double> Damped(const MatrixMap& h, std::span<const int64_t> order, double damp) {
  const int64_t n = h.rows();
  std::vector<double> damped(static_cast<size_t>(n * n));
  Eigen::Map<Doubles> d(damped.data(), n, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      d(i, j) = h(order[static_cast<size_t>(i)], order[static_cast<size_t>(j)]);
  for (int64_t i = 0; i < n; ++i) d(i, i) = d(i, i) == 0 ? 1.0 : d(i, i) + damp;
  return damped;
}

std::vector<int64_t> InputOrder(const MatrixMap& h, bool by_activation) {
  std::vector<int64_t> order(static_cast<size_t>(h.rows()));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (by_activation)
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return h(a, a) > h(b, b); });
  return order;
}

/// Codes of input `k` of every row from the values `x`, and the errors that leaves over `pivot`.
void RoundInput(const BlockWeights& w, int64_t k, std::span<const float> x, float pivot,
                BlockQuantized& q, std::span<float> errors) {
  for (int64_t r = 0; r < q.rows; ++r) {
    const auto i = static_cast<size_t>(r);
    const BlockParams p = ParamsOf(q, r, k);
    const bool is_zero = w.row(r)[static_cast<size_t>(k)] == 0;
    const uint8_t code =
        is_zero ? static_cast<uint8_t>(p.zero_point) : EncodeWeight(x[i], p, q.grid);
    q.codes[static_cast<size_t>(r * q.depth + k)] = code;
    errors[i] = (x[i] - DecodeWeight(code, p)) / pivot;
  }
}

/// Codes as numbers without scale, [rows, depth].
Matrix Centred(const BlockQuantized& q) {
  Matrix c(q.rows, q.depth);
  for (int64_t r = 0; r < q.rows; ++r)
    for (int64_t k = 0; k < q.depth; ++k) {
      const BlockParams p = ParamsOf(q, r, k);
      c(r, k) = static_cast<float>(q.codes[static_cast<size_t>(r * q.depth + k)]) -
                static_cast<float>(p.zero_point);
    }
  return c;
}

/// The scales of row `r` that are best for its codes: (A^T H A) s = A^T H w, A [depth, blocks].
/// Kept only where they lower the row's error and stay near the old ones, which keeps blocks with
/// few or no codes beside zero from running away.
void FitScales(const BlockWeights& w, const MatrixMap& h, const Matrix& centred, int64_t r,
               BlockQuantized& q) {
  const int64_t blocks = q.blocks(), size = q.grid.BlockSize(q.depth);
  Matrix a = Matrix::Zero(blocks, q.depth);
  for (int64_t k = 0; k < q.depth; ++k) a(k / size, k) = centred(r, k);
  const Eigen::Map<const Eigen::VectorXf> row(w.row(r).data(), w.depth);
  Matrix ah(blocks, q.depth);
  for (int64_t b = 0, at = 0; b < blocks; ++b, at += size) {
    const int64_t count = std::min(size, q.depth - at);
    ah.row(b).noalias() = a.row(b).segment(at, count) * h.middleRows(at, count);
  }
  Doubles normal = (ah * a.transpose()).cast<double>();
  const Eigen::VectorXd right = (ah * row).cast<double>();
  const double ridge = 1e-6 * normal.trace() / static_cast<double>(blocks);
  if (!(ridge > 0)) return;
  Eigen::VectorXd old(blocks);
  for (int64_t b = 0; b < blocks; ++b) old(b) = q.scales[static_cast<size_t>(r * blocks + b)];
  normal.diagonal().array() += ridge;
  const Eigen::VectorXd fitted = normal.ldlt().solve(right + ridge * old);
  const auto error = [&](const Eigen::VectorXd& s) {
    const Eigen::VectorXf d = row - a.transpose() * s.cast<float>();
    return static_cast<double>(d.dot(h * d));
  };
  for (int64_t b = 0; b < blocks; ++b)
    if (!(fitted(b) / old(b) > 0.5 && fitted(b) / old(b) < 2)) return;
  if (error(fitted) >= error(old)) return;
  for (int64_t b = 0; b < blocks; ++b)
    q.scales[static_cast<size_t>(r * blocks + b)] = static_cast<float>(fitted(b));
}

/// One pass over the inputs: each code moves to the best integer while all others stay. `gradient`
/// [depth, rows] is H (W - Q)^T.
void DescendCodes(const BlockWeights& w, const MatrixMap& h, const RefineOptions& options,
                  Matrix& gradient, BlockQuantized& q) {
  const auto is_free = [&](size_t at) {
    return options.free.empty() ? w.values[at] != 0 : options.free[at] != 0;
  };
  Eigen::RowVectorXf moved(q.rows);
  for (int64_t k = 0; k < q.depth; ++k) {
    const float pivot = h(k, k);
    if (!(pivot > 0)) continue;
    bool any = false;
    for (int64_t r = 0; r < q.rows; ++r) {
      const auto at = static_cast<size_t>(r * q.depth + k);
      moved(r) = 0;
      if (!is_free(at)) continue;
      const BlockParams p = ParamsOf(q, r, k);
      uint8_t& code = q.codes[at];
      const float old = DecodeWeight(code, p);
      code = std::max(EncodeWeight(old + gradient(k, r) / pivot, p, q.grid),
                      static_cast<uint8_t>(options.least));
      moved(r) = DecodeWeight(code, p) - old;
      any |= moved(r) != 0;
    }
    if (any) gradient.noalias() -= h.col(k) * moved;
  }
}

}  // namespace

double OutputError(const BlockWeights& w, const BlockQuantized& q, std::span<const float> h) {
  double sum = 0;
  for (int64_t r = 0; r < w.rows; r += kErrorRows)
    sum +=
        QuadraticForm(Difference(w, q, r, std::min(kErrorRows, w.rows - r)), AsMatrix(h, w.depth));
  return std::max(sum, 0.0);
}

double OutputEnergy(const BlockWeights& w, std::span<const float> h) {
  double sum = 0;
  for (int64_t r = 0; r < w.rows; r += kErrorRows)
    sum += QuadraticForm(MatrixMap(w.row(r).data(), std::min(kErrorRows, w.rows - r), w.depth),
                         AsMatrix(h, w.depth));
  return std::max(sum, 0.0);
}

Status GptqRound(const BlockWeights& w, std::span<const float> h, int64_t rows,
                 const GptqOptions& options, BlockQuantized& q) {
  const int64_t depth = w.depth;
  if (rows < depth)
    return InvalidArgument(
        Cat("too few rows of calibration data (", rows, " for ", depth, " inputs)"));
  const MatrixMap moments = AsMatrix(h, depth);
  const std::vector<int64_t> order = InputOrder(moments, options.act_order);
  const double damp = options.damping * moments.diagonal().cast<double>().mean();
  INFER_ASSIGN(std::vector<float> u, InverseFactor(Damped(moments, order, damp), depth));
  std::vector<float> x(static_cast<size_t>(depth * w.rows));  // an input per row, in `order`
  for (int64_t i = 0; i < depth; ++i)
    for (int64_t r = 0; r < w.rows; ++r)
      x[static_cast<size_t>(i * w.rows + r)] =
          w.row(r)[static_cast<size_t>(order[static_cast<size_t>(i)])];
  InputSweep sweep(std::move(u), std::move(x), depth, w.rows);
  for (int64_t begin = 0; begin < depth; begin += options.update_block)
    sweep.Block(begin, std::min(options.update_block, depth - begin),
                [&](int64_t i, std::span<const float> now, float pivot, std::span<float> errors) {
                  RoundInput(w, order[static_cast<size_t>(i)], now, pivot, q, errors);
                });
  return {};
}

void RefineCodes(const BlockWeights& w, std::span<const float> h, const RefineOptions& options,
                 BlockQuantized& q) {
  const MatrixMap moments = AsMatrix(h, w.depth);
  double best = OutputError(w, q, h);
  for (int sweep = 0; sweep < options.sweeps && best > 0; ++sweep) {
    BlockQuantized next = q;
    if (!options.keep_scales) {
      const Matrix centred = Centred(q);
      for (int64_t r = 0; r < w.rows; ++r) FitScales(w, moments, centred, r, next);
    }
    const Matrix difference = Difference(w, next, 0, w.rows);
    Matrix gradient = Multiply(moments, difference.transpose());
    DescendCodes(w, moments, options, gradient, next);
    const double error = OutputError(w, next, h);
    if (!(error < best)) return;
    const bool slow = error > 0.999 * best;
    best = error;
    q = std::move(next);
    if (slow) return;
  }
}

}  // namespace infer
