/// Concat between convolutions, whose operands lie in blocks of channels or channels last: along
/// the channels and the axes behind them, against the reference.
#include <gtest/gtest.h>

#include <algorithm>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/simd/panels.h"

namespace infer {
namespace {

struct Case {
  int axis;
  std::string extents;  ///< of an image
  int64_t channels;
};

/// An image of convolutions, and parts of it on both sides of it, as circular padding writes them.
std::string Padded(const Case& c) {
  const size_t spatial = static_cast<size_t>(std::count(c.extents.begin(), c.extents.end(), ','));
  std::string ones;
  for (size_t i = 0; i <= spatial; ++i) ones += ",1";
  return Cat("graph g(x: f32[2,8,", c.extents, "]) -> (y) { w = const f32[", c.channels, ",8", ones,
             "] ~1 a = Conv(x, w) s = const i64[1] {-3} e = const i64[1] {9999} z = const i64[1] "
             "{0} t = const i64[1] {2} d = const i64[1] {",
             c.axis,
             "} l = Slice(a, s, e, d) r = Slice(a, z, t, d) j = Concat(l, a, r) {axis=", c.axis,
             "} v = const f32[8,", c.axis == 1 ? c.channels + 5 : c.channels, ones,
             "] ~2 y = Conv(j, v) }");
}

TEST(Concat, BetweenConvolutions) {
  const OpRegistry ops = AllOps();
  Random random(7);
  for (const Case& c : {Case{2, "40", 60}, Case{2, "40", 64}, Case{1, "40", 64},
                        Case{2, "9,12", 20}, Case{3, "9,12", 32}, Case{1, "9,12", 16},
                        Case{4, "4,5,6", 16}, Case{3, "4,5,6", 24}, Case{2, "9000", 16}}) {
    const std::string text = Padded(c);
    const auto g = ParseGraph(text, ops);
    ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << text;
    Tensor x(DType::kF32, g->inputs()[0]->shape().static_dims());
    for (float& n : x.mutable_data<float>()) n = static_cast<float>(random.Normal());
    const auto want = Evaluate(*g, std::vector<Datum>{x});
    ASSERT_TRUE(want.ok()) << want.status().message();
    const auto program = MakeCpuBackend()->Compile(*g, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const auto got = RunOnce(**program, std::vector<Datum>{x});
    ASSERT_TRUE(got.ok()) << got.status().message();
    const auto a = (*want)[0].tensor().data<float>();
    const auto b = (*got)[0].tensor().data<float>();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-3) << text << " at " << i;
    if (!simd::ThePanels()) continue;
    for (const StepInfo& s : (*program)->steps()) {
      if (s.op == "Concat" && c.axis != 1) {
        EXPECT_TRUE(s.kernel.starts_with("own:")) << s.kernel;
      }
    }
  }
}

}  // namespace
}  // namespace infer
