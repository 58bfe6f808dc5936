#include "quant/accuracy/compare.h"

#include <gmock/gmock.h>

#include <cmath>

#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

constexpr std::string_view kGolden = R"(graph g(x: f32[1,3]) -> (y: f32[1,3]) {
  two = const f32[1] {2}
  one = const f32[1] {1}
  a = Mul(x, two)
  y = Add(a, one)
})";
constexpr std::string_view kCandidate = R"(graph g(x: f32[1,3]) -> (y: f32[1,3]) {
  two = const f32[1] {2.5}
  one = const f32[1] {1}
  a = Mul(x, two)
  extra = Neg(a)
  b = Neg(extra)
  y = Add(b, one)
})";

Samples Runs() {
  return InMemory(
      {{Tensor::Of<float>({1, 3}, {1, 2, 3})}, {Tensor::Of<float>({1, 3}, {-1, 0, -4})}});
}

TEST(Compare, OutputsLayersAndLabels) {
  const Graph golden = MustParse(kGolden), candidate = MustParse(kCandidate);
  const auto backend = MakeReferenceBackend();
  Samples samples = Runs();
  samples.labels = [](int64_t i) -> Result<std::vector<int64_t>> {
    return std::vector<int64_t>{i == 0 ? 2 : 0};
  };
  CompareOptions options;
  options.per_layer = true;
  options.layer_samples = 1;
  const auto r = Compare(golden, *backend, candidate, *backend, samples, options);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_EQ(r->outputs.size(), 1u);
  EXPECT_EQ(r->outputs[0].name, "y");
  EXPECT_EQ(r->outputs[0].op, "Add");
  // d = x / 2 over both runs: sum d^2 = (14 + 17) / 4; r = 2 x + 1.
  EXPECT_NEAR(r->outputs[0].metrics.sqnr_db,
              10 * std::log10((9 + 25 + 49 + 1 + 1 + 49) / (31.0 / 4)), 1e-9);
  EXPECT_EQ(r->outputs[0].metrics.max_abs_error, 2);
  ASSERT_TRUE(r->task);
  EXPECT_EQ(r->task->samples, 2);
  EXPECT_EQ(r->task->golden_top1, 1);  // the second run's highest is x = 0, class 1
  EXPECT_EQ(r->task->lost, 0);
  ASSERT_EQ(r->layers.size(), 2u);  // a and y; the candidate's own values have no partner
  EXPECT_EQ(r->layers[0].name, "a");
  EXPECT_EQ(r->layers[0].metrics.max_abs_error, 1.5);
  EXPECT_EQ(r->layer_samples, 1);
}

TEST(Compare, StoredOutputs) {
  const Graph candidate = MustParse(kGolden);
  const auto backend = MakeReferenceBackend();
  const auto stored = [](int64_t i, const std::vector<Datum>&) -> Result<std::vector<Datum>> {
    if (i == 0) return std::vector<Datum>{Tensor::Of<float>({1, 3}, {3, 5, 7})};
    return std::vector<Datum>{Tensor::Of<float>({1, 3}, {-1, 1, -8})};
  };
  const auto r = CompareWithStored(stored, candidate, *backend, Runs());
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->outputs[0].metrics.max_abs_error, 1);
  EXPECT_NEAR(r->outputs[0].metrics.max_error_ratio, 1.0 / 8, 1e-12);
}

TEST(Compare, Errors) {
  const Graph golden = MustParse(kGolden);
  const Graph other = MustParse("graph g(z: f32[1,3]) -> (y) { y = Neg(z) }");
  const auto backend = MakeReferenceBackend();
  EXPECT_THAT(Compare(golden, *backend, other, *backend, Runs()).status().message(),
              testing::HasSubstr("golden has x; candidate has z"));
  EXPECT_EQ(Compare(golden, *backend, golden, *backend, InMemory({})).status().code(),
            Code::kInvalidArgument);
  Samples labelled = Runs();
  labelled.labels = [](int64_t) -> Result<std::vector<int64_t>> { return std::vector<int64_t>{3}; };
  EXPECT_THAT(Compare(golden, *backend, golden, *backend, labelled).status().message(),
              testing::HasSubstr("label 3 is outside the 3 classes"));
  const Samples wide = InMemory({{Tensor::Of<float>({1, 2}, {1, 2})}});
  EXPECT_THAT(Compare(golden, *backend, golden, *backend, wide).status().message(),
              testing::HasSubstr("sample 0: golden"));
  std::stop_source stop;
  stop.request_stop();
  CompareOptions options;
  options.stop = stop.get_token();
  EXPECT_EQ(Compare(golden, *backend, golden, *backend, Runs(), options).status().code(),
            Code::kCancelled);
}

Datum MapOf(std::vector<std::string> keys, const std::vector<float>& values) {
  SequenceDatum held;
  for (const float v : values) held.elements.emplace_back(Tensor::Of<float>({}, {v}));
  const auto count = static_cast<int64_t>(keys.size());
  return Datum(MapDatum{Tensor::OfStrings({count}, std::move(keys)),
                        std::make_shared<const Datum>(std::move(held))});
}

/// What CompareSources says of one output `z`, a sequence of these maps.
Result<AccuracyReport> CompareMaps(std::vector<Datum> golden, std::vector<Datum> candidate) {
  const Graph g = MustParse(R"(graph g(x: f32[2,2]) -> (z) {
    z = ai.onnx.ml::ZipMap(x) {classlabels_strings=["no", "yes"]} })");
  const auto source = [](std::vector<Datum> maps) -> OutputSource {
    return [maps](int64_t, const std::vector<Datum>&) -> Result<std::vector<Datum>> {
      return std::vector<Datum>{Datum(SequenceDatum{maps})};
    };
  };
  return CompareSources(source(std::move(golden)), source(std::move(candidate)), g,
                        InMemory({{Tensor::Zeros(DType::kF32, {2, 2})}}));
}

TEST(Compare, MapsByTheirKeysWhateverTheOrder) {
  const auto r = CompareMaps({MapOf({"no", "yes"}, {0.75, 0.25}), MapOf({"no", "yes"}, {0, 1})},
                             {MapOf({"yes", "no"}, {0.25, 0.5}), MapOf({"no", "yes"}, {0, 1})});
  ASSERT_TRUE(r.ok()) << r.status().message();
  const ValueAccuracy& z = r->outputs[0];
  EXPECT_TRUE(z.is_float);
  EXPECT_EQ(z.metrics.elements, 4);
  EXPECT_EQ(z.metrics.samples, 1);
  EXPECT_EQ(z.metrics.unequal, 0);
  EXPECT_EQ(z.metrics.max_abs_error, 0.25);
  EXPECT_EQ(z.metrics.max_error_ratio, 0.25);  // of the largest of all maps
  ASSERT_TRUE(z.rows);
  EXPECT_EQ(z.rows->rows, 2);
  EXPECT_EQ(z.rows->top1_agreement, 1);
}

TEST(Compare, KeysOfOneSideAreUnequal) {
  const auto r =
      CompareMaps({MapOf({"no", "yes"}, {0.75, 0.25})}, {MapOf({"no", "ye"}, {0.75, 0})});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->outputs[0].metrics.unequal, 2);
  EXPECT_EQ(r->outputs[0].metrics.max_abs_error, 0);
}

TEST(Compare, OutputsThatASourceCannotGiveAreLeftOut) {
  const Graph g = MustParse("graph g(x: f32[2]) -> (a, b) { a = Neg(x) b = Abs(x) }");
  const auto source = [](Datum a) -> OutputSource {
    return [a](int64_t, const std::vector<Datum>& inputs) -> Result<std::vector<Datum>> {
      return std::vector<Datum>{a, inputs[0]};
    };
  };
  const Samples samples = InMemory({{Tensor::Of<float>({2}, {1, 2})}});
  const Datum some = Tensor::Of<float>({2}, {1, 2});
  const auto r = CompareSources(source(Datum()), source(some), g, samples);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_EQ(r->outputs.size(), 1u);
  EXPECT_EQ(r->outputs[0].name, "b");
  EXPECT_TRUE(r->left_out.contains(0));
  const Graph one = MustParse("graph g(x: f32[2]) -> (a) { a = Neg(x) }");
  const OutputSource none = [](int64_t, const std::vector<Datum>&) -> Result<std::vector<Datum>> {
    return std::vector<Datum>(1);
  };
  EXPECT_EQ(CompareSources(none, none, one, samples).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace infer
