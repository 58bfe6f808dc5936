/// Every model below $INFER_TEST_DATA/models against its stored outputs (test_data_set_k), within
/// max|d| / max|ref| <= 1e-3 per f32 output; other types equal.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "lib/onnx/import.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

fs::path Root() {
  const char* data = std::getenv("INFER_TEST_DATA");
  return data ? fs::path(data) / "models" : fs::path();
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  if (!Root().empty() && fs::is_directory(Root()))
    for (const auto& e : fs::directory_iterator(Root()))
      if (fs::exists(e.path() / "model.onnx")) names.push_back(e.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<Datum>> ReadSet(const fs::path& set, const std::string& kind,
                                   const std::vector<Value*>& values) {
  std::vector<Datum> data;
  for (size_t i = 0; i < values.size(); ++i) {
    INFER_ASSIGN(Datum d, ReadDatumPb(set / Cat(kind, "_", i, ".pb"), values[i]->type()));
    data.push_back(std::move(d));
  }
  return data;
}

class ModelRun : public ::testing::TestWithParam<std::string> {};

TEST_P(ModelRun, StoredOutputs) {
  const bool fast = BackendUnderTest().name() == "cpu";
  const bool is_vulkan = BackendUnderTest().name() == "vulkan";
  // By day what a user gets by default, on the first of the stored inputs; the cpu backend at
  // levels 0 and 1 on all of them, but for the largest model. The others have no levels.
  const bool by_day = !std::getenv("INFER_BY_NIGHT");
  const bool one_set = by_day && (!fast || GetParam() == "protocol_transformer");
  const std::vector<int> levels = fast                   ? std::vector<int>{0, 1}
                                  : is_vulkan && !by_day ? std::vector<int>{0, 1, 2}
                                                         : std::vector<int>{2};
  if (BackendUnderTest().name() == "mock" && GetParam() == "protocol_transformer")
    GTEST_SKIP()
        << "minutes on the reference kernels behind the mock device; suite_reference runs it";
  const fs::path folder = Root() / GetParam();
  auto model = ImportModel(folder / "model.onnx", SuiteOps());
  ASSERT_TRUE(model.ok()) << model.status().message();
  for (int level : levels) {
    auto program = BackendUnderTest().Compile(model->graph, {.level = level});
    ASSERT_TRUE(program.ok()) << program.status().message();
    auto context = (*program)->NewContext();
    ASSERT_TRUE(context.ok()) << context.status().message();
    for (int k = 0;; ++k) {
      const fs::path set = folder / Cat("test_data_set_", k);
      if (!fs::exists(set)) break;
      if (k > 0 && one_set) break;
      if (k > 0 && !fast && GetParam() == "protocol_transformer") break;  // 10 s each
      auto inputs = ReadSet(set, "input", (*program)->inputs());
      auto want = ReadSet(set, "output", (*program)->outputs());
      ASSERT_TRUE(inputs.ok() && want.ok()) << inputs.status().message() << want.status().message();
      for (size_t i = 0; i < inputs->size(); ++i) {
        const Status s = (*context)->BindInput(i, (*inputs)[i]);
        ASSERT_TRUE(s.ok()) << s.message();
      }
      for (int again = 0; again < (fast ? 2 : 1); ++again) {
        const Status s = (*context)->Run();
        ASSERT_TRUE(s.ok()) << s.message();
        for (size_t i = 0; i < want->size(); ++i)
          ExpectClose((*context)->output(i), (*want)[i], 1e-3,
                      Cat(GetParam(), " level ", level, " set ", k, " run ", again, " output ", i));
      }
    }
  }
}

/// sqrt(sum d^2 / sum ref^2) of floats, the share of unequal elements of others.
double ErrorOf(const Datum& got, const Datum& want) {
  const Tensor &a = got.tensor(), &b = want.tensor();
  EXPECT_EQ(a.dims(), b.dims());
  double d2 = 0, r2 = 0, unequal = 0;
  for (int64_t i = 0; i < b.num_elements(); ++i) {
    const double d = a.At(i) - b.At(i);
    d2 += d * d;
    r2 += b.At(i) * b.At(i);
    unequal += d != 0;
  }
  if (b.num_elements() == 0) return 0;
  if (!IsFloat(b.dtype())) return unequal / static_cast<double>(b.num_elements());
  return std::sqrt(d2 / std::max(r2, 1e-30));
}

/// Products in bf16: each output within 5 % of its root mean square (26 dB), of integers 99 %
/// equal. The largest error says little there: of boxes' exponentials it is ten times that. Two
/// models have more: outputs that are sigmoids far below 0, and three angles that are small here.
double Bf16Bound(const std::string& model) {
  return model == "yunet_n_320" || model == "fsanet_var" ? 0.07 : 0.05;
}

TEST_P(ModelRun, InBf16) {
  if (!BackendUnderTest().HowComputes(Compute::kBF16).ok()) return;
  const fs::path folder = Root() / GetParam();
  const fs::path set = folder / "test_data_set_0";
  if (!fs::exists(set)) GTEST_SKIP() << "no " << set;
  auto model = ImportModel(folder / "model.onnx", SuiteOps());
  ASSERT_TRUE(model.ok()) << model.status().message();
  auto program = BackendUnderTest().Compile(model->graph, {.compute = Compute::kBF16});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto inputs = ReadSet(set, "input", (*program)->inputs());
  auto want = ReadSet(set, "output", (*program)->outputs());
  ASSERT_TRUE(inputs.ok() && want.ok()) << inputs.status().message() << want.status().message();
  const auto got = RunOnce(**program, *inputs);
  ASSERT_TRUE(got.ok()) << got.status().message();
  for (size_t i = 0; i < want->size(); ++i) {
    if (!(*want)[i].is_tensor() || (*want)[i].tensor().dtype() == DType::kString) continue;
    const bool is_float = IsFloat((*want)[i].tensor().dtype());
    EXPECT_LE(ErrorOf((*got)[i], (*want)[i]), is_float ? Bf16Bound(GetParam()) : 0.01)
        << GetParam() << " output " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelRun, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ModelRun);

TEST(Models, Data) {
  if (ModelNames().empty())
    GTEST_SKIP() << "INFER_TEST_DATA is not set or has no models/: no trained model was run";
}

}  // namespace
}  // namespace infer
