#include "quant/algorithm/adaround.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/support/parallel.h"
#include "quant/algebra/eigen_product.h"

namespace infer {
namespace {

using Array = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<const Matrix>;

constexpr float kStretch = 1.2f, kLow = -0.1f;  // zeta - gamma and gamma of the paper
constexpr int64_t kRowsAtOnce = 16;

/// Rows [begin, begin + rows) of a layer while they are learned.
class Learner {
 public:
  Learner(const BlockWeights& w, const MatrixMap& h, const BlockQuantized& q, int64_t begin,
          int64_t rows)
      : h_(h), begin_(begin), w_(rows, w.depth), scale_(rows, w.depth), zero_(rows, w.depth) {
    const int64_t size = q.grid.BlockSize(q.depth), blocks = q.blocks();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < w.depth; ++k) {
        const auto at = static_cast<size_t>((begin + r) * blocks + k / size);
        w_(r, k) = w.row(begin + r)[static_cast<size_t>(k)];
        scale_(r, k) = q.scales[at];
        zero_(r, k) = static_cast<float>(q.zero_points[at]);
      }
    }
    top_ = static_cast<float>(q.grid.max_code());
    const Array exact = w_ / scale_ + zero_;
    floor_ = exact.floor().max(0.0f).min(top_ - 1);
    const Array up = (exact - floor_).max(0.01f).min(0.99f);
    v_ = ((up - kLow) / (kStretch + kLow - up)).log();
    // A step of the grid weighs one, so that the regulariser means the same for every layer.
    const Eigen::VectorXf diagonal = h.diagonal();
    unit_ = ((scale_.square().matrix() * diagonal) / static_cast<float>(w.depth)).array();
    unit_ = (unit_ > 0).select(unit_.inverse(), 0.0f);
  }

  void Learn(const AdaRoundOptions& o) {
    Array mean = Array::Zero(v_.rows(), v_.cols()), square = mean;
    const int warm = static_cast<int>(o.warm_up * o.iterations);
    for (int i = 0; i < o.iterations; ++i) {
      const Array sigmoid = 1 / (1 + (-v_).exp());
      const Array choice = (kStretch * sigmoid + kLow).max(0.0f).min(1.0f);
      const Array error = (w_ == 0).select(0.0f, scale_ * (floor_ + choice - zero_) - w_);
      Array gradient = 2 * scale_ * Multiply(error, h_).array();
      gradient.colwise() *= unit_;
      if (i >= warm) {
        const double done = static_cast<double>(i - warm) / std::max(o.iterations - warm, 1);
        const double share = 0.5 * (1 + std::cos(done * std::numbers::pi));
        const auto beta = static_cast<float>(o.last_beta + (o.first_beta - o.last_beta) * share);
        const Array far = 2 * choice - 1;
        gradient -= static_cast<float>(2 * o.strength) * beta * far.sign() *
                    far.abs().max(1e-6f).pow(beta - 1);
      }
      // Where the choice is clipped it no longer moves.
      gradient *= (choice > 0 && choice < 1).select(kStretch * sigmoid * (1 - sigmoid), 0.0f);
      mean = 0.9f * mean + 0.1f * gradient;
      square = 0.999f * square + 0.001f * gradient.square();
      const double rate =
          o.learning_rate * std::sqrt(1 - std::pow(0.999, i + 1)) / (1 - std::pow(0.9, i + 1));
      v_ -= static_cast<float>(rate) * mean / (square.sqrt() + 1e-8f);
    }
  }

  void Write(BlockQuantized& q) const {
    for (int64_t r = 0; r < v_.rows(); ++r)
      for (int64_t k = 0; k < v_.cols(); ++k)
        q.codes[static_cast<size_t>((begin_ + r) * q.depth + k)] =
            w_(r, k) == 0 ? static_cast<uint8_t>(zero_(r, k))
                          : static_cast<uint8_t>(floor_(r, k) + (v_(r, k) > 0 ? 1.0f : 0.0f));
  }

 private:
  const MatrixMap& h_;
  int64_t begin_;
  float top_ = 0;
  Array w_, scale_, zero_, floor_, v_;
  Eigen::ArrayXf unit_;
};

}  // namespace

void AdaRound(const BlockWeights& w, std::span<const float> h, const AdaRoundOptions& options,
              BlockQuantized& q) {
  const MatrixMap moments(h.data(), w.depth, w.depth);
  const int64_t parts = (w.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  ParallelFor(parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      const int64_t begin = p * kRowsAtOnce;
      Learner learner(w, moments, q, begin, std::min(kRowsAtOnce, w.rows - begin));
      learner.Learn(options);
      learner.Write(q);
    }
  });
}

double AdaRoundCost(int64_t rows, int64_t depth, const AdaRoundOptions& options) {
  return static_cast<double>(options.iterations) * static_cast<double>(rows) *
         static_cast<double>(depth) * static_cast<double>(depth + 64);
}

}  // namespace infer
