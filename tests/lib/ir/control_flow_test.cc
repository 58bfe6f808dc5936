/// What iterations of Loop and Scan share: tensors that are written over, and stacks.
#include "lib/ir/control_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lib/ir/stack.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

TEST(Stack, GrowsToWhatComes) {
  Stack stack(1000);
  for (float i = 0; i < 21; ++i) ASSERT_TRUE(stack.Add(Tensor::Of<float>({2}, {i, -i})).ok());
  const Tensor all = stack.Take();
  ASSERT_EQ(all.dims(), Dims({21, 2}));
  EXPECT_EQ(all.byte_size(), static_cast<int64_t>(all.buffer()->size()));
  for (int64_t i = 0; i < 21; ++i) EXPECT_EQ(all.At(2 * i + 1), static_cast<double>(-i));
}

TEST(Stack, AlongAnAxisBackwards) {
  Stack stack(3, -1, true);
  for (float i = 0; i < 3; ++i) ASSERT_TRUE(stack.Add(Tensor::Of<float>({2}, {i, 10 + i})).ok());
  EXPECT_TRUE(BitEqual(stack.Take(), Tensor::Of<float>({2, 3}, {2, 1, 0, 12, 11, 10})));
}

TEST(Stack, StringsAndPackedTypes) {
  Stack strings(9), packed(9);
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(
        strings.Add(Tensor::OfStrings({1}, {std::string(30, static_cast<char>('a' + i))})).ok());
    Tensor t(DType::kI4, {3});
    for (int64_t k = 0; k < 3; ++k) t.SetInt(k, (i + k) % 8);
    ASSERT_TRUE(packed.Add(t).ok());
  }
  const Tensor s = strings.Take(), p = packed.Take();
  EXPECT_EQ(s.strings()[8], std::string(30, 'i'));
  for (int64_t i = 0; i < 27; ++i) EXPECT_EQ(p.IntAt(i), (i / 3 + i % 3) % 8) << i;
}

TEST(Stack, RefusesAnotherType) {
  Stack stack(4);
  ASSERT_TRUE(stack.Add(Tensor::Zeros(DType::kF32, {2})).ok());
  const Status s = stack.Add(Tensor::Zeros(DType::kF32, {3}));
  EXPECT_EQ(s.code(), Code::kInvalidModel);
  EXPECT_THAT(s.message(), HasSubstr("changes from f32[2] to f32[3]"));
  EXPECT_FALSE(Stack(4, 3, false).Add(Tensor::Zeros(DType::kF32, {2})).ok());
}

TEST(Slice, WritesOverWhatNobodyElseHolds) {
  const Tensor t = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  Datum slice;
  SliceAt(t, 1, 0, slice);
  const std::byte* first = slice.tensor().raw();
  SliceAt(t, 1, 2, slice);
  EXPECT_EQ(slice.tensor().raw(), first);
  EXPECT_TRUE(BitEqual(slice.tensor(), Tensor::Of<float>({2}, {3, 6})));
  const Datum held = slice;
  SliceAt(t, 1, 1, slice);
  EXPECT_NE(slice.tensor().raw(), first);
  EXPECT_TRUE(BitEqual(held.tensor(), Tensor::Of<float>({2}, {3, 6})));
}

/// Where tensors of a value lie, over all iterations.
using Places = std::set<const std::byte*>;

/// Adds 1 to the state; gives the state as scan output too. As an executor, it writes over results.
struct CountingRunner {
  Places number, state, scan, capture;
  Status operator()(const SubgraphCall& call) {
    number.insert(call.own[0].tensor().raw());
    state.insert(call.own[2].tensor().raw());
    capture.insert(call.captures[0]->tensor().raw());
    const Tensor& s = call.own[2].tensor();
    call.results.resize(3);
    WritableAs(call.results[0], DType::kBool, {}).mutable_data<bool>()[0] = true;
    for (const size_t r : {size_t{1}, size_t{2}}) {
      Tensor& t = WritableAs(call.results[r], DType::kF32, s.dims());
      for (int64_t i = 0; i < s.num_elements(); ++i) t.Set(i, s.At(i) + 1);
    }
    scan.insert(call.results[2].tensor().raw());
    return {};
  }
};

TEST(Loop, IterationsTakeNoNewTensors) {
  const auto g = ParseGraph(R"(graph g(n: i64[], x: f32[4], v: f32[4]) -> (y, all) {
    y, all = Loop(n, _, x) [v] {body=graph(i, c, s, v) -> (k, t, o) {
      k = Identity(c) t = Add(s, v) o = Identity(t) }} })",
                            Ops());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const Datum n = Tensor::Scalar<int64_t>(50), x = Tensor::Zeros(DType::kF32, {4}), v = x;
  const Datum* inputs[] = {&n, nullptr, &x, &v};
  CountingRunner runner;
  const auto out = EvaluateControlFlow(*g->nodes().back(), inputs, std::ref(runner));
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(runner.number.size(), 1u);
  EXPECT_EQ(runner.state.size(), 3u) << "what the caller gave, and two that take turns";
  EXPECT_EQ(runner.scan.size(), 1u);
  EXPECT_EQ(runner.capture.size(), 1u);
  EXPECT_EQ(x.tensor().At(0), 0);
  EXPECT_EQ((*out)[0].tensor().At(3), 50);
  ASSERT_EQ((*out)[1].tensor().dims(), Dims({50, 4}));
  for (int64_t i = 0; i < 50; ++i)
    EXPECT_EQ((*out)[1].tensor().At(4 * i), static_cast<double>(i + 1));
}

}  // namespace
}  // namespace infer
