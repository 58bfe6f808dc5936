/// Pooling against loops written from the formulas, and the corner cases of the specification.
#include <gmock/gmock.h>

#include <cmath>

#include "lib/support/strings.h"
#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

using Ints = std::vector<int64_t>;

struct Pooled {
  double max = -INFINITY, sum = 0, cubes = 0;
  int64_t count = 0, padded = 0, index = -1;
};

/// All statistics of one window of a 2-D plane, element by element.
Pooled Window2D(const Tensor& x, int64_t plane, const Ints& k, const Ints& s, const Ints& d,
                const Ints& p, int64_t oh, int64_t ow) {
  Pooled r;
  const int64_t h = x.dim(2), w = x.dim(3);
  for (int64_t a = 0; a < k[0]; ++a)
    for (int64_t b = 0; b < k[1]; ++b) {
      const int64_t ih = oh * s[0] - p[0] + a * d[0], iw = ow * s[1] - p[1] + b * d[1];
      if (ih < h + p[2] && iw < w + p[3]) ++r.padded;
      if (ih < 0 || ih >= h || iw < 0 || iw >= w) continue;
      const double v = x.At((plane * h + ih) * w + iw);
      if (v > r.max) r.max = v, r.index = (plane * h + ih) * w + iw;
      r.sum += v;
      r.cubes += std::abs(v * v * v);
      ++r.count;
    }
  return r;
}

TEST(Pool, EqualsTheFormulaOnGeneratedShapes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    Ints k, s, d, p(4), in;
    for (int i = 0; i < 2; ++i) {
      k.push_back(1 + r.Below(3));
      s.push_back(1 + r.Below(3));
      d.push_back(1 + r.Below(2));
      const int64_t extent = (k.back() - 1) * d.back() + 1;
      p[static_cast<size_t>(i)] = r.Below(static_cast<uint32_t>(k.back()));
      p[static_cast<size_t>(i + 2)] = r.Below(static_cast<uint32_t>(k.back()));
      in.push_back(extent + r.Below(8));
    }
    const bool ceil = seed % 3 == 1, include = seed % 2;
    const Tensor x = RandomTensor(r, DType::kF32, {2, 3, in[0], in[1]});
    AttrMap attrs = {{"kernel_shape", k},
                     {"strides", s},
                     {"dilations", d},
                     {"pads", p},
                     {"ceil_mode", int64_t{ceil}}};
    const OpResult max = RunOp("MaxPool", attrs, {x}, 2);
    attrs["p"] = int64_t{3};
    const OpResult lp = RunOp("LpPool", attrs, {x});
    attrs.erase("p");
    attrs["count_include_pad"] = int64_t{include};
    const OpResult avg = RunOp("AveragePool", attrs, {x});
    ASSERT_TRUE(max.status.ok() && lp.status.ok() && avg.status.ok()) << avg.status.message();
    Dims out = {2, 3};
    for (size_t i = 0; i < 2; ++i) {
      const double room = static_cast<double>(in[i] + p[i] + p[i + 2] - (k[i] - 1) * d[i] - 1) /
                          static_cast<double>(s[i]);
      auto o = static_cast<int64_t>(ceil ? std::ceil(room) : std::floor(room)) + 1;
      if (ceil && (o - 1) * s[i] >= in[i] + p[i]) --o;
      out.push_back(o);
    }
    ASSERT_EQ(max.y().dims(), out);
    for (int64_t i = 0; i < NumElements(out); ++i) {
      const Pooled want =
          Window2D(x, i / (out[2] * out[3]), k, s, d, p, i / out[3] % out[2], i % out[3]);
      EXPECT_EQ(max.y().At(i), want.max);
      EXPECT_EQ(max.outputs[1].IntAt(i), want.index);
      EXPECT_NEAR(lp.y().At(i), std::cbrt(want.cubes), 1e-5);
      if (include || want.count) {
        EXPECT_NEAR(avg.y().At(i),
                    want.sum / static_cast<double>(include ? want.padded : want.count), 1e-6);
      }
    }
    EXPECT_EQ(avg.cost.flops, NumElements(out) * k[0] * k[1]);
  }
}

TEST(MaxPool, TakesEveryTypeOfTheSchema) {
  const AttrMap attrs = {{"kernel_shape", Ints{2}}};
  for (DType t : {DType::kI8, DType::kU8, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    Tensor x(t, {1, 1, 4});
    const double values[] = {3, 9, 1, 2};
    for (int64_t i = 0; i < 4; ++i) x.Set(i, values[i]);
    const OpResult got = RunOp("MaxPool", attrs, {x}, 2);
    ASSERT_TRUE(got.status.ok()) << Name(t) << got.status.message();
    EXPECT_EQ(got.y().dtype(), t);
    EXPECT_THAT(got.y().ToFloats(), ::testing::ElementsAre(9, 9, 2)) << Name(t);
    EXPECT_THAT(got.outputs[1].ToInts(), ::testing::ElementsAre(1, 1, 3));
  }
}

TEST(MaxPool, StorageOrderCountsColumnsFirst) {
  const Tensor x = Tensor::Of<float>({1, 1, 2, 3}, {0, 5, 1, 2, 3, 4});
  const OpResult got =
      RunOp("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"storage_order", int64_t{1}}}, {x}, 2);
  EXPECT_THAT(got.outputs[1].ToInts(), ::testing::ElementsAre(2, 2));  // row 0, column 1 of 2 rows
}

TEST(MaxPool, PadsAsLargeAsTheKernelAreRefused) {
  const OpResult got = RunOp("MaxPool", {{"kernel_shape", Ints{2}}, {"pads", Ints{2, 0}}},
                             {Tensor::Zeros(DType::kF32, {1, 1, 4})});
  EXPECT_THAT(got.status.message(), ::testing::HasSubstr("without data"));
}

TEST(GlobalPool, ReducesAllSpatialAxes) {
  Random r(4);
  const Tensor x = RandomTensor(r, DType::kF32, {2, 3, 4, 5});
  const Tensor avg = RunOp("GlobalAveragePool", {}, {x}).y();
  const Tensor max = RunOp("GlobalMaxPool", {}, {x}).y();
  const Tensor norm = RunOp("GlobalLpPool", {{"p", int64_t{2}}}, {x}).y();
  EXPECT_EQ(avg.dims(), (Dims{2, 3, 1, 1}));
  for (int64_t c = 0; c < 6; ++c) {
    const Pooled want = Window2D(x, c, {4, 5}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 0, 0);
    EXPECT_NEAR(avg.At(c), want.sum / 20, 1e-6);
    EXPECT_EQ(max.At(c), want.max);
    double squares = 0;
    for (int64_t i = 0; i < 20; ++i) squares += x.At(c * 20 + i) * x.At(c * 20 + i);
    EXPECT_NEAR(norm.At(c), std::sqrt(squares), 1e-5);
  }
}

TEST(MaxUnpool, PutsMaximaBack) {
  Random r(4);
  const Tensor x = RandomTensor(r, DType::kF32, {2, 2, 6, 6});
  const AttrMap attrs = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const OpResult pooled = RunOp("MaxPool", attrs, {x}, 2);
  const OpResult back = RunOp("MaxUnpool", attrs, {pooled.y(), pooled.outputs[1]});
  ASSERT_TRUE(back.status.ok()) << back.status.message();
  ASSERT_EQ(back.y().dims(), x.dims());
  int64_t kept = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    if (back.y().At(i) == 0) continue;
    EXPECT_EQ(back.y().At(i), x.At(i));
    ++kept;
  }
  EXPECT_EQ(kept, pooled.y().num_elements());
  const OpResult wild =
      RunOp("MaxUnpool", attrs,
            {Tensor::Zeros(DType::kF32, {1, 1, 1, 1}), Tensor::Of<int64_t>({1, 1, 1, 1}, {99})});
  EXPECT_THAT(wild.status.message(), ::testing::HasSubstr("outside"));
}

}  // namespace
}  // namespace infer
