#include <gmock/gmock.h>

#include <cmath>

#include "quant/scheme/quantize.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

constexpr char kPadded[] = R"(graph g(x: f32[1, 1, 8, 8]) -> (y) {
  w = const f32[1, 1, 3, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9}
  y = Conv(x, w) {pads=[1, 1, 1, 1]}
})";

/// Magnitudes of normal numbers, and one number in 256 that is `least`.
Samples AlmostPositive(float least) {
  Random random(7);
  std::vector<std::vector<Datum>> runs;
  for (int i = 0; i < 64; ++i) {
    Tensor t(DType::kF32, {1, 1, 8, 8});
    for (float& x : t.mutable_data<float>()) x = std::fabs(static_cast<float>(random.Normal()));
    if (i % 4 == 0) t.mutable_data<float>()[5] = least;
    runs.push_back({Datum(std::move(t))});
  }
  return InMemory(std::move(runs));
}

QuantizedValue InputOf(std::string_view text, const Samples& samples, DType type = DType::kU8) {
  Graph g = MustParse(text);
  QuantizeOptions options;
  options.scheme.activations.dtype = type;
  const auto backend = MakeReferenceBackend();
  const auto report = QuantizeStatic(g, samples, *backend, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  for (const QuantizedValue& v : report->values)
    if (v.name == "x") return v;
  ADD_FAILURE() << "x is not quantized";
  return {};
}

TEST(ZeroPoint, IsZeroForPaddingWhereThatCostsLittle) {
  const QuantizedValue v = InputOf(kPadded, AlmostPositive(-0.012f));
  EXPECT_LT(v.seen.lo, 0);
  EXPECT_TRUE(v.padded);
  EXPECT_EQ(v.zero_point, 0);
  EXPECT_LE(v.zero_point_cost_db, 10 * std::log10(1.05));
}

TEST(ZeroPoint, StaysWhereZeroWouldCostTooMuch) {
  const QuantizedValue v = InputOf(kPadded, AlmostPositive(-1.0f));
  EXPECT_GT(v.zero_point, 0);
  EXPECT_EQ(v.zero_point_cost_db, 0);
}

TEST(ZeroPoint, WithoutPaddingTheRangeIsLeftAlone) {
  std::string text = kPadded;
  text.replace(text.find("pads=[1, 1, 1, 1]"), 17, "pads=[0, 0, 0, 0]");
  const QuantizedValue v = InputOf(text, AlmostPositive(-0.012f));
  EXPECT_FALSE(v.padded);
  EXPECT_GT(v.zero_point, 0);
  EXPECT_EQ(v.zero_point_cost_db, 0);
}

TEST(ZeroPoint, SignedCodesHaveNoneToGain) {
  const QuantizedValue v = InputOf(kPadded, AlmostPositive(-0.012f), DType::kI8);
  EXPECT_EQ(v.zero_point_cost_db, 0);
  EXPECT_LT(v.zero_point, 0);
}

}  // namespace
}  // namespace infer
