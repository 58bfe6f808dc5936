#include "quant/prune/pruned_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "quant/algorithm/scale_search.h"

namespace infer {
namespace {

constexpr int kDescents = 8;

/// Finds the codes of one request.
class CodeFinder {
 public:
  CodeFinder(const CodesRequest& r, SecondOrder* moments)
      : r_(r), moments_(moments), least_(r.grid.from_largest ? 1 : 0), depth_(r.plane.depth()) {}

  Result<PrunedCodes> Find() {
    PrunedCodes found;
    found.matrix = r_.pruned;
    q_ = Scales();
    if (r_.way == CodeWay::kSweep) {
      INFER_ASSIGN(found.matrix, moments_->SweepCodesOf(r_.pruned, q_, least_));
    } else if (r_.way == CodeWay::kJoint) {
      INFER_ASSIGN(found.matrix, moments_->SweepCodes(q_, least_));
    }
    Encode(found.matrix.weights);
    if (r_.grid.from_largest) ReachTop();
    if (r_.way != CodeWay::kNearest) Descend(found.matrix.keep);
    found.matrix.weights = DequantizeBlocks(q_);
    found.codes = std::move(q_);
    return found;
  }

 private:
  BlockWeights Group(std::span<const float> all, size_t g) const {
    const int64_t size = r_.plane.rows * depth_;
    return {all.subspan(g * static_cast<size_t>(size), static_cast<size_t>(size)), r_.plane.rows,
            depth_};
  }
  size_t groups() const { return static_cast<size_t>(r_.plane.groups); }

  BlockQuantized Scales() const {
    const std::span<const float> weights = r_.pruned.weights;
    BlockQuantized q = EmptyBlocks(r_.plane.all_rows(), depth_, r_.grid.blocks);
    if (r_.grid.from_largest) {
      float all = 0;
      for (int64_t r = 0; r < q.rows; ++r) {
        float largest = 0;
        for (const float w : BlockWeights{weights, q.rows, depth_}.row(r))
          largest = std::max(largest, std::fabs(w));
        all = std::max(all, largest);
        q.scales[static_cast<size_t>(r)] = ScaleOf(largest);
      }
      if (r_.grid.one_scale) std::fill(q.scales.begin(), q.scales.end(), ScaleOf(all));
      return q;
    }
    q.scales.clear();
    q.zero_points.clear();
    for (size_t g = 0; g < groups(); ++g) {
      const BlockQuantized part =
          moments_ ? SearchClip(Group(weights, g), r_.grid.blocks, moments_->h(g))
                   : QuantizeNearest(Group(weights, g), r_.grid.blocks);
      q.scales.insert(q.scales.end(), part.scales.begin(), part.scales.end());
      q.zero_points.insert(q.zero_points.end(), part.zero_points.begin(), part.zero_points.end());
    }
    return q;
  }

  float ScaleOf(float largest) const {
    if (largest == 0) return 1;
    return std::max(largest / static_cast<float>(r_.grid.top()), std::numeric_limits<float>::min());
  }

  BlockParams ParamsOf(size_t at) const {
    const auto row = static_cast<int64_t>(at) / depth_, k = static_cast<int64_t>(at) % depth_;
    const auto block = static_cast<size_t>(row * q_.blocks() + k / q_.grid.BlockSize(depth_));
    return {q_.scales[block], q_.zero_points[block]};
  }

  void Encode(std::span<const float> weights) {
    for (size_t i = 0; i < weights.size(); ++i)
      q_.codes[i] =
          std::max(EncodeWeight(weights[i], ParamsOf(i), q_.grid), static_cast<uint8_t>(least_));
  }

  /// Rows, or all of them, that share a scale.
  int64_t RowsOfScale() const { return r_.grid.one_scale ? q_.rows : 1; }

  /// Where the largest code of rows [row, row + RowsOfScale()) stands.
  size_t LargestOf(int64_t row) const {
    const auto begin = static_cast<size_t>(row * depth_);
    const auto end = begin + static_cast<size_t>(RowsOfScale() * depth_);
    size_t at = begin;
    for (size_t i = begin; i < end; ++i)
      if (Reach(i) > Reach(at)) at = i;
    return at;
  }
  int Reach(size_t at) const { return std::abs(int{q_.codes[at]} - q_.grid.middle()); }

  /// Scales shrink until the largest number of each has the highest code, so that rounding to
  /// nearest finds scales and codes again.
  void ReachTop() {
    for (int64_t row = 0; row < q_.rows; row += RowsOfScale()) {
      const size_t at = LargestOf(row);
      const int reach = Reach(at);
      if (reach == 0 || reach == r_.grid.top()) continue;
      const float old = q_.scales[static_cast<size_t>(row)];
      const float scale = ScaleOf(old * static_cast<float>(reach));
      for (int64_t r = row; r < row + RowsOfScale(); ++r) {
        q_.scales[static_cast<size_t>(r)] = scale;
        for (auto i = static_cast<size_t>(r * depth_); i < static_cast<size_t>((r + 1) * depth_);
             ++i)
          q_.codes[i] = EncodeWeight(DecodeWeight(q_.codes[i], {old, q_.grid.middle()}),
                                     {scale, q_.grid.middle()}, q_.grid);
      }
    }
  }

  void Descend(const KeepMask& keep) {
    std::vector<uint8_t> free(keep.begin(), keep.end());
    for (size_t i = 0; i < free.size(); ++i)
      if (r_.dense[i] == 0) free[i] = 0;
    if (r_.grid.from_largest)
      for (int64_t row = 0; row < q_.rows; row += RowsOfScale()) free[LargestOf(row)] = 0;
    const auto size = static_cast<size_t>(r_.plane.rows * depth_);
    const auto scales = static_cast<size_t>(r_.plane.rows * q_.blocks());
    for (size_t g = 0; g < groups(); ++g) {
      const auto cut = [g](auto& from, size_t count) {
        return std::vector(from.begin() + static_cast<std::ptrdiff_t>(g * count),
                           from.begin() + static_cast<std::ptrdiff_t>((g + 1) * count));
      };
      BlockQuantized part{q_.grid,
                          r_.plane.rows,
                          depth_,
                          cut(q_.codes, size),
                          cut(q_.scales, scales),
                          cut(q_.zero_points, scales)};
      RefineCodes({moments_->target(g), r_.plane.rows, depth_}, moments_->h(g),
                  {kDescents, r_.grid.from_largest, least_,
                   std::span<const uint8_t>(free).subspan(g * size, size)},
                  part);
      std::copy(part.codes.begin(), part.codes.end(),
                q_.codes.begin() + static_cast<std::ptrdiff_t>(g * size));
      std::copy(part.scales.begin(), part.scales.end(),
                q_.scales.begin() + static_cast<std::ptrdiff_t>(g * scales));
    }
  }

  const CodesRequest& r_;
  SecondOrder* const moments_;
  const int least_;
  const int64_t depth_;
  BlockQuantized q_;
};

}  // namespace

std::string_view Name(CodeWay way) {
  switch (way) {
    case CodeWay::kNearest: return "nearest";
    case CodeWay::kSweep: return "gptq";
    case CodeWay::kJoint: return "joint";
  }
  return "";
}

Result<PrunedCodes> FindCodes(const CodesRequest& request, SecondOrder* moments) {
  return CodeFinder(request, moments).Find();
}

}  // namespace infer
