/// Where a single weight acts: with all others 0, only its output channel is not 0, and only its
/// input channel is read.
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

/// "x" random, "w" all 0 but one, bias none; the result of the only node.
Tensor RunWith(const Graph& g, const Tensor& x, const Tensor& w) {
  auto out = Evaluate(g, std::vector<Datum>{x, w});
  EXPECT_TRUE(out.ok()) << out.status().message();
  return (*out)[0].tensor();
}

/// The axis of the result that counts channels.
int ResultAxis(const WeightLayout& layout, int rank) { return layout.is_window ? 1 : rank - 1; }

int64_t IndexAlong(const Dims& dims, int axis, int64_t flat) {
  for (size_t d = dims.size(); d-- > static_cast<size_t>(axis) + 1;) flat /= dims[d];
  return flat % dims[static_cast<size_t>(axis)];
}

/// A window that is read makes one number of several, a window that is spread over several of one.
bool Enlarges(const Graph& g) {
  const Tensor x = Tensor::Zeros(DType::kF32, g.inputs()[0]->shape().static_dims());
  const Tensor w = Tensor::Zeros(DType::kF32, g.inputs()[1]->shape().static_dims());
  return RunWith(g, x, w).dim(2) > x.dim(2);
}

class Weights : public ::testing::TestWithParam<const char*> {};

TEST_P(Weights, ActWhereTheLayoutSays) {
  auto g = ParseGraph(GetParam(), TestOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto layout = WeightLayoutOf(*g->nodes().front());
  ASSERT_TRUE(layout);
  const Dims x_dims = g->inputs()[0]->shape().static_dims();
  const Dims w_dims = g->inputs()[1]->shape().static_dims();
  const int data_axis = layout->data_axis < 0 ? layout->data_axis + static_cast<int>(x_dims.size())
                                              : layout->data_axis;
  EXPECT_EQ(layout->InputChannels(w_dims), x_dims[static_cast<size_t>(data_axis)]);
  if (layout->is_window && w_dims[2] > 1) {
    EXPECT_EQ(layout->spreads, Enlarges(*g));
  } else if (!layout->is_window) {
    EXPECT_FALSE(layout->spreads);
  }
  size_t next = 0;
  layout->ForEach(w_dims, [&](size_t i, int64_t in, int64_t out) {
    EXPECT_EQ(i, next++);
    Tensor w = Tensor::Zeros(DType::kF32, w_dims);
    w.Set(static_cast<int64_t>(i), 1);
    Tensor x(DType::kF32, x_dims);  // ones in that channel, 0 elsewhere
    for (int64_t k = 0; k < x.num_elements(); ++k)
      x.Set(k, IndexAlong(x_dims, data_axis, k) == in ? 1 : 0);
    const Tensor y = RunWith(*g, x, w);
    const int axis = ResultAxis(*layout, y.rank());
    EXPECT_EQ(y.dim(axis), layout->OutputChannels(w_dims));
    double sum = 0;
    for (int64_t k = 0; k < y.num_elements(); ++k) {
      if (y.At(k) != 0) {
        EXPECT_EQ(IndexAlong(y.dims(), axis, k), out) << "weight " << i;
      }
      sum += y.At(k);
    }
    EXPECT_GT(sum, 0) << "weight " << i << " reads another input channel than " << in;
  });
  EXPECT_EQ(static_cast<int64_t>(next), NumElements(w_dims));
}

INSTANTIATE_TEST_SUITE_P(
    Operators, Weights,
    ::testing::Values(
        "graph g(x: f32[1,4,5,5], w: f32[6,2,3,3]) -> (y) { y = Conv(x, w) {group=2} }",
        "graph g(x: f32[1,3,6], w: f32[2,3,1]) -> (y) { y = Conv(x, w) }",
        "graph g(x: f32[1,4,4,4], w: f32[4,3,2,2]) -> (y) { y = ConvTranspose(x, w) {group=2} }",
        "graph g(x: f32[1,4,4], w: f32[4,3,2]) -> (y) { y = ConvTranspose(x, w) }",
        "graph g(x: f32[2,5], w: f32[7,5]) -> (y) { y = Gemm(x, w) {transB=1} }",
        "graph g(x: f32[5,2], w: f32[5,3]) -> (y) { y = Gemm(x, w) {transA=1, alpha=0.5} }",
        "graph g(x: f32[2,3,5], w: f32[5,4]) -> (y) { y = MatMul(x, w) }"));

}  // namespace
}  // namespace infer
