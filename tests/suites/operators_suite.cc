/// Every operator's example on the backend under test, against the reference evaluator.
#include "tests/suites/suite.h"

namespace infer {
namespace {

class OperatorExample : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(OperatorExample, AgreesWithReference) {
  const OpDef& def = *GetParam();
  auto g = ParseGraph(def.example, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const Value* v : g->inputs())
    if (!v->type().is_tensor() || !v->shape().has_rank())
      GTEST_SKIP() << "input '" << v->name() << "' of the example has no known rank";
  if (!def.deterministic) GTEST_SKIP() << def.name << " is random";
  for (uint64_t seed = 1; seed <= 3; ++seed)
    CheckGraph(def.example, seed, std::max(def.tolerance, 1e-6));
}

/// The example's text with some of its outputs: bit i of `kept` stands for output i. Empty where it
/// has no such output.
std::string WithOutputs(std::string_view text, unsigned kept) {
  const size_t begin = text.find("-> (") + 4, end = text.find(") {", begin);
  const auto names = Split(text.substr(begin, end - begin), ',');
  if (names.size() < 2 || kept + 1 >= (1u << names.size())) return "";
  std::vector<std::string> left;
  for (size_t i = 0; i < names.size(); ++i)
    if (kept >> i & 1) left.emplace_back(names[i]);
  return Cat(text.substr(0, begin), Join(left, ", "), text.substr(end));
}

std::vector<const OpDef*> OpsWithExamples() {
  std::vector<const OpDef*> out;
  for (const OpDef* d : SuiteOps().all())
    if (!d->example.empty()) out.push_back(d);
  return out;
}

/// Whichever of an operator's results nobody reads, kernels find the others at their places.
TEST(Operators, ResultsThatNobodyReadsTakeNoPlace) {
  int run = 0;
  for (const OpDef* def : OpsWithExamples()) {
    if (!def->deterministic) continue;
    std::string text;
    for (unsigned kept = 1; !(text = WithOutputs(def->example, kept)).empty(); ++kept) {
      auto g = ParseGraph(text, SuiteOps());
      ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << text;
      const bool ranked = std::all_of(g->inputs().begin(), g->inputs().end(), [](const Value* v) {
        return v->type().is_tensor() && v->shape().has_rank();
      });
      if (!ranked) break;
      CheckGraph(text, kept, std::max(def->tolerance, 1e-6));
      ++run;
    }
  }
  EXPECT_GT(run, 50);
}

INSTANTIATE_TEST_SUITE_P(AllOps, OperatorExample, ::testing::ValuesIn(OpsWithExamples()),
                         [](const auto& info) {
                           std::string name = Cat(info.param->domain, "_", info.param->name);
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return Cat("op_", name);
                         });

}  // namespace
}  // namespace infer
