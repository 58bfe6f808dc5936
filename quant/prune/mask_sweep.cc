#include "quant/prune/mask_sweep.h"

#include <algorithm>
#include <utility>

namespace infer {
namespace {

constexpr int64_t kSweepBlock = 128;  // inputs whose mask is chosen together

/// Chooses zeros on the way of a sweep: the groups of a layer side by side.
class MaskSweep {
 public:
  MaskSweep(const MaskSweepRequest& request, std::vector<InputSweep> sweeps)
      : request_(request),
        plane_(request.plane),
        pattern_(request.pattern),
        dense_(request.dense),
        sweeps_(std::move(sweeps)) {
    scores_.resize(dense_.size());
    result_.weights.resize(dense_.size());
    if (request.decided)
      result_.keep = *request.decided;
    else
      result_.keep.assign(dense_.size(), 1);
  }

  PrunedMatrix Run() {
    const bool is_nm = pattern_.kind == SparsityPattern::Kind::kNm && !request_.decided;
    const std::vector<int64_t> cuts = DepthCuts(plane_, pattern_, kSweepBlock);
    if (is_nm && request_.units > 0) nm_cuts_ = DepthCuts(plane_, pattern_, 1);
    for (size_t b = 0; b + 1 < cuts.size(); ++b) {
      const int64_t begin = cuts[b], end = cuts[b + 1];
      if (!is_nm && !request_.decided) Drop(begin, end);
      for (size_t g = 0; g < sweeps_.size(); ++g)
        sweeps_[g].Block(begin, end - begin,
                         [&](int64_t k, std::span<const float> x, float pivot,
                             std::span<float> errors) { Fix(g, k, x, pivot, errors); });
    }
    return std::move(result_);
  }

 private:
  size_t At(size_t g, int64_t row, int64_t k) const {
    return static_cast<size_t>((static_cast<int64_t>(g) * plane_.rows + row) * plane_.depth() + k);
  }

  /// Of the inputs [begin, end) of group g, as they are now.
  void Score(size_t g, int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const auto x = sweeps_[g].x(k);
      const float pivot = sweeps_[g].pivot(k);
      for (int64_t r = 0; r < plane_.rows; ++r) {
        const float over = x[static_cast<size_t>(r)] / pivot;
        scores_[At(g, r, k)] = dense_[At(g, r, k)] == 0 ? 0 : over * over;
      }
    }
  }

  /// The block's part of the units.
  void Drop(int64_t begin, int64_t end) {
    seen_ += UnitsWithin(plane_, pattern_, begin, end);
    const double part = static_cast<double>(request_.units) * static_cast<double>(seen_) /
                        static_cast<double>(UnitsOf(plane_, pattern_));
    const int64_t until = end == plane_.depth() ? request_.units : static_cast<int64_t>(part);
    for (size_t g = 0; g < sweeps_.size(); ++g) Score(g, begin, end);
    DropLeast(plane_, pattern_, scores_, begin, end, until - dropped_, result_.keep);
    dropped_ = until;
  }

  void ChooseGroupOfInputs(size_t g, int64_t k) {
    const int64_t end = *std::upper_bound(nm_cuts_.begin(), nm_cuts_.end(), k);
    Score(g, k, end);
    const WeightPlane own{1, plane_.rows, plane_.channels, plane_.taps};
    const auto size = static_cast<size_t>(own.size());
    DropLeast(own, pattern_, std::span<const float>(scores_).subspan(g * size, size), k, end, 0,
              std::span(result_.keep).subspan(g * size, size));
  }

  void Fix(size_t g, int64_t k, std::span<const float> x, float pivot, std::span<float> errors) {
    if (std::binary_search(nm_cuts_.begin(), nm_cuts_.end(), k)) ChooseGroupOfInputs(g, k);
    for (int64_t r = 0; r < plane_.rows; ++r) {
      const size_t at = At(g, r, k);
      const auto i = static_cast<size_t>(r);
      const bool stays = result_.keep[at] && dense_[at] != 0;
      result_.weights[at] = stays ? Stored(at, x[i]) : 0.0f;
      errors[i] = (x[i] - result_.weights[at]) / pivot;
    }
  }

  /// `x`, or the nearest number that has a code.
  float Stored(size_t at, float x) const {
    if (!request_.grid) return x;
    const BlockQuantized& q = *request_.grid;
    const auto row = static_cast<int64_t>(at) / q.depth, k = static_cast<int64_t>(at) % q.depth;
    const auto block = static_cast<size_t>(row * q.blocks() + k / q.grid.BlockSize(q.depth));
    const BlockParams p{q.scales[block], q.zero_points[block]};
    return DecodeWeight(std::max(EncodeWeight(x, p, q.grid), static_cast<uint8_t>(request_.least)),
                        p);
  }

  const MaskSweepRequest& request_;
  const WeightPlane& plane_;
  const SparsityPattern& pattern_;
  std::span<const float> dense_;
  std::vector<InputSweep> sweeps_;
  std::vector<int64_t> nm_cuts_;  // where groups of N:M begin; empty: another pattern
  std::vector<float> scores_;
  int64_t seen_ = 0, dropped_ = 0;  // units
  PrunedMatrix result_;
};

}  // namespace

PrunedMatrix SweepMask(const MaskSweepRequest& request, std::vector<InputSweep> sweeps) {
  return MaskSweep(request, std::move(sweeps)).Run();
}

}  // namespace infer
