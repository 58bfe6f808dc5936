#include "quant/algorithm/channel_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "runtime/cpu/backend.h"

namespace infer {
namespace {

/// Channels of values in blocked layouts, with and without padding, in rows and in columns, against
/// a direct count.
TEST(ChannelStats, EqualADirectCount) {
  const OpRegistry ops = AllOps();
  const Graph g = *ParseGraph(R"(graph g(x: f32[2,3,9,9]) -> (y) {
  w1 = const f32[20,3,3,3] ~1
  w2 = const f32[32,20,1,1] ~2
  s = const i64[2] {32, -1}
  a = Conv(x, w1)
  b = Conv(a, w2)
  t = Transpose(b) {perm=[1,0,2,3]}
  c = Reshape(t, s)
  y = Relu(b)
})",
                              ops);
  const std::vector<ChannelRequest> requests = {{"x", 1},  {"a", 1},  {"b", 1},
                                                {"b", -1}, {"c", -1}, {"c", 0}};
  std::vector<std::vector<Datum>> runs;
  for (uint64_t i = 0; i < 3; ++i) {
    Tensor x(DType::kF32, {2, 3, 9, 9});
    Random random(i);
    for (float& v : x.mutable_data<float>()) v = static_cast<float>(random.Normal());
    if (i == 2) x.mutable_data<float>()[7] = std::numeric_limits<float>::infinity();
    runs.push_back({x});
  }
  const Samples samples = InMemory(runs);
  const auto backend = MakeCpuBackend();
  for (const ChannelRequest& r : requests) {
    const auto stats = ObserveChannels(g, {r}, samples, {backend.get(), 1});
    ASSERT_TRUE(stats.ok()) << stats.status().message();
    const ChannelStats& s = stats->at(r.value);
    TappedProgram t;
    if (r.value != "x") t = *CompileWithTaps(g, {r.value}, *backend, {.level = 0});
    std::vector<double> lo, hi, sum;
    std::vector<int64_t> count;
    for (const auto& run : runs) {
      if (r.value != "x") {
        ASSERT_TRUE(RunInputs(*t.context, run, {}).ok());
      }
      const Tensor& v = r.value == "x" ? run[0].tensor() : t.context->output(1).tensor();
      const int axis = r.axis < 0 ? v.rank() + r.axis : r.axis;
      const auto channels = static_cast<size_t>(v.dim(axis));
      lo.resize(channels, std::numeric_limits<double>::infinity());
      hi.resize(channels, -std::numeric_limits<double>::infinity());
      sum.resize(channels);
      count.resize(channels);
      int64_t inner = 1;
      for (int i = axis + 1; i < v.rank(); ++i) inner *= v.dim(i);
      const auto x = v.data<float>();
      for (size_t i = 0; i < x.size(); ++i) {
        if (!std::isfinite(x[i])) continue;
        const size_t c = i / static_cast<size_t>(inner) % channels;
        const auto d = static_cast<double>(x[i]);
        lo[c] = std::min(lo[c], d);
        hi[c] = std::max(hi[c], d);
        sum[c] += d;
        ++count[c];
      }
    }
    ASSERT_EQ(s.count, count) << r.value << " " << r.axis;
    EXPECT_EQ(s.lo, lo);
    EXPECT_EQ(s.hi, hi);
    for (size_t c = 0; c < count.size(); ++c)
      EXPECT_NEAR(s.mean[c], sum[c] / static_cast<double>(count[c]), 1e-12) << r.value << c;
  }
}

}  // namespace
}  // namespace infer
