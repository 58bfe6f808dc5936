#include "quant/algorithm/fold_scales.h"

#include <gmock/gmock.h>

#include "lib/support/strings.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

BlockQuantized Plain(const BlockWeights& w, const BlockGrid& grid, std::span<const float>,
                     int64_t) {
  return QuantizeNearest(w, grid);
}

class FoldScalesTest : public testing::Test {
 protected:
  /// Folds for the products that make `names` and expects that `g` computes what it did.
  std::map<std::string, FoldedScale> Fold(Graph& g, const std::vector<std::string>& names) {
    std::vector<ScaledProduct> products;
    for (const std::string& name : names)
      products.push_back({g.FindValue(name)->producer(), {4, 16, true}});
    const Samples samples = NormalSamples(g, 16, 9);
    const auto before = RunOnce(**backend_->Compile(g, {}), *samples.get(0));
    auto folded = FoldInputScales(g, products, {}, samples, *backend_, Plain);
    EXPECT_TRUE(folded.ok()) << folded.status().message();
    const auto after = RunOnce(**backend_->Compile(g, {}), *samples.get(0));
    for (size_t i = 0; i < before->size(); ++i) {
      const Tensor &a = (*before)[i].tensor(), &b = (*after)[i].tensor();
      for (int64_t k = 0; k < a.num_elements(); ++k)
        EXPECT_NEAR(a.At(k), b.At(k), 1e-3 * (1 + std::abs(a.At(k)))) << i << " " << k;
    }
    return *folded;
  }
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
};

/// A scale with a few entries that are much larger than the others.
constexpr const char* kUneven =
    "{9,.1,.2,.1,.1,.1,.3,.1,8,.1,.1,.2,.1,.1,.1,.1,.1,.1,.1,9,.1,.1,.1,.1,.1,.1,.2,.1,.1,.1,.1,."
    "1}";

/// The same as a shift, which must be larger to show.
constexpr const char* kShift =
    "{900,.1,.2,.1,.1,.1,.3,.1,800,.1,.1,.2,.1,.1,.1,.1,.1,.1,.1,900,.1,.1,.1,.1,.1,.1,.2,.1,.1,.1,"
    ".1,.1}";

TEST_F(FoldScalesTest, IntoANormalization) {
  for (const char* norm :
       {"t = LayerNormalization(x, s, b)", "t = Mul(x, s)", "u = Mul(x, s)\n  t = Add(u, b)"}) {
    Graph g = MustParse(Cat(R"(graph g(x: f32[20,32]) -> (y, z) {
  s = const f32[32] )",
                            kUneven, R"(
  b = const f32[32] ~1
  w = const f32[32,24] ~2
  v = const f32[24,32] ~3
  )",
                            norm, R"(
  y = MatMul(t, w)
  z = Gemm(t, v) {transB = 1}
})"));
    const auto folded = Fold(g, {"y", "z"});
    EXPECT_TRUE(folded.contains("w")) << norm;
    EXPECT_TRUE(folded.contains("v")) << norm;
    EXPECT_GT(folded.begin()->second.exponent, 0);
    EXPECT_GT(folded.begin()->second.nearest_error, 0);
  }
}

TEST_F(FoldScalesTest, IntoTheProductBefore) {
  Graph g = MustParse(Cat(R"(graph g(x: f32[20,32]) -> (y) {
  s = const f32[32] )",
                          kShift, R"(
  a = const f32[32,32] ~1
  b = const f32[32] ~4
  w = const f32[32,24] ~2
  gate = const f32[32,32] ~5
  i = MatMul(x, gate)
  j = Sigmoid(i)
  h = MatMul(x, a)
  k = Add(h, s)
  r = Relu(k)
  t = Mul(j, r)
  y = MatMul(t, w)
})"));
  EXPECT_TRUE(Fold(g, {"y"}).contains("w"));
}

TEST_F(FoldScalesTest, ThroughATransposeIntoBatchNormalization) {
  Graph g = MustParse(Cat(R"(graph g(x: f32[2,32,10]) -> (y) {
  s = const f32[32] )",
                          kUneven, R"(
  b = const f32[32] ~1
  m = const f32[32] ~3
  v = const f32[32] {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}
  w = const f32[32,24] ~2
  n = BatchNormalization(x, s, b, m, v)
  t = Transpose(n) {perm = [0, 2, 1]}
  y = MatMul(t, w)
})"));
  EXPECT_TRUE(Fold(g, {"y"}).contains("w"));
}

TEST_F(FoldScalesTest, SharedConstantsKeepTheirOtherReaders) {
  Graph g = MustParse(Cat(R"(graph g(x: f32[20,32]) -> (y, z) {
  s = const f32[32] )",
                          kUneven, R"(
  w = const f32[32,24] ~2
  t = Mul(x, s)
  y = MatMul(t, w)
  z = Mul(x, s)
})"));
  EXPECT_TRUE(Fold(g, {"y"}).contains("w"));
}

TEST_F(FoldScalesTest, LeavesOutWhatOthersRead) {
  const std::string head = Cat("graph g(x: f32[20,32]) -> (y, z) {\n  s = const f32[32] ", kUneven,
                               "\n  w = const f32[32,24] ~2\n");
  for (const char* body :
       {"  t = Mul(x, s)\n  y = MatMul(t, w)\n  z = Relu(t)\n",                   // another reader
        "  y = MatMul(x, w)\n  z = Relu(s)\n",                                    // a graph input
        "  u = Add(x, s)\n  t = Add(u, x)\n  y = MatMul(t, w)\n  z = Relu(u)\n",  // a sum
        "  t = Mul(x, s)\n  y = MatMul(t, w)\n  z = MatMul(x, w)\n",              // shared weights
        "  u = Mul(x, s)\n  t = Sigmoid(u)\n  y = MatMul(t, w)\n  z = Relu(s)\n"}) {
    Graph g = MustParse(Cat(head, body, "}"));
    EXPECT_TRUE(Fold(g, {"y"}).empty()) << body;
  }
}

}  // namespace
}  // namespace infer
