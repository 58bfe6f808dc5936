// Runs every rule on its own examples and near misses (passes/rewrite/rule_suite.h). A new rule
// needs no new test code.
#include <gmock/gmock.h>

#include <set>

#include "passes/pass/pipeline.h"
#include "passes/rewrite/rule_suite.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

class RuleTest : public testing::TestWithParam<size_t> {};

const std::vector<ListedRule>& Rules() {
  static const std::vector<ListedRule> rules = AllRules();
  return rules;
}

TEST_P(RuleTest, HoldsOnItsOwnExamples) {
  const Rule& rule = Rules()[GetParam()].rule;
  for (uint64_t seed : {1, 2, 3})
    for (const std::string& broken : CheckRule(rule, Ops(), seed))
      ADD_FAILURE() << rule.name << ": " << broken;
}

TEST_P(RuleTest, IsDocumentedAndHasNearMisses) {
  const Rule& rule = Rules()[GetParam()].rule;
  EXPECT_NE(rule.doc.find("=>"), std::string::npos) << rule.name;
  EXPECT_FALSE(rule.silent_on.empty()) << rule.name;
  EXPECT_FALSE(Describe(rule.match).empty());
}

INSTANTIATE_TEST_SUITE_P(All, RuleTest, testing::Range(size_t{0}, Rules().size()),
                         [](const auto& info) {
                           std::string name = Rules()[info.param].rule.name;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(Rules, NamesAreUnique) {
  std::set<std::string> names;
  for (const ListedRule& r : Rules()) EXPECT_TRUE(names.insert(r.rule.name).second) << r.rule.name;
}

}  // namespace
}  // namespace infer
