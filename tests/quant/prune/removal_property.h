#pragma once
/// The promise of groups and of Shrink: units whose readers' weights are zero can go, and the model
/// computes the same.
#include <gtest/gtest.h>

#include <cmath>

#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/inference.h"
#include "quant/prune/shrink.h"
#include "tests/quant/prune/random_net.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {

/// What a run of the property test went through.
struct RemovalCounts {
  int64_t graphs = 0, groups = 0, narrowed = 0, units = 0;
  std::map<std::string, int> kinds, narrowed_kinds;
  std::map<std::string, int> reasons;
};

inline void ZeroReaders(Graph& g, const ChannelGroup& group, const AxisCuts& cuts) {
  for (const WeightsOfGroup& r : group.readers) {
    const auto cut = cuts.find({r.weights, r.axis});
    if (cut == cuts.end()) continue;
    Value* const v = g.FindValue(r.weights);
    Tensor t = v->constant()->Clone();
    int64_t inner = 1;
    for (int a = r.axis + 1; a < t.rank(); ++a) inner *= t.dim(a);
    for (int64_t e = 0; e < t.num_elements(); ++e)
      if (std::binary_search(cut->second.begin(), cut->second.end(), e / inner % t.dim(r.axis)))
        t.Set(e, 0);
    GraphEditor(g).SetConstant(v, std::move(t));
  }
}

/// One random graph: cuts random units of random groups, all at once.
inline void CheckRandomRemoval(uint64_t seed, RemovalCounts& counts) {
  RandomNet net(seed);
  const std::string text = net.Make();
  SCOPED_TRACE(Cat("seed ", seed, "\n", text));
  Graph g = MustParse(text);
  ASSERT_TRUE(InferTypes(g).ok());
  const auto layers = FindPrunable(g, g, {});
  ASSERT_TRUE(layers.ok()) << layers.status().message();
  Random random(seed * 977 + 5);
  AxisCuts cuts;
  ++counts.graphs;
  bool any = false;
  for (const ChannelGroup& group : FindGroups(g, *layers)) {
    ++counts.groups;
    if (!group.reason.empty()) {
      ++counts.reasons[group.reason.substr(
          group.reason.rfind("' ") == std::string::npos ? 0 : group.reason.rfind("' ") + 2)];
      continue;
    }
    ASSERT_GT(group.units.size(), 1u);
    if (random.Below(4) == 0) continue;
    std::vector<int64_t> gone;
    const uint64_t most = 1 + random.Below(group.units.size() - 1);
    UnitLimits limits(group);
    for (int64_t u = 0; u < static_cast<int64_t>(group.units.size()); ++u) {
      if (gone.size() >= most || random.Below(2) != 0 || !limits.Allows(u)) continue;
      limits.Remove(u);
      gone.push_back(u);
    }
    if (gone.empty()) continue;
    const AxisCuts own = CutsOf(group, gone);
    const auto alone = Shrink(g, own);
    ASSERT_TRUE(alone.ok()) << group.name << ": " << alone.status().message();
    ZeroReaders(g, group, own);
    AddCuts(own, cuts);
    ++counts.narrowed;
    counts.units += static_cast<int64_t>(gone.size());
    any = true;
  }
  for (const auto& [kind, n] : net.kinds()) {
    counts.kinds[kind] += n;
    if (any) counts.narrowed_kinds[kind] += n;
  }
  if (!any) return;
  const auto shrunk = Shrink(g, cuts);
  ASSERT_TRUE(shrunk.ok()) << shrunk.status().message();
  const Samples samples = NormalSamples(g, 1, seed);
  const auto inputs = samples.get(0);
  const auto before = Evaluate(g, *inputs), after = Evaluate(*shrunk, *inputs);
  ASSERT_TRUE(before.ok()) << before.status().message();
  ASSERT_TRUE(after.ok()) << after.status().message();
  const Tensor &a = (*before)[0].tensor(), &b = (*after)[0].tensor();
  ASSERT_EQ(a.dims(), b.dims());
  double greatest = 0, difference = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (std::isnan(a.At(i)) && std::isnan(b.At(i))) continue;
    greatest = std::max(greatest, std::abs(a.At(i)));
    difference = std::max(difference, std::abs(a.At(i) - b.At(i)));
  }
  EXPECT_LE(difference, 1e-4 * greatest + 1e-6);
}

}  // namespace infer
