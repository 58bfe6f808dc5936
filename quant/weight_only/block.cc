#include "quant/weight_only/block.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr float kSmallestScale = std::numeric_limits<float>::min();
constexpr int64_t kGrain = 1 << 14;  // elements that are worth a thread

int64_t RowGrain(int64_t depth) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, depth));
}

/// At least the smallest normal number in magnitude, so that x / scale stays finite.
float ToScale(double s) {
  const auto f = static_cast<float>(s);
  if (std::fabs(f) >= kSmallestScale) return f;
  return f < 0 ? -kSmallestScale : kSmallestScale;
}

struct Sums {
  double error = 0, weight = 0;
};

Sums Compare(const BlockWeights& w, const BlockQuantized& q, std::span<const float> importance) {
  INFER_CHECK(w.rows == q.rows && w.depth == q.depth);
  const std::vector<float> real = DequantizeBlocks(q);
  Sums sums;
  for (int64_t r = 0; r < w.rows; ++r) {
    const auto a = w.row(r);
    const float* const b = real.data() + r * w.depth;
    for (size_t k = 0; k < a.size(); ++k) {
      const double by = importance.empty() ? 1 : static_cast<double>(importance[k]);
      const double d = static_cast<double>(a[k]) - static_cast<double>(b[k]);
      sums.error += by * d * d;
      sums.weight += by * static_cast<double>(a[k]) * static_cast<double>(a[k]);
    }
  }
  return sums;
}

}  // namespace

Status CheckGrid(const BlockGrid& grid) {
  if (grid.bits != 2 && grid.bits != 4 && grid.bits != 8)
    return InvalidArgument(Cat("weights of ", grid.bits, " bits; 2, 4 and 8 are known"));
  for (const int64_t block : {0, 16, 32, 64, 128, 256})
    if (grid.block == block) return {};
  return InvalidArgument(
      Cat("blocks of ", grid.block, "; 16, 32, 64, 128, 256 and 0 (a scale per output) are known"));
}

std::string ToString(const BlockGrid& grid) {
  return Cat("int", grid.bits, ", ",
             grid.block == 0 ? std::string("per output") : Cat("blocks of ", grid.block), ", ",
             grid.symmetric ? "symmetric" : "asymmetric");
}

BlockParams ChooseBlockParams(std::span<const float> block, const BlockGrid& grid) {
  float lo = 0, hi = 0;
  for (const float x : block) {
    lo = std::min(lo, x);
    hi = std::max(hi, x);
  }
  BlockParams p{1, grid.middle()};
  if (grid.symmetric) {
    const double down = static_cast<double>(lo) / -grid.middle();
    const double up = static_cast<double>(hi) / (grid.middle() - 1);
    const float largest = -lo >= hi ? lo : hi;
    if (largest == 0) return p;
    p.scale =
        ToScale(grid.positive ? std::max(down, up) : static_cast<double>(largest) / -grid.middle());
    return p;
  }
  if (hi == lo) return p;
  const double extent = static_cast<double>(hi) - static_cast<double>(lo);
  p.scale = ToScale(extent / grid.max_code());
  const double zero = -static_cast<double>(lo) / static_cast<double>(p.scale);
  p.zero_point =
      static_cast<int>(std::clamp(std::nearbyint(zero), 0.0, static_cast<double>(grid.max_code())));
  return p;
}

uint8_t EncodeWeight(float x, const BlockParams& p, const BlockGrid& grid) {
  const float q = std::nearbyint(x / p.scale) + static_cast<float>(p.zero_point);
  return static_cast<uint8_t>(std::clamp(q, 0.0f, static_cast<float>(grid.max_code())));
}

BlockQuantized EmptyBlocks(int64_t rows, int64_t depth, const BlockGrid& grid) {
  BlockQuantized q{
      .grid = grid, .rows = rows, .depth = depth, .codes = {}, .scales = {}, .zero_points = {}};
  const auto scales = static_cast<size_t>(rows * grid.BlocksOf(depth));
  q.codes.assign(static_cast<size_t>(rows * depth), static_cast<uint8_t>(grid.middle()));
  q.scales.assign(scales, 1.0f);
  q.zero_points.assign(scales, static_cast<uint8_t>(grid.middle()));
  return q;
}

BlockQuantized QuantizeNearest(const BlockWeights& w, const BlockGrid& grid) {
  BlockQuantized q = EmptyBlocks(w.rows, w.depth, grid);
  const int64_t blocks = q.blocks(), size = grid.BlockSize(w.depth);
  ParallelFor(w.rows, RowGrain(w.depth), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t from = b * size, count = std::min(size, w.depth - from);
        const auto block = w.row(r).subspan(static_cast<size_t>(from), static_cast<size_t>(count));
        const BlockParams p = ChooseBlockParams(block, grid);
        q.scales[static_cast<size_t>(r * blocks + b)] = p.scale;
        q.zero_points[static_cast<size_t>(r * blocks + b)] = static_cast<uint8_t>(p.zero_point);
        uint8_t* const out = q.codes.data() + r * w.depth + from;
        for (size_t i = 0; i < block.size(); ++i) out[i] = EncodeWeight(block[i], p, grid);
      }
  });
  return q;
}

std::vector<float> DequantizeBlocks(const BlockQuantized& q) {
  std::vector<float> real(q.codes.size());
  const int64_t blocks = q.blocks(), size = q.grid.BlockSize(q.depth);
  ParallelFor(q.rows, RowGrain(q.depth), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t b = 0; b < blocks; ++b) {
        const auto at = static_cast<size_t>(r * blocks + b);
        const BlockParams p{q.scales[at], q.zero_points[at]};
        for (int64_t k = b * size; k < std::min((b + 1) * size, q.depth); ++k) {
          const auto i = static_cast<size_t>(r * q.depth + k);
          real[i] = DecodeWeight(q.codes[i], p);
        }
      }
  });
  return real;
}

double SquaredError(const BlockWeights& w, const BlockQuantized& q,
                    std::span<const float> importance) {
  return Compare(w, q, importance).error;
}

double RelativeError(const BlockWeights& w, const BlockQuantized& q,
                     std::span<const float> importance) {
  const Sums sums = Compare(w, q, importance);
  return sums.weight > 0 ? std::sqrt(sums.error / sums.weight) : 0;
}

}  // namespace infer
