#include "quant/calibrate/calibrate.h"

#include <gmock/gmock.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/reference/backend.h"

namespace infer {
namespace {

class CalibrateTest : public testing::Test {
 protected:
  CalibrateTest() : ops_(AllOps()), backend_(MakeReferenceBackend()) {}
  Graph Parse(std::string_view text) {
    auto g = ParseGraph(text, ops_);
    EXPECT_TRUE(g.ok()) << g.status().message();
    return *std::move(g);
  }
  OpRegistry ops_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(CalibrateTest, ObservesInputsInnerValuesAndOutputs) {
  const Graph g = Parse(R"(graph g(x: f32[3]) -> (z) {
  two = const f32[1] {2}
  y = Mul(x, two)
  z = Neg(y)
})");
  const Samples samples =
      InMemory({{Tensor::Of<float>({3}, {1, 2, 3})}, {Tensor::Of<float>({3}, {-4, 0, 1})}});
  const auto table = Calibrate(g, {"z", "x", "y"}, samples, *backend_);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->at("x").seen, (Interval{-4, 3}));
  EXPECT_EQ(table->at("y").seen, (Interval{-8, 6}));
  EXPECT_EQ(table->at("z").range, (Interval{-6, 8}));
  EXPECT_EQ(table->at("y").count, 6);
  EXPECT_EQ(g.outputs().size(), 1u);
}

TEST_F(CalibrateTest, VariableShapes) {
  const Graph g = Parse("graph g(x: f32[N]) -> (y) { y = Neg(x) }");
  const Samples samples =
      InMemory({{Tensor::Of<float>({1}, {1})}, {Tensor::Of<float>({2}, {5, 6})}});
  const auto table = Calibrate(g, {"y"}, samples, *backend_);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->at("y").seen, (Interval{-6, -1}));
}

TEST_F(CalibrateTest, Errors) {
  const Graph g = Parse("graph g(x: f32[1], i: i64[1]) -> (y, j) { y = Neg(x)\n j = Neg(i) }");
  const Samples one = InMemory({{Tensor::Of<float>({1}, {1}), Tensor::Of<int64_t>({1}, {1})}});
  EXPECT_EQ(Calibrate(g, {"nope"}, one, *backend_).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Calibrate(g, {"j"}, one, *backend_).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Calibrate(g, {"y"}, InMemory({}), *backend_).status().code(), Code::kInvalidArgument);
  const Samples wrong = InMemory({{Tensor::Of<float>({2}, {1, 2}), Tensor::Of<int64_t>({1}, {1})}});
  const auto bad = Calibrate(g, {"y"}, wrong, *backend_);
  EXPECT_FALSE(bad.ok());
  EXPECT_THAT(bad.status().message(), testing::HasSubstr("sample 0"));
}

}  // namespace
}  // namespace infer
