/// Property tests of the built-in rules: random graphs in the short form (nightly/ has the long
/// one), and examples with random further readers.
#include <gmock/gmock.h>

#include <cstdlib>
#include <ranges>

#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/support/random.h"
#include "passes/pass/pipeline.h"
#include "tests/passes/graphs.h"
#include "tests/passes/rule_fuzzing.h"

namespace infer {
namespace {

TEST(RuleProperty, RandomGraphsKeepTheirValues) {
  // One for each rule at least: of fewer, those that cannot be drawn weigh too much below.
  const int64_t graphs = std::getenv("INFER_BY_NIGHT") ? 600 : 150;
  const FuzzResult result = FuzzAllRules(1, graphs, 250);
  for (const FuzzFailure& f : result.failures)
    ADD_FAILURE() << f.rule << ", seed " << f.seed << " (" << f.bends << "): " << f.what
                  << "\nbefore:\n"
                  << f.graph;
  EXPECT_GE(result.graphs, graphs * 9 / 10);
  EXPECT_GE(result.fired, result.graphs / 4);
}

/// Every example of every rule, with random further readers and outputs of inner values: whatever
/// fires must keep the values.
TEST(RuleProperty, RandomExtraUsesNeverChangeValues) {
  const uint64_t seeds = std::getenv("INFER_BY_NIGHT") ? 4 : 1;
  // Under sanitizers two examples of each rule; all of them run there once, as they are (RuleTest).
  const size_t examples = std::getenv("INFER_SANITIZED") ? 2 : SIZE_MAX;
  int graphs = 0, fired_total = 0;
  for (const ListedRule& listed : AllRules())
    for (const std::string& text : listed.rule.fires_on | std::views::take(examples))
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        Graph before = Parsed(text);
        Random random(seed);
        GraphEditor e(before);
        std::vector<Value*> inner;
        for (const auto& n : before.nodes())
          for (Value* v : n->outputs())
            if (v && !v->is_output()) inner.push_back(v);
        for (Value* v : inner) {
          if (random.Below(3) == 0) e.MarkOutput(v);
          if (random.Below(3) == 0) {
            auto reader = e.Add("Identity", {v});
            ASSERT_TRUE(reader.ok());
            e.MarkOutput(*reader);
          }
        }
        ASSERT_TRUE(Verify(before).ok()) << Print(before);
        Graph after = before.Clone();
        OptimizeOptions options;
        if (listed.ort_only) options.reader = RewriteFor::kOnnxRuntime;
        const auto report = Optimize(after, std::move(options));
        ASSERT_TRUE(report.ok()) << listed.rule.name << " seed " << seed << ": "
                                 << report.status().message() << "\n"
                                 << Print(before);
        const auto inputs = RandomInputs(before, seed);
        ASSERT_TRUE(inputs.ok());
        const auto a = Evaluate(before, *inputs), b = Evaluate(after, *inputs);
        ASSERT_TRUE(a.ok() && b.ok()) << a.status().message() << b.status().message();
        for (size_t i = 0; i < a->size(); ++i) {
          const auto error = RelativeError((*a)[i], (*b)[i]);
          ASSERT_TRUE(error.ok()) << error.status().message();
          // In f16 each of a few roundings that a rule spares is 2^-11.
          const bool half = after.outputs()[i]->dtype() == DType::kF16;
          EXPECT_LE(*error, half ? 0x1p-9 : 1e-4) << listed.rule.name << " seed " << seed << "\n"
                                                  << Print(after);
        }
        ++graphs;
        fired_total += static_cast<int>(report->rewrites);
      }
  std::printf("%d graphs, %d rewrites\n", graphs, fired_total);
  EXPECT_GT(fired_total, graphs / 4);
}

}  // namespace
}  // namespace infer
