/// The long property test of the built-in rules. INFER_FUZZ_SEED and INFER_FUZZ_GRAPHS choose
/// others; docs/rules.md records a run.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/passes/rule_fuzzing.h"

namespace infer {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

TEST(RulePropertyNightly, RandomGraphsKeepTheirValues) {
  const int64_t graphs = FromEnvironment("INFER_FUZZ_GRAPHS", 12'000);
  const auto seed = static_cast<uint64_t>(FromEnvironment("INFER_FUZZ_SEED", 1'000'000));
  const FuzzResult result = FuzzAllRules(seed, graphs, 1500);
  for (const FuzzFailure& f : result.failures)
    ADD_FAILURE() << f.rule << ", seed " << f.seed << " (" << f.bends << "): " << f.what
                  << "\nbefore:\n"
                  << f.graph;
  EXPECT_GE(result.graphs, graphs * 5 / 6);
  EXPECT_GE(result.fired, result.graphs / 4);
}

}  // namespace
}  // namespace infer
