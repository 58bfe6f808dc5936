#include "quant/accuracy/runtime_fault.h"

#include <gmock/gmock.h>

#include "lib/ir/editor.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Fuses wrongly at level 2: a Relu that alone reads a Mul becomes Abs.
class FaultyBackend : public Backend {
 public:
  std::string_view name() const override { return "faulty"; }
  std::string Unavailable() const override { return ""; }
  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    Graph g = graph.Clone();
    GraphEditor editor(g);
    std::vector<Node*> relus;
    for (const auto& n : g.nodes()) {
      if (options.level < 2 || !n->Is("Relu")) continue;
      const Value* in = n->input(0);
      if (in->producer() && in->producer()->Is("Mul") && in->uses().size() == 1 && !in->is_output())
        relus.push_back(n.get());
    }
    for (Node* n : relus) {
      editor.InsertBefore(*n);
      INFER_ASSIGN(Value * wrong, editor.Add("Abs", {n->input(0)}));
      INFER_TRY(editor.ReplaceAllUses(n->output(0), wrong));
      editor.Erase(*n);
    }
    return MakeReferenceBackend()->Compile(g, options);
  }
};

struct Found {
  bool breaks = false, minimal = false;
  std::vector<std::string> set, steps;
};

Found Find(std::string_view text, int level = 2, int max_tries = 200) {
  const Graph g = MustParse(text);
  const auto map = LayerMap::Of(g, g);
  EXPECT_TRUE(map.ok());
  BreakOptions options;
  options.limits.max_error_ratio = 1e-3;
  options.max_tries = max_tries;
  const auto r = FindRuntimeFault(*map, g, FaultyBackend(), NormalSamples(g, 3, 1), level, options);
  EXPECT_TRUE(r.ok()) << r.status().message();
  Found f{r->breaks, r->set.minimal, {}, r->steps};
  for (const size_t i : r->set.members) f.set.push_back(map->layers()[i].name());
  return f;
}

/// The fused pair, m and r, lies in one branch of two; what comes before and after is right.
constexpr std::string_view kBranches = R"(graph g(x: f32[4,8]) -> (y: f32[4,8], z: f32[4,8]) {
  a = Neg(x)
  b = Relu(a)
  m = Mul(b, x)
  c = Sigmoid(a)
  d = Mul(c, a)
  r = Relu(m)
  e = Add(r, d)
  y = Tanh(e)
  z = Exp(d)
})";

TEST(FindRuntimeFault, ThePairThatIsFusedWrongly) {
  const Found f = Find(kBranches);
  EXPECT_TRUE(f.breaks && f.minimal);
  EXPECT_THAT(f.set, ElementsAre("m", "r"));
  EXPECT_EQ(f.steps.size(), 2u);
}

TEST(FindRuntimeFault, NothingBreaksAtALevelThatIsRight) {
  const Found f = Find(kBranches, 1);
  EXPECT_FALSE(f.breaks);
  EXPECT_THAT(f.set, IsEmpty());
}

TEST(FindRuntimeFault, WhatIsReadTwiceIsNotFused) {
  EXPECT_FALSE(Find(R"(graph g(x: f32[4,8]) -> (y: f32[4,8]) {
    m = Mul(x, x)
    n = Neg(m)
    r = Relu(n)
    y = Add(r, m)
  })")
                   .breaks);
}

TEST(FindRuntimeFault, SaysWhenItGaveUp) {
  const Found f = Find(kBranches, 2, 1);
  EXPECT_TRUE(f.breaks);
  EXPECT_FALSE(f.minimal);
  EXPECT_THAT(f.set, testing::IsSupersetOf({"m", "r"}));
}

}  // namespace
}  // namespace infer
