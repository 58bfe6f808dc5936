#include "quant/prune/choose.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/quant/algorithm/correlated.h"

namespace infer {
namespace {

/// Moments of `groups` groups over rows of correlated data; `noise` is added to what the pruned
/// model reads.
MomentsPair SomeMoments(const WeightPlane& plane, std::span<const float> dense, int64_t count,
                        float noise = 0) {
  MomentsPair pair;
  const int64_t d = plane.depth();
  for (int64_t g = 0; g < plane.groups; ++g)
    for (const bool held : {false, true}) {
      const auto x = CorrelatedRows(count, d, 5, static_cast<uint64_t>(100 + 2 * g + held));
      std::vector<float> now = x;
      Random random(9);
      for (float& v : now) v += noise * static_cast<float>(random.Normal());
      LayerMoments m;
      m.rows = count;
      m.h = MomentsOf(now, d).sum;
      m.squares.resize(static_cast<size_t>(d));
      m.sum_x = m.squares;
      m.sum_y.resize(static_cast<size_t>(plane.rows));
      std::vector<double> c(static_cast<size_t>(d * plane.rows));
      for (int64_t i = 0; i < count; ++i)
        for (int64_t r = 0; r < plane.rows; ++r) {
          double y = 0;
          for (int64_t k = 0; k < d; ++k)
            y += double{x[static_cast<size_t>(i * d + k)]} *
                 dense[static_cast<size_t>((g * plane.rows + r) * d + k)];
          m.energy += y * y;
          m.sum_y[static_cast<size_t>(r)] += y;
          for (int64_t k = 0; k < d; ++k)
            c[static_cast<size_t>(k * plane.rows + r)] += now[static_cast<size_t>(i * d + k)] * y;
        }
      m.c.assign(c.begin(), c.end());
      for (int64_t i = 0; i < count; ++i)
        for (int64_t k = 0; k < d; ++k) {
          const double v = now[static_cast<size_t>(i * d + k)];
          m.squares[static_cast<size_t>(k)] += v * v;
          m.sum_x[static_cast<size_t>(k)] += v;
        }
      (held ? pair.held_out : pair.fit).push_back(std::move(m));
    }
  return pair;
}

class ChooseTest : public testing::TestWithParam<std::string> {
 protected:
  static SparsityPattern Pattern() {
    const std::string text = GetParam();
    if (text.find(':') != std::string::npos) return *ParseNm(text);
    if (text.find('x') != std::string::npos) return *ParseBlocks(text);
    SparsityPattern p;
    p.share = std::stod(text);
    return p;
  }
  LayerJob Job(PruneMethod method, bool shift = false) const {
    const SparsityPattern p = Pattern();
    return {plane_, dense_, p, UnitsToZero(UnitsOf(plane_, p), p), method, shift};
  }
  int64_t ExpectedZeros() const {
    const LayerJob job = Job(PruneMethod::kMagnitude);
    return ZerosIn(KeepBest(plane_, job.pattern, MagnitudeScores(dense_), job.units));
  }
  WeightPlane plane_{1, 24, 48, 1};
  std::vector<float> dense_ = NormalWeights(plane_.size(), 3);
};

TEST_P(ChooseTest, SecondOrderErrsLessThanWandaAndWandaLessThanMagnitude) {
  const MomentsPair m = SomeMoments(plane_, dense_, 2000);
  double error[4];
  for (const PruneMethod method : {PruneMethod::kAuto, PruneMethod::kSparseGpt, PruneMethod::kWanda,
                                   PruneMethod::kMagnitude}) {
    const LayerResult r = PruneLayer(Job(method), m);
    error[static_cast<int>(method)] = r.error;
    EXPECT_EQ(ZerosIn(r.matrix.keep), ExpectedZeros()) << Name(method);
    for (size_t i = 0; i < r.matrix.keep.size(); ++i) {
      if (!r.matrix.keep[i]) {
        ASSERT_EQ(r.matrix.weights[i], 0) << Name(method);
      }
    }
  }
  EXPECT_LE(error[0], error[3] * 1.0001);
  EXPECT_LT(error[3], error[2]);
  EXPECT_LT(error[2], error[1]);
}

TEST_P(ChooseTest, RefittedWeightsAreTheBestOfTheirMask) {
  // At the least squares the residual is orthogonal to every input that is left.
  const MomentsPair m = SomeMoments(plane_, dense_, 2000);
  const LayerJob job = Job(PruneMethod::kAuto);
  SecondOrderOptions options;
  options.damping = 1e-4;
  auto s = SecondOrder::Make(plane_, dense_, job.pattern, job.units, m.fit, options);
  ASSERT_TRUE(s.ok());
  const auto swept = s->Sweep();
  ASSERT_TRUE(swept.ok());
  const PrunedMatrix p = s->Refit(swept->keep, swept->weights);
  const double error = PrunedError(plane_, p, m.fit);
  EXPECT_LE(error, PrunedError(plane_, *swept, m.fit) * 1.0001);
  Random random(5);
  for (int k = 0; k < 50; ++k) {
    PrunedMatrix moved = p;
    for (size_t i = 0; i < moved.weights.size(); ++i)
      if (p.keep[i]) moved.weights[i] += 0.01f * static_cast<float>(random.Normal());
    EXPECT_GT(PrunedError(plane_, moved, m.fit), error);
  }
}

TEST_P(ChooseTest, MakesUpForWhatTheLayersBeforeHaveLost) {
  const MomentsPair m = SomeMoments(plane_, dense_, 2000, 0.5f);
  const LayerResult automatic = PruneLayer(Job(PruneMethod::kAuto, true), m);
  const LayerResult sweep = PruneLayer(Job(PruneMethod::kSparseGpt), m);
  EXPECT_LT(automatic.error, 0.98 * sweep.error);
  EXPECT_GT(automatic.dense_error, 0);
}

TEST_P(ChooseTest, SingularMomentsAndDeadInputs) {
  // Fewer rows than inputs, and inputs that are always 0: H cannot be inverted as it is.
  MomentsPair m = SomeMoments(plane_, dense_, 20);
  for (auto* part : {&m.fit, &m.held_out})
    for (LayerMoments& x : *part)
      for (const int64_t dead : {0, 7})
        for (int64_t k = 0; k < plane_.depth(); ++k) {
          x.h[static_cast<size_t>(dead * plane_.depth() + k)] = 0;
          x.h[static_cast<size_t>(k * plane_.depth() + dead)] = 0;
          x.squares[static_cast<size_t>(dead)] = x.sum_x[static_cast<size_t>(dead)] = 0;
          if (k < plane_.rows) x.c[static_cast<size_t>(dead * plane_.rows + k)] = 0;
        }
  for (const PruneMethod method : {PruneMethod::kAuto, PruneMethod::kSparseGpt}) {
    const LayerResult r = PruneLayer(Job(method), m);
    EXPECT_EQ(ZerosIn(r.matrix.keep), ExpectedZeros());
    for (const float w : r.matrix.weights) ASSERT_TRUE(std::isfinite(w));
  }
}

TEST_P(ChooseTest, WithoutFiniteDataMagnitudeIsLeft) {
  MomentsPair m = SomeMoments(plane_, dense_, 100);
  m.fit[0].h[5] = NAN;
  const LayerResult r = PruneLayer(Job(PruneMethod::kAuto), m);
  EXPECT_EQ(r.method, "magnitude");
  EXPECT_THAT(r.note, testing::HasSubstr("NaN"));
  EXPECT_EQ(PruneLayer(Job(PruneMethod::kAuto), {}).method, "magnitude");
  EXPECT_EQ(ZerosIn(r.matrix.keep), ExpectedZeros());
}

TEST_P(ChooseTest, GroupsArePrunedTogetherByTheirOwnMoments) {
  plane_ = {3, 8, 8, 2};
  dense_ = NormalWeights(plane_.size(), 3);
  const MomentsPair m = SomeMoments(plane_, dense_, 400);
  const LayerResult r = PruneLayer(Job(PruneMethod::kAuto, true), m);
  EXPECT_EQ(ZerosIn(r.matrix.keep), ExpectedZeros());
  EXPECT_LT(r.error, r.magnitude_error);
  const LayerResult swept = PruneLayer(Job(PruneMethod::kSparseGpt), m);
  EXPECT_EQ(ZerosIn(swept.matrix.keep), ExpectedZeros());
  EXPECT_LT(swept.error, r.magnitude_error);
}

TEST_P(ChooseTest, ZerosOfTheDenseWeightsStay) {
  for (size_t i = 0; i < dense_.size(); i += 5) dense_[i] = 0;
  const MomentsPair m = SomeMoments(plane_, dense_, 500);
  for (const PruneMethod method : {PruneMethod::kAuto, PruneMethod::kSparseGpt}) {
    const LayerResult r = PruneLayer(Job(method), m);
    for (size_t i = 0; i < dense_.size(); i += 5) ASSERT_EQ(r.matrix.weights[i], 0);
  }
}

/// Of a grid whose scales the weights alone tell: every row reaches the highest code.
void ExpectCodesOf(const LayerResult& r, const WeightGrid& grid, const WeightPlane& plane) {
  const BlockQuantized& q = *r.codes;
  EXPECT_EQ(r.matrix.weights, DequantizeBlocks(q));
  for (int64_t row = 0; row < plane.all_rows(); ++row) {
    int reach = 0;
    float largest = 0;
    for (int64_t k = 0; k < plane.depth(); ++k) {
      const auto i = static_cast<size_t>(row * plane.depth() + k);
      reach = std::max(reach, std::abs(int{q.codes[i]} - q.grid.middle()));
      largest = std::max(largest, std::abs(r.matrix.weights[i]));
    }
    ASSERT_EQ(reach, grid.top()) << row;
    // Rounding to nearest finds the codes again.
    const float scale = largest / static_cast<float>(grid.top());
    for (int64_t k = 0; k < plane.depth(); ++k) {
      const auto i = static_cast<size_t>(row * plane.depth() + k);
      ASSERT_EQ(static_cast<int>(std::nearbyint(r.matrix.weights[i] / scale)),
                int{q.codes[i]} - q.grid.middle());
    }
  }
}

TEST_P(ChooseTest, CodesKeepTheZerosAndErrLessThanRoundingAfterwards) {
  for (size_t i = 0; i < dense_.size(); i += 9) dense_[i] = 0;
  const MomentsPair m = SomeMoments(plane_, dense_, 2000);
  LayerJob job = Job(PruneMethod::kAuto);
  const LayerResult pruned = PruneLayer(job, m);
  for (const WeightGrid& grid :
       {WeightGrid{{4, 0, true, true}, true, false}, WeightGrid{{4, 16, true, false}, false, false},
        WeightGrid{{4, 16, false, false}, false, false}, IntegerGrid(false, false)}) {
    job.grid = &grid;
    const LayerResult r = PruneLayer(job, m);
    ASSERT_TRUE(r.codes) << r.method;
    EXPECT_EQ(ZerosIn(r.matrix.keep), ExpectedZeros());
    for (size_t i = 0; i < dense_.size(); ++i)
      if (!r.matrix.keep[i] || dense_[i] == 0) {
        ASSERT_EQ(r.matrix.weights[i], 0) << r.method;
      }
    if (grid.from_largest) ExpectCodesOf(r, grid, plane_);
    PrunedMatrix after = pruned.matrix;
    after.weights = DequantizeBlocks(
        QuantizeNearest({pruned.matrix.weights, plane_.all_rows(), plane_.depth()}, grid.blocks));
    // Of 8 bits the zeros are nearly all of the error.
    EXPECT_LT(PrunedError(plane_, r.matrix, m.held_out),
              (grid.blocks.bits == 4 ? 0.95 : 1.01) * PrunedError(plane_, after, m.held_out))
        << r.method;
  }
}

TEST_P(ChooseTest, CodesOfOneScaleAndWithoutData) {
  const WeightGrid grid = IntegerGrid(/*reduce_range=*/true, /*one_scale=*/true);
  for (const bool data : {true, false}) {
    LayerJob job = Job(PruneMethod::kAuto);
    job.grid = &grid;
    const LayerResult r = PruneLayer(job, data ? SomeMoments(plane_, dense_, 500) : MomentsPair());
    ASSERT_TRUE(r.codes);
    const std::vector<uint8_t>& codes = r.codes->codes;
    EXPECT_EQ(*std::min_element(codes.begin(), codes.end()) == 1 ||
                  *std::max_element(codes.begin(), codes.end()) == 127,
              true);
    EXPECT_GE(*std::min_element(codes.begin(), codes.end()), 1);
    for (const float scale : r.codes->scales) ASSERT_EQ(scale, r.codes->scales[0]);
    EXPECT_EQ(ZerosIn(r.matrix.keep), ExpectedZeros());
    if (!data) {
      EXPECT_EQ(r.method, "magnitude+nearest");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, ChooseTest,
                         testing::Values("0.5", "0.7", "2:4", "4:8", "1x4", "4x1"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '.' || c == ':') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace infer
