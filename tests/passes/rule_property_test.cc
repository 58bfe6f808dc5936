/// The property test of the built-in rules in its short form; nightly/ has the long one.
#include <gmock/gmock.h>

#include "lib/ir/text.h"
#include "tests/passes/rule_fuzzing.h"

namespace infer {
namespace {

TEST(RuleProperty, RandomGraphsKeepTheirValues) {
  const FuzzResult result = FuzzAllRules(1, 560, 60);
  for (const FuzzFailure& f : result.failures)
    ADD_FAILURE() << f.rule << ", seed " << f.seed << " (" << f.bends << "): " << f.what
                  << "\nbefore:\n"
                  << f.graph;
  EXPECT_GE(result.graphs, 500);
  EXPECT_GE(result.fired, result.graphs / 4);
}

}  // namespace
}  // namespace infer
