#include "quant/algorithm/scale_search.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/algebra/eigen_product.h"

namespace infer {
namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr float kClips[] = {1.0f, 0.96f, 0.92f, 0.88f, 0.84f, 0.8f, 0.75f, 0.7f, 0.65f, 0.6f, 0.5f};
constexpr int kExponents = 10;    // steps from 0 to 1
constexpr double kWorth = 0.999;  // of the error without: a smaller gain is not worth the rewrite
// A scale beyond this makes the operand's own values hard to represent.
constexpr float kMaxRatio = 1e4f;

/// Parameters of `block` clipped to `factor` of its range; `flipped`: its largest element gets the
/// upper end of a symmetric grid, which has one code less there.
BlockParams Clipped(std::span<const float> block, const BlockGrid& grid, float factor, bool flipped,
                    std::vector<float>& scratch) {
  if (grid.symmetric) {
    BlockParams p = ChooseBlockParams(block, grid);
    p.scale *= factor;
    if (flipped)
      p.scale *= -static_cast<float>(grid.middle()) / static_cast<float>(grid.middle() - 1);
    return p;
  }
  scratch.assign(block.begin(), block.end());
  for (float& x : scratch) x *= factor;
  return ChooseBlockParams(scratch, grid);
}

/// Sum of `row`s of d h d^T, each by itself.
Eigen::VectorXf RowErrors(const RowMajor& d, const Eigen::Ref<const RowMajor>& h) {
  return Multiply(d, h).cwiseProduct(d).rowwise().sum();
}

double ScaledError(
    std::span<const ScaleReader> readers, std::span<const float> scale,
    std::span<const float> judge,
    const std::function<BlockQuantized(const BlockWeights&, const BlockGrid&)>& round) {
  double sum = 0;
  for (const ScaleReader& r : readers) {
    if (scale.empty()) {
      sum += OutputError(r.w, round(r.w, r.grid), judge);
      continue;
    }
    const std::vector<float> scaled = ScaleWeights(r.w, scale);
    const BlockWeights w{scaled, r.w.rows, r.w.depth};
    sum += OutputError(w, round(w, r.grid), judge);
  }
  return sum;
}

/// rms(x_k)^exponent around 1; 1 for inputs that are always 0.
std::vector<float> PowerScales(std::span<const float> h, int64_t depth, double exponent) {
  std::vector<float> scale(static_cast<size_t>(depth), 1.0f);
  float lo = std::numeric_limits<float>::max(), hi = 0;
  for (int64_t k = 0; k < depth; ++k) {
    const float moment = h[static_cast<size_t>(k * depth + k)];
    if (!(moment > 0)) continue;
    float& s = scale[static_cast<size_t>(k)];
    s = static_cast<float>(std::pow(static_cast<double>(moment), exponent / 2));
    lo = std::min(lo, s);
    hi = std::max(hi, s);
  }
  if (!(hi > 0) || hi / lo > kMaxRatio) return {};
  const float middle = std::sqrt(lo) * std::sqrt(hi);
  for (int64_t k = 0; k < depth; ++k)
    if (h[static_cast<size_t>(k * depth + k)] > 0) scale[static_cast<size_t>(k)] /= middle;
  return scale;
}

}  // namespace

BlockQuantized SearchClip(const BlockWeights& w, const BlockGrid& grid, std::span<const float> h) {
  BlockQuantized q = QuantizeNearest(w, grid);
  const Eigen::Map<const RowMajor> moments(h.data(), w.depth, w.depth);
  const int64_t size = grid.BlockSize(w.depth);
  std::vector<float> scratch;
  for (int64_t b = 0, at = 0; b < q.blocks(); ++b, at += size) {
    const int64_t count = std::min(size, w.depth - at);
    Eigen::VectorXf least =
        Eigen::VectorXf::Constant(w.rows, std::numeric_limits<float>::infinity());
    for (const bool flipped : {false, true}) {
      if (flipped && (!grid.symmetric || grid.positive)) continue;
      for (const float factor : kClips) {
        RowMajor d(w.rows, count);
        std::vector<BlockParams> params(static_cast<size_t>(w.rows));
        for (int64_t r = 0; r < w.rows; ++r) {
          const auto block = w.row(r).subspan(static_cast<size_t>(at), static_cast<size_t>(count));
          const BlockParams p = Clipped(block, grid, factor, flipped, scratch);
          params[static_cast<size_t>(r)] = p;
          for (int64_t k = 0; k < count; ++k) {
            const float x = block[static_cast<size_t>(k)];
            d(r, k) = x - DecodeWeight(EncodeWeight(x, p, grid), p);
          }
        }
        const Eigen::VectorXf error = RowErrors(d, moments.block(at, at, count, count));
        for (int64_t r = 0; r < w.rows; ++r) {
          if (!(error(r) < least(r))) continue;
          least(r) = error(r);
          const auto i = static_cast<size_t>(r * q.blocks() + b);
          q.scales[i] = params[static_cast<size_t>(r)].scale;
          q.zero_points[i] = static_cast<uint8_t>(params[static_cast<size_t>(r)].zero_point);
        }
      }
    }
    for (int64_t r = 0; r < w.rows; ++r) {
      const auto i = static_cast<size_t>(r * q.blocks() + b);
      for (int64_t k = at; k < at + count; ++k)
        q.codes[static_cast<size_t>(r * w.depth + k)] =
            EncodeWeight(w.row(r)[static_cast<size_t>(k)], {q.scales[i], q.zero_points[i]}, grid);
    }
  }
  return q;
}

std::vector<float> ScaleWeights(const BlockWeights& w, std::span<const float> scale) {
  std::vector<float> scaled(w.values.begin(), w.values.end());
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= scale[i % scale.size()];
  return scaled;
}

std::vector<float> ScaleMoments(std::span<const float> h, std::span<const float> scale) {
  std::vector<float> scaled(h.begin(), h.end());
  const size_t n = scale.size();
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) scaled[i * n + j] /= scale[i] * scale[j];
  return scaled;
}

InputScales SearchInputScales(std::span<const ScaleReader> readers, const HessianPair& h,
                              const ScaleRounder& round) {
  InputScales best;
  const Hessian& judge = h.held_out.rows > 0 ? h.held_out : h.fit;
  double least = ScaledError(readers, {}, h.fit.sum, QuantizeNearest);
  for (int step = 1; step <= kExponents; ++step) {
    const double exponent = static_cast<double>(step) / kExponents;
    const std::vector<float> scale = PowerScales(h.fit.sum, h.fit.depth, exponent);
    if (scale.empty()) break;
    const double error =
        ScaledError(readers, scale, ScaleMoments(h.fit.sum, scale), QuantizeNearest);
    if (!(error < kWorth * least)) continue;
    least = error;
    best.scale = scale;
    best.exponent = exponent;
  }
  const auto rounded = [&](std::span<const float> moments) {
    return [&round, &h, moments](const BlockWeights& w, const BlockGrid& grid) {
      return round(w, grid, moments, h.fit.rows);
    };
  };
  best.plain_error = std::min(ScaledError(readers, {}, judge.sum, rounded(h.fit.sum)),
                              ScaledError(readers, {}, judge.sum, QuantizeNearest));
  best.error = best.plain_error;
  if (best.scale.empty()) return best;
  const std::vector<float> fit = ScaleMoments(h.fit.sum, best.scale);
  const double error =
      ScaledError(readers, best.scale, ScaleMoments(judge.sum, best.scale), rounded(fit));
  if (error < kWorth * best.plain_error) {
    best.error = error;
  } else {
    best.scale.clear();
  }
  return best;
}

}  // namespace infer
