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

std::vector<const OpDef*> OpsWithExamples() {
  std::vector<const OpDef*> out;
  for (const OpDef* d : SuiteOps().all())
    if (!d->example.empty()) out.push_back(d);
  return out;
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
