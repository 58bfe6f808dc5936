#include "quant/search/solver.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "lib/support/random.h"

namespace infer {
namespace {

using Layers = std::vector<std::vector<LayerCost>>;

LayerCost Total(const Layers& layers, const std::vector<int>& choice) {
  LayerCost t;
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerCost& c = layers[l][static_cast<size_t>(choice[l])];
    t = {t.error + c.error, t.bytes + c.bytes, t.ms + c.ms};
  }
  return t;
}

bool NoWorse(const LayerCost& a, const LayerCost& b) {
  return a.error <= b.error && a.bytes <= b.bytes && a.ms <= b.ms;
}

/// Every choice, in order.
std::vector<LayerCost> All(const Layers& layers) {
  std::vector<LayerCost> out;
  std::vector<int> choice(layers.size(), 0);
  for (;;) {
    out.push_back(Total(layers, choice));
    size_t l = 0;
    while (l < layers.size() && ++choice[l] == static_cast<int>(layers[l].size())) choice[l++] = 0;
    if (l == layers.size()) return out;
  }
}

/// Costs as layers have them: what is smaller errs more. Whole numbers, so that sums are exact.
Layers RandomLayers(uint64_t seed, int count, bool with_ms) {
  Random random(seed);
  Layers layers;
  for (int l = 0; l < count; ++l) {
    const auto size = static_cast<int64_t>(16 + random.Below(200));
    std::vector<LayerCost> options = {{0, size * 4, with_ms ? 8.0 : 0}};
    for (const int64_t factor : {2, 1})
      options.push_back({static_cast<double>(1 + random.Below(100)) * (factor == 1 ? 8 : 1),
                         size * factor, with_ms ? static_cast<double>(1 + random.Below(12)) : 0});
    layers.push_back(std::move(options));
  }
  return layers;
}

TEST(Solver, FindsWhatTryingAllFinds) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Layers layers = RandomLayers(seed, 6, seed % 2 == 0);
    // So many buckets that hardly two sums meet in one.
    const auto front = SolvePrecisions(layers, {1 << 26});
    for (const Assignment& a : front) {
      const LayerCost t = Total(layers, a.choice);
      EXPECT_EQ(t.error, a.total.error);
      EXPECT_EQ(t.bytes, a.total.bytes);
      EXPECT_EQ(t.ms, a.total.ms);
    }
    for (const LayerCost& c : All(layers))
      EXPECT_TRUE(std::any_of(front.begin(), front.end(),
                              [&](const Assignment& a) { return NoWorse(a.total, c); }))
          << "seed " << seed << ": " << c.error << " " << c.bytes << " " << c.ms;
    for (const Assignment& a : front)
      for (const Assignment& b : front)
        EXPECT_FALSE(&a != &b && NoWorse(a.total, b.total)) << "seed " << seed;
  }
}

/// With few buckets it may miss the best by what a bucket holds, and by no more than that matters.
TEST(Solver, FewBucketsMissLittle) {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    const Layers layers = RandomLayers(seed, 8, false);
    const auto front = SolvePrecisions(layers, {1024});
    const std::vector<LayerCost> all = All(layers);
    int64_t most = 0;
    for (const LayerCost& c : all) most = std::max(most, c.bytes);
    for (int part = 30; part <= 100; part += 10) {
      const int64_t limit = most * part / 100;
      double best = INFINITY, found = INFINITY;
      for (const LayerCost& c : all)
        if (c.bytes <= limit) best = std::min(best, c.error);
      for (const Assignment& a : front)
        if (a.total.bytes <= limit) found = std::min(found, a.total.error);
      EXPECT_LE(found, 1.1 * best + 1) << "seed " << seed << ", limit " << limit;
    }
  }
}

TEST(Solver, ManyLayersOfVeryDifferentSize) {
  Layers layers;
  for (int l = 0; l < 60; ++l) {
    const int64_t size = l == 0 ? 1'000'000 : 10;
    layers.push_back({{0, size * 4, 0}, {l == 0 ? 100.0 : 1.0, size, 0}});
  }
  // The large layer small, and every small one as it was: what a coarse grid would not keep apart.
  const auto front = SolvePrecisions(layers);
  const auto at = std::find_if(front.begin(), front.end(),
                               [](const Assignment& a) { return a.total.error == 100; });
  ASSERT_NE(at, front.end());
  EXPECT_EQ(at->choice[0], 1);
  EXPECT_EQ(std::count(at->choice.begin(), at->choice.end(), 0), 59);
}

/// With terms of neighbours: the least that trying all finds within a limit.
TEST(Solver, NeighboursShareAChangeOfType) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Layers layers = RandomLayers(seed, 6, true);
    Random random(seed + 1000);
    ChainTerms chain;
    for (const auto& options : layers) {
      chain.marked.push_back({});
      for (size_t o = 0; o < options.size(); ++o) chain.marked.back().push_back(o != 1);
      chain.ms.push_back(-static_cast<double>(random.Below(4)));
    }
    const auto front = SolvePrecisions(layers, {1 << 26}, &chain);
    for (const Assignment& a : front) EXPECT_EQ(TotalOf(layers, a.choice, &chain).ms, a.total.ms);
    std::vector<int> choice(layers.size(), 0);
    for (bool more = true; more;) {
      const LayerCost c = TotalOf(layers, choice, &chain);
      EXPECT_TRUE(std::any_of(front.begin(), front.end(),
                              [&](const Assignment& a) { return NoWorse(a.total, c); }))
          << "seed " << seed << ": " << c.error << " " << c.bytes << " " << c.ms;
      more = false;
      for (size_t l = 0; l < layers.size() && !more; ++l) {
        more = ++choice[l] < static_cast<int>(layers[l].size());
        if (!more) choice[l] = 0;
      }
    }
  }
}

TEST(Solver, NoLayers) {
  const auto front = SolvePrecisions({});
  ASSERT_EQ(front.size(), 1u);
  EXPECT_TRUE(front[0].choice.empty());
}

}  // namespace
}  // namespace infer
