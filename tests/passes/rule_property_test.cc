/// The property test of the built-in rules in its short form; nightly/ has the long one.
#include <gmock/gmock.h>

#include <cstdlib>

#include "lib/ir/text.h"
#include "tests/passes/rule_fuzzing.h"

namespace infer {
namespace {

TEST(RuleProperty, RandomGraphsKeepTheirValues) {
  const int64_t graphs = std::getenv("INFER_SANITIZED") ? 140 : 560;
  const FuzzResult result = FuzzAllRules(1, graphs, 250);
  for (const FuzzFailure& f : result.failures)
    ADD_FAILURE() << f.rule << ", seed " << f.seed << " (" << f.bends << "): " << f.what
                  << "\nbefore:\n"
                  << f.graph;
  EXPECT_GE(result.graphs, graphs * 9 / 10);
  EXPECT_GE(result.fired, result.graphs / 4);
}

}  // namespace
}  // namespace infer
