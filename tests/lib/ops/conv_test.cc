/// Conv, ConvTranspose and the geometry helper against loops written from the formulas.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "lib/ops/conv/conv_geometry.h"
#include "lib/support/strings.h"
#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

using Ints = std::vector<int64_t>;

struct Case {
  Ints kernel, strides, dilations, pads, in;
  int64_t n, c, m, groups;
};

Case RandomCase(Random& r, int rank) {
  Case k;
  for (int d = 0; d < rank; ++d) {
    k.kernel.push_back(1 + r.Below(4));
    k.strides.push_back(1 + r.Below(3));
    k.dilations.push_back(1 + r.Below(2));
    k.in.push_back((k.kernel.back() - 1) * k.dilations.back() + 1 + r.Below(rank == 1 ? 300 : 9));
  }
  for (int d = 0; d < 2 * rank; ++d) k.pads.push_back(r.Below(3));
  k.groups = 1 + r.Below(3);
  k.c = k.groups * (1 + r.Below(4));
  k.m = k.groups * (1 + r.Below(rank == 2 ? 20 : 5));
  k.n = 1 + r.Below(2);
  return k;
}

Dims Join(int64_t a, int64_t b, const Ints& rest) {
  Dims d = {a, b};
  d.insert(d.end(), rest.begin(), rest.end());
  return d;
}

/// Visits every index of an extent list.
template <typename F>
void ForIndex(const Dims& dims, F&& f) {
  Ints at(dims.size(), 0);
  for (int64_t i = 0, n = NumElements(dims); i < n; ++i) {
    f(at);
    for (size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
}

int64_t Flat(const Dims& dims, const Ints& at) {
  int64_t flat = 0;
  for (size_t d = 0; d < dims.size(); ++d) flat = flat * dims[d] + at[d];
  return flat;
}

/// y[n, m, o] = b[m] + sum x[n, c, o s - p + k d] w[m, c, k]
Tensor NaiveConv(const Case& k, const Tensor& x, const Tensor& w, const Tensor& b) {
  const size_t rank = k.kernel.size();
  Dims y_dims = {k.n, k.m};
  for (size_t d = 0; d < rank; ++d)
    y_dims.push_back(
        (k.in[d] + k.pads[d] + k.pads[rank + d] - (k.kernel[d] - 1) * k.dilations[d] - 1) /
            k.strides[d] +
        1);
  Tensor y(x.dtype(), y_dims);
  ForIndex(y_dims, [&](const Ints& o) {
    double sum = 0;
    const int64_t per_group = k.c / k.groups, group = o[1] / (k.m / k.groups);
    ForIndex(Join(1, per_group, k.kernel), [&](const Ints& p) {
      Ints xi = {o[0], group * per_group + p[1]}, wi = {o[1], p[1]};
      for (size_t d = 0; d < rank; ++d) {
        const int64_t i = o[d + 2] * k.strides[d] - k.pads[d] + p[d + 2] * k.dilations[d];
        if (i < 0 || i >= k.in[d]) return;
        xi.push_back(i);
        wi.push_back(p[d + 2]);
      }
      sum += x.At(Flat(x.dims(), xi)) * w.At(Flat(w.dims(), wi));
    });
    y.Set(Flat(y_dims, o), sum + (b.defined() ? b.At(o[1]) : 0.0));
  });
  return y;
}

/// y[n, m, i s - p + k d] += x[n, c, i] w[c, m, k]
Tensor NaiveTranspose(const Case& k, const Tensor& x, const Tensor& w, const Dims& y_dims) {
  const size_t rank = k.kernel.size();
  std::vector<double> sums(static_cast<size_t>(NumElements(y_dims)), 0.0);
  const int64_t m_per_group = k.m / k.groups;
  ForIndex(x.dims(), [&](const Ints& xi) {
    const int64_t group = xi[1] / (k.c / k.groups);
    ForIndex(Join(1, m_per_group, k.kernel), [&](const Ints& p) {
      Ints yi = {xi[0], group * m_per_group + p[1]}, wi = {xi[1], p[1]};
      for (size_t d = 0; d < rank; ++d) {
        const int64_t o = xi[d + 2] * k.strides[d] - k.pads[d] + p[d + 2] * k.dilations[d];
        if (o < 0 || o >= y_dims[d + 2]) return;
        yi.push_back(o);
        wi.push_back(p[d + 2]);
      }
      sums[static_cast<size_t>(Flat(y_dims, yi))] +=
          x.At(Flat(x.dims(), xi)) * w.At(Flat(w.dims(), wi));
    });
  });
  Tensor y(x.dtype(), y_dims);
  for (size_t i = 0; i < sums.size(); ++i) y.Set(static_cast<int64_t>(i), sums[i]);
  return y;
}

TEST(Conv, EqualsTheFormulaOnGeneratedShapes) {
  const uint64_t seeds = std::getenv("INFER_SANITIZED") ? 30 : 90;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    const Case k = RandomCase(r, 1 + static_cast<int>(seed % 3));
    const DType t = seed % 5 == 4 ? DType::kF64 : DType::kF32;
    const Tensor x = RandomTensor(r, t, Join(k.n, k.c, k.in));
    const Tensor w = RandomTensor(r, t, Join(k.m, k.c / k.groups, k.kernel));
    const Tensor b = seed % 2 ? RandomTensor(r, t, {k.m}) : Tensor();
    const OpResult got = RunOp(
        "Conv",
        {{"strides", k.strides}, {"dilations", k.dilations}, {"pads", k.pads}, {"group", k.groups}},
        {x, w, b});
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    const Tensor want = NaiveConv(k, x, w, b);
    EXPECT_LE(RelativeError(got.y(), want), t == DType::kF64 ? 1e-13 : 1e-6);
    const int64_t macs = want.num_elements() * (k.c / k.groups) * NumElements(k.kernel);
    EXPECT_EQ(got.cost.flops, 2 * macs + (b.defined() ? want.num_elements() : 0));
  }
}

TEST(Conv, NarrowTypesAreRoundedOnce) {
  for (DType t : {DType::kF16, DType::kBF16}) {
    Random r(3);
    const Tensor x = RandomTensor(r, t, {1, 3, 8, 8}), w = RandomTensor(r, t, {4, 3, 3, 3});
    const OpResult narrow = RunOp("Conv", {}, {x, w});
    const OpResult wide = RunOp("Conv", {}, {x.Cast(DType::kF32), w.Cast(DType::kF32)});
    EXPECT_TRUE(BitEqual(narrow.y(), wide.y().Cast(t)));
  }
}

TEST(Conv, AutoPadGivesTheStatedExtentsAndPads) {
  struct Row {
    std::string mode;
    int64_t in, kernel, stride, dilation, out, begin, end;
  };
  for (const Row& c : std::vector<Row>{{"SAME_UPPER", 5, 2, 1, 1, 5, 0, 1},
                                       {"SAME_LOWER", 5, 2, 1, 1, 5, 1, 0},
                                       {"SAME_UPPER", 7, 3, 2, 1, 4, 1, 1},
                                       {"SAME_UPPER", 8, 3, 2, 1, 4, 0, 1},
                                       {"SAME_LOWER", 8, 3, 2, 1, 4, 1, 0},
                                       {"SAME_UPPER", 4, 1, 3, 1, 2, 0, 0},
                                       {"SAME_UPPER", 6, 3, 1, 2, 6, 2, 2},
                                       {"VALID", 8, 3, 2, 1, 3, 0, 0}}) {
    Random r(1);
    const Tensor x = RandomTensor(r, DType::kF32, {1, 1, c.in});
    const Tensor w = RandomTensor(r, DType::kF32, {1, 1, c.kernel});
    const AttrMap base = {{"strides", Ints{c.stride}}, {"dilations", Ints{c.dilation}}};
    AttrMap automatic = base, explicit_pads = base;
    automatic["auto_pad"] = c.mode;
    explicit_pads["pads"] = Ints{c.begin, c.end};
    const OpResult a = RunOp("Conv", automatic, {x, w}), e = RunOp("Conv", explicit_pads, {x, w});
    ASSERT_TRUE(a.status.ok()) << a.status.message();
    EXPECT_EQ(a.y().dim(2), c.out);
    EXPECT_TRUE(BitEqual(a.y(), e.y())) << c.mode << " in " << c.in << " kernel " << c.kernel;
  }
}

TEST(Conv, SymbolicExtentsStaySymbolic) {
  const OpDef& def = *TestOps().Find("Conv");
  const Dim n = Dim::Symbol("N"), h = Dim::Symbol("H");
  const Shape w(Dims{8, 3, 3, 3});
  auto shape = [&](const AttrMap& attrs) {
    return ConvOutputShape(def, attrs, Shape({n, Dim(3), h, Dim(9)}), w);
  };
  EXPECT_EQ(shape({{"pads", Ints{1, 1, 1, 1}}})->ToString(), "[N,8,H,9]");
  EXPECT_EQ(shape({})->ToString(), "[N,8,H-2,7]");
  const AttrMap same = {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}};
  EXPECT_EQ((*shape(same))[2], h.CeilDiv(2));
  EXPECT_EQ((*shape(same))[3], Dim(5));
}

TEST(Conv, BrokenShapesAreRefusedWithAReason) {
  Random r(1);
  const Tensor x = RandomTensor(r, DType::kF32, {1, 4, 5, 5});
  auto message = [&](const AttrMap& attrs, const Dims& w, const std::string& op = "Conv") {
    return RunOp(op, attrs, {x, Tensor::Zeros(DType::kF32, w)}).status.message();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message({}, {2, 3, 3, 3}), HasSubstr("channels do not fit"));
  EXPECT_THAT(message({}, {2, 4, 3}), HasSubstr("ranks differ"));
  EXPECT_THAT(message({}, {2, 4, 6, 6}), HasSubstr("does not fit"));
  EXPECT_THAT(message({{"group", int64_t{0}}}, {2, 4, 3, 3}), HasSubstr("group is 0"));
  EXPECT_THAT(message({{"group", int64_t{2}}}, {3, 2, 3, 3}), HasSubstr("does not divide"));
  EXPECT_THAT(message({{"pads", Ints{1, 1}}}, {2, 4, 3, 3}), HasSubstr("pads has 2 values"));
  EXPECT_THAT(message({{"strides", Ints{0, 1}}}, {2, 4, 3, 3}), HasSubstr("out of range"));
  EXPECT_THAT(message({{"kernel_shape", Ints{3, 2}}}, {2, 4, 3, 3}), HasSubstr("kernel_shape"));
  EXPECT_THAT(message({{"auto_pad", std::string("SAME")}}, {2, 4, 3, 3}), HasSubstr("auto_pad"));
  EXPECT_THAT(message({{"dilations", Ints{int64_t{1} << 31, 1}}}, {2, 4, 3, 3}),
              HasSubstr("too large"));
}

TEST(Conv, EmptyBatchGivesAnEmptyResult) {
  const OpResult got =
      RunOp("Conv", {},
            {Tensor::Zeros(DType::kF32, {0, 2, 4, 4}), Tensor::Zeros(DType::kF32, {3, 2, 3, 3})});
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  EXPECT_EQ(got.y().dims(), (Dims{0, 3, 2, 2}));
}

TEST(ConvTranspose, EqualsTheFormulaOnGeneratedShapes) {
  const uint64_t seeds = std::getenv("INFER_SANITIZED") ? 15 : 45;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    const int rank = 1 + static_cast<int>(seed % 3);
    Case k = RandomCase(r, rank);
    if (rank == 1) k.in[0] = std::min<int64_t>(k.in[0], 40);
    const auto ranks = static_cast<size_t>(rank);
    Dims y_dims = {k.n, k.m};
    Ints padding;
    for (size_t d = 0; d < ranks; ++d) {
      padding.push_back(r.Below(static_cast<uint32_t>(k.strides[d])));
      const int64_t full =
          k.strides[d] * (k.in[d] - 1) + padding[d] + (k.kernel[d] - 1) * k.dilations[d] + 1;
      if (full <= k.pads[d] + k.pads[ranks + d]) k.pads[d] = k.pads[ranks + d] = 0;
      y_dims.push_back(full - k.pads[d] - k.pads[ranks + d]);
    }
    const Tensor x = RandomTensor(r, DType::kF32, Join(k.n, k.c, k.in));
    const Tensor w = RandomTensor(r, DType::kF32, Join(k.c, k.m / k.groups, k.kernel));
    const OpResult got = RunOp("ConvTranspose",
                               {{"strides", k.strides},
                                {"dilations", k.dilations},
                                {"pads", k.pads},
                                {"output_padding", padding},
                                {"group", k.groups}},
                               {x, w});
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    EXPECT_LE(RelativeError(got.y(), NaiveTranspose(k, x, w, y_dims)), 1e-6);
    EXPECT_EQ(got.cost.flops, 2 * x.num_elements() * (k.m / k.groups) * NumElements(k.kernel));
  }
}

TEST(ConvTranspose, OutputShapeSetsThePads) {
  Random r(5);
  const Tensor x = RandomTensor(r, DType::kF32, {1, 2, 4});
  const Tensor w = RandomTensor(r, DType::kF32, {2, 3, 3});
  // The full extent is 2 * 3 + 3 = 9; asking for 8 takes one away, at the beginning by default.
  const AttrMap strides = {{"strides", Ints{2}}};
  auto with = [&](AttrMap more) {
    more.insert(strides.begin(), strides.end());
    const OpResult got = RunOp("ConvTranspose", more, {x, w});
    EXPECT_TRUE(got.status.ok()) << got.status.message();
    return got.y();
  };
  const std::string upper = "SAME_UPPER", lower = "SAME_LOWER";
  EXPECT_TRUE(BitEqual(with({{"output_shape", Ints{8}}}), with({{"pads", Ints{1, 0}}})));
  EXPECT_TRUE(BitEqual(with({{"output_shape", Ints{8}}, {"auto_pad", upper}}),
                       with({{"pads", Ints{0, 1}}})));
  EXPECT_TRUE(BitEqual(with({{"auto_pad", upper}}), with({{"pads", Ints{0, 1}}})));
  EXPECT_TRUE(BitEqual(with({{"auto_pad", lower}}), with({{"pads", Ints{1, 0}}})));
  // More than the full extent: zeros at the end.
  const Tensor large = with({{"output_shape", Ints{11}}});
  EXPECT_EQ(large.dim(2), 11);
  EXPECT_EQ(large.At(10), 0);
}

}  // namespace
}  // namespace infer
