/// How much of the time of every zoo and shared model the CPU backend spends in reference kernels:
/// one line per model, as it came and fused, on one thread. More than 1 % of the wall time fails.
/// Graphs of a few nodes, whose whole run takes less than kShortMs, may spend kMostShortMs there
/// instead: a share of a microsecond says nothing.
#include "tools/common/reference_share.h"

#include <gmock/gmock.h>

#include <chrono>
#include <iostream>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "runtime/cpu/backend.h"
#include "tests/tools/test_models.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

constexpr double kMostPercent = 1;
constexpr double kShortMs = 0.2, kMostShortMs = 0.05;

double NowMs() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

Result<ReferenceShare> Measured(const Graph& g, const std::vector<Datum>& inputs) {
  INFER_ASSIGN(const auto program, MakeCpuBackend()->Compile(g, {.threads = 1}));
  INFER_ASSIGN(const auto context, program->NewContext());
  for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(context->BindInput(i, inputs[i]));
  // The first run plans and allocates; short runs are repeated, for steadier medians.
  INFER_TRY(context->Run());
  ReferenceSamples samples;
  const double start = NowMs();
  for (int k = 0; k < 3 || (k < 101 && NowMs() - start < 100); ++k) {
    const double begin = NowMs();
    INFER_TRY(context->Run({.profile = true}));
    samples.Add(NowMs() - begin, context->reference_times());
  }
  return samples.Median();
}

void Check(const std::string& name, const char* form, const Graph& g,
           const std::vector<Datum>& inputs) {
  const auto share = Measured(g, inputs);
  ASSERT_TRUE(share.ok()) << name << " " << form << ": " << share.status().message();
  std::string line = Cat(name, " (", form, ")");
  line.resize(std::max<size_t>(line.size(), 70), ' ');
  const bool is_short = share->wall_ms < kShortMs && share->percent() > kMostPercent;
  std::cout << line << " " << Fixed(share->wall_ms, 4) << " ms, " << share->ToString();
  if (is_short)
    std::cout << "; judged by " << Fixed(share->reference_ms(), 4) << " ms of " << kMostShortMs;
  std::cout << std::endl;
  if (is_short)
    EXPECT_LE(share->reference_ms(), kMostShortMs) << name << " " << form;
  else
    EXPECT_LE(share->percent(), kMostPercent) << name << " " << form;
}

void CheckBoth(const std::string& name, Graph& g, const std::vector<Datum>& inputs) {
  Check(name, "as it came", g, inputs);
  const auto report = Optimize(g);
  ASSERT_TRUE(report.ok()) << name << ": " << report.status().message();
  Check(name, "fused", g, inputs);
}

/// `may_refuse`: what cannot be imported, or run at all, is counted and passed over.
void CheckFolder(std::string_view folder, bool may_refuse) {
  const fs::path root = Below(folder);
  const auto paths = ModelsBelow(root);
  if (paths.empty()) GTEST_SKIP() << "INFER_TEST_DATA is not set or has no " << folder << "/";
  int refused = 0;
  for (const fs::path& path : paths) {
    const std::string name = fs::relative(path, root);
    auto model = ImportModel(path, Ops());
    const auto inputs = model.ok() ? InputsOf(path, model->graph) : model.status();
    if (inputs.ok()) {
      CheckBoth(name, model->graph, *inputs);
    } else {
      EXPECT_TRUE(may_refuse) << name << ": " << inputs.status().message();
      ++refused;
    }
  }
  std::cout << paths.size() - static_cast<size_t>(refused) << " measured, " << refused
            << " cannot be run by any kernel\n";
  EXPECT_LT(static_cast<size_t>(refused), paths.size() / 4);
}

TEST(ReferenceShare, SharedModels) { CheckFolder("models", false); }
TEST(ReferenceShare, FusionGraphs) { CheckFolder("fusion_graphs", true); }

class ZooShare : public ::testing::TestWithParam<std::string_view> {};
TEST_P(ZooShare, AtMostOnePercent) {
  auto model = MakeZooModel(GetParam(), TestedOptions(GetParam()), Ops());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto inputs = RandomModelInputs(model->graph, 0);
  ASSERT_TRUE(inputs.ok()) << inputs.status().message();
  CheckBoth(Cat("zoo ", GetParam()), model->graph, *inputs);
}
INSTANTIATE_TEST_SUITE_P(Zoo, ZooShare, ::testing::ValuesIn(ZooNames()),
                         [](const auto& info) { return TestNameOf(info.param); });

}  // namespace
}  // namespace infer
