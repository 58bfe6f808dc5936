/// Every zoo network and shared model, as it came, fused and (zoo) in INT8: the same bits with 1
/// and 3 threads, fused with 7, too; by night (INFER_BY_NIGHT) with 1, 2, 3 and 7 in every form.
#include <gmock/gmock.h>

#include <cstdlib>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "quant/scheme/quantize.h"
#include "runtime/cpu/backend.h"
#include "tests/tools/test_models.h"

namespace infer {
namespace {

bool SameDatum(const Datum& a, const Datum& b) {
  if (a.is_tensor() != b.is_tensor()) return false;
  if (a.is_tensor()) return BitEqual(a.tensor(), b.tensor());
  if (a.is_sequence() != b.is_sequence()) return false;
  if (!a.is_sequence())
    return true;  // optionals and maps: from tensors that are compared elsewhere
  const auto &x = a.sequence(), &y = b.sequence();
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), SameDatum);
}

/// Random numbers are drawn anew in every run.
bool IsDeterministic(const Graph& g) {
  return std::all_of(g.nodes().begin(), g.nodes().end(), [](const auto& n) {
    return n->def().deterministic &&
           std::all_of(n->subgraphs().begin(), n->subgraphs().end(),
                       [](const auto& s) { return IsDeterministic(*s.second); });
  });
}

void Check(const std::string& name, const Graph& g, const std::vector<Datum>& inputs,
           std::vector<int> lanes = {1, 3}) {
  if (!IsDeterministic(g)) return;
  SetLaneBudget(7);
  if (std::getenv("INFER_BY_NIGHT")) lanes = {1, 2, 3, 7};
  std::vector<Datum> first;
  for (int threads : lanes) {
    const auto program = MakeCpuBackend()->Compile(g, {.threads = threads});
    ASSERT_TRUE(program.ok()) << name << ": " << program.status().message();
    auto outputs = RunOnce(**program, inputs);
    ASSERT_TRUE(outputs.ok()) << name << ": " << outputs.status().message();
    if (first.empty()) first = *outputs;
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_TRUE(SameDatum(first[i], (*outputs)[i]))
          << name << ", " << threads << " threads, output " << g.outputs()[i]->name();
  }
}

void CheckBoth(const std::string& name, Graph& g, const std::vector<Datum>& inputs) {
  Check(name + " as it came", g, inputs);
  const auto report = Optimize(g);
  ASSERT_TRUE(report.ok()) << name << ": " << report.status().message();
  Check(name + " fused", g, inputs, {1, 3, 7});
}

TEST(SameBits, SharedModels) {
  const auto root = Below("models");
  const auto paths = ModelsBelow(root);
  if (paths.empty()) GTEST_SKIP() << "INFER_TEST_DATA is not set or has no models/";
  for (const auto& path : paths) {
    const std::string name = std::filesystem::relative(path, root);
    auto model = ImportModel(path, Ops());
    ASSERT_TRUE(model.ok()) << name << ": " << model.status().message();
    const auto inputs = InputsOf(path, model->graph);
    ASSERT_TRUE(inputs.ok()) << name << ": " << inputs.status().message();
    CheckBoth(name, model->graph, *inputs);
  }
}

class ZooBits : public ::testing::TestWithParam<std::string_view> {};
TEST_P(ZooBits, Same) {
  auto model = MakeZooModel(GetParam(), TestedOptions(GetParam()), Ops());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto inputs = RandomModelInputs(model->graph, 0);
  ASSERT_TRUE(inputs.ok()) << inputs.status().message();
  const std::string name(GetParam());
  Graph quantized = model->graph.Clone();
  CheckBoth(name, model->graph, *inputs);
  if (name.ends_with("-int4")) return;  // its products have integer weights as it comes
  const auto report = QuantizeStatic(quantized, InMemory({*inputs}), *MakeCpuBackend());
  ASSERT_TRUE(report.ok()) << name << ": " << report.status().message();
  Check(name + " in INT8", quantized, *inputs);
}
INSTANTIATE_TEST_SUITE_P(Zoo, ZooBits, ::testing::ValuesIn(ZooNames()),
                         [](const auto& info) { return TestNameOf(info.param); });

}  // namespace
}  // namespace infer
