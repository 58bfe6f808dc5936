/// Memory of contexts that run steps whose extents only the run knows.
#include <gtest/gtest.h>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/memory_limit.h"
#include "runtime/cpu/backend.h"

namespace infer {
namespace {

const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

/// The masks of a detector grow by one in each iteration: a state of each length must not stay.
TEST(LateMemory, AGrowingStateIsNotKeptByLength) {
  constexpr int64_t kRow = 1 << 16, kRows = 64, kRowBytes = kRow * 4;
  auto g = ParseGraph(R"(graph g(x: f32[1,65536], n: i64[], w: i64[1]) -> (y) {
    t = const bool[] {true}  s0 = const f32[0,65536] {}
    y = Loop(n, t, s0) [x, w] {body=graph(i, c, s: f32[?,65536], x, w) -> (d, r) {
      d = Identity(c)  z = const i64[1] {0}  a = const i64[1] {1}  e = Neg(x)
      p = Slice(e, z, w, a)  q = Relu(p)  r = Concat(s, q) {axis=0} } } })",
                      Ops());
  ASSERT_TRUE(g.ok()) << g.status().message();
  Tensor x(DType::kF32, {1, kRow});
  for (int64_t i = 0; i < kRow; ++i) x.Set(i, -static_cast<double>(i));
  const std::vector<Datum> inputs = {x, Tensor::Scalar<int64_t>(kRows), Tensor::Int64s({kRow})};
  const auto program = MakeCpuBackend()->Compile(*g, {.threads = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto context = (*program)->NewContext();
  ASSERT_TRUE(context.ok());
  const int64_t before = ChargedMemory();
  for (int run = 0; run < 3; ++run) {
    for (size_t i = 0; i < inputs.size(); ++i)
      ASSERT_TRUE((*context)->BindInput(i, inputs[i]).ok());
    const Status s = (*context)->Run({});
    ASSERT_TRUE(s.ok()) << s.message();
    const Tensor& y = (*context)->output(0).tensor();
    ASSERT_EQ(y.dims(), (Dims{kRows, kRow}));
    EXPECT_EQ(y.At(kRow * kRows - 1), kRow - 1);
    // The result, what it was made from, and what contexts of other lengths may hold; a state of
    // each length would be 32 results.
    EXPECT_LT(ChargedMemory() - before, 8 * kRows * kRowBytes + (int64_t{64} << 20)) << run;
  }
}

}  // namespace
}  // namespace infer
