/// Zeros, NaN and infinities, and extents of 0.
#include <cmath>
#include <limits>

#include "lib/ir/eval.h"
#include "lib/support/strings.h"
#include "tests/quant/scheme/must_quantize.h"

namespace infer {
namespace {

using testing::HasSubstr;

TEST(QuantizeStatic, SurvivesZeroAndNonFiniteData) {
  Graph zero = MustParse(R"(graph g(x: f32[1,2]) -> (y: f32[1,3]) {
  w = const f32[2,3] {0, 0, 0, 0, 0, 0}
  y = Gemm(x, w)
})");
  const QuantizeReport report =
      MustQuantize(zero, InMemory({{Tensor::Zeros(DType::kF32, {1, 2})}}), Plain());
  EXPECT_GT(report.values[0].scale, 0);
  Graph g = MustParse("graph g(x: f32[1,2]) -> (y) { w = const f32[2,3] ~1\n y = MatMul(x, w) }");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Graph some = g.Clone();
  const QuantizeReport warned =
      MustQuantize(some, InMemory({{Tensor::Of<float>({1, 2}, {nan, 2})}}), Plain());
  EXPECT_EQ(warned.values[0].non_finite, 1);
  EXPECT_THAT(warned.warnings, testing::Contains(HasSubstr("NaN")));
  const auto none = QuantizeStatic(g, InMemory({{Tensor::Of<float>({1, 2}, {nan, nan})}}),
                                   *MakeReferenceBackend(), Plain());
  EXPECT_EQ(none.status().code(), Code::kInvalidModel);
}

TEST(QuantizeStatic, NonFiniteWeightsAreNamed) {
  const auto backend = MakeReferenceBackend();
  const auto message = [&](const char* text) {
    Graph g = MustParse(text);
    const uint64_t before = Fingerprint(g);
    const Status s = QuantizeStatic(g, NormalSamples(g, 2, 1), *backend, {}).status();
    EXPECT_EQ(s.code(), Code::kInvalidModel) << text;
    EXPECT_EQ(Fingerprint(g), before);
    return s.message();
  };
  EXPECT_THAT(message(R"(graph g(x: f32[1,2]) -> (y) {
  w = const f32[2,2] {1, nan, 2, inf}
  y = MatMul(x, w)
})"),
              testing::AllOf(HasSubstr("'w'"), HasSubstr("2 of 4 elements")));
  EXPECT_THAT(message(R"(graph g(x: f32[1,2]) -> (y) {
  w = const f32[2,2] {1, 2, 3, 4}
  b = const f32[2] {1, -inf}
  y = Gemm(x, w, b)
})"),
              HasSubstr("'b'"));
  // Computed from others: finite where they stand in the file.
  EXPECT_THAT(message(R"(graph g(x: f32[1,2]) -> (y) {
  v = const f32[2,2] {1, 2, 3, 4}
  zero = const f32[] {0}
  w = Div(v, zero)
  y = MatMul(x, w)
})"),
              HasSubstr("4 of 4 elements"));
}

TEST(QuantizeStatic, AMaskOfInfinitiesStaysFloat) {
  Graph g = MustParse(R"(graph g(x: f32[1,2]) -> (y) {
  w = const f32[2,2] ~1
  v = const f32[2,2] ~2
  mask = const f32[2,2] {0, -inf, 0, 0}
  a = MatMul(x, w)
  b = Add(a, mask)
  s = Softmax(b)
  y = MatMul(s, v)
})");
  const QuantizeReport report = MustQuantize(g, NormalSamples(g, 8, 1), {});
  EXPECT_EQ(report.integer_layers, 2);
  const auto add = std::find_if(report.layers.begin(), report.layers.end(),
                                [](const QuantizedLayer& l) { return l.op == "Add"; });
  ASSERT_NE(add, report.layers.end());
  EXPECT_THAT(add->reason, HasSubstr("'mask' holds NaN or infinity"));
}

TEST(QuantizeStatic, ArithmeticOnExtentsIsNoLayer) {
  Graph g = MustParse(R"(graph g(x: f32[N,4]) -> (y) {
  w = const f32[4,4] ~1
  table = const f32[8,4] ~2
  zero = const i64[] {0}
  one = const i64[] {1}
  s = Shape(x) {start=0, end=1}
  n = Squeeze(s)
  at = Range(zero, n, one)
  from = Add(at, one)
  e = Gather(table, from)
  a = Add(x, e)
  y = MatMul(a, w)
})");
  std::vector<std::vector<Datum>> runs;
  for (int i = 0; i < 8; ++i) runs.push_back({Tensor::Of<float>({1, 4}, {1, -2, 3, 0.5f})});
  const QuantizeReport report = MustQuantize(g, InMemory(std::move(runs)), Plain());
  std::vector<std::string> layers;
  for (const QuantizedLayer& l : report.layers) layers.push_back(l.op);
  EXPECT_THAT(layers, testing::ElementsAre("Gather", "Add", "MatMul"));
}

/// Keys of the past, which is empty in all samples or in the first, and new ones.
constexpr std::string_view kDecoder = R"(
graph g(x: f32[1,4], past: f32[P,4]) -> (y, present) {
  w = const f32[4,4] ~1
  k = MatMul(x, w)
  present = Concat(past, k) {axis = 0}
  t = Transpose(present) {perm = [1, 0]}
  y = MatMul(x, t)
})";

Samples Steps(int64_t count, int64_t first_past, int64_t later_past) {
  Random random(5);
  std::vector<std::vector<Datum>> runs;
  for (int64_t i = 0; i < count; ++i) {
    Tensor x(DType::kF32, {1, 4}), past(DType::kF32, {i == 0 ? first_past : later_past, 4});
    for (Tensor* t : {&x, &past})
      for (float& v : t->mutable_data<float>()) v = static_cast<float>(random.Normal());
    runs.push_back({x, past});
  }
  return InMemory(std::move(runs));
}

TEST(QuantizeStatic, AValueThatIsSometimesEmptyIsCalibratedOnTheOthers) {
  Graph g = MustParse(kDecoder);
  const Graph golden = g.Clone();
  const QuantizeReport r = MustQuantize(g, Steps(8, 0, 3), Plain());
  EXPECT_EQ(r.integer_layers, 3) << "two products and Concat";
  EXPECT_GT(SqnrDb(golden, g, Steps(8, 2, 5)), 20);
}

TEST(QuantizeStatic, WhatReadsAValueThatIsAlwaysEmptyStaysFloat) {
  Graph g = MustParse(kDecoder);
  const Graph golden = g.Clone();
  const QuantizeReport r = MustQuantize(g, Steps(8, 0, 0), Plain());
  std::map<std::string, std::string> reason;
  for (const QuantizedLayer& l : r.layers) reason[l.op] = l.reason;
  EXPECT_THAT(reason["Concat"], HasSubstr("'past', which was always empty"));
  EXPECT_EQ(reason["MatMul"], "");
  EXPECT_EQ(Count(g, "QuantizeLinear"), 2) << "x and the keys, not the past";
  EXPECT_GT(SqnrDb(golden, g, Steps(8, 0, 0)), 20);
  EXPECT_GT(SqnrDb(golden, g, Steps(8, 3, 3)), 5) << "cut to the range of the new keys";
}

}  // namespace
}  // namespace infer
