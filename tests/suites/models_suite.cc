/// Every model below $INFER_TEST_DATA/models against its stored outputs (test_data_set_k), within
/// max|d| / max|ref| <= 1e-3 per f32 output; other types equal.
#include <algorithm>
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
  if (BackendUnderTest().name() == "mock" && GetParam() == "protocol_transformer")
    GTEST_SKIP()
        << "minutes on the reference kernels behind the mock device; suite_reference runs it";
  const fs::path folder = Root() / GetParam();
  auto model = ImportModel(folder / "model.onnx", SuiteOps());
  ASSERT_TRUE(model.ok()) << model.status().message();
  for (int level : {0, 1}) {
    auto program = BackendUnderTest().Compile(model->graph, {.level = level});
    ASSERT_TRUE(program.ok()) << program.status().message();
    auto context = (*program)->NewContext();
    ASSERT_TRUE(context.ok()) << context.status().message();
    for (int k = 0;; ++k) {
      const fs::path set = folder / Cat("test_data_set_", k);
      if (!fs::exists(set)) break;
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

INSTANTIATE_TEST_SUITE_P(Models, ModelRun, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ModelRun);

TEST(Models, Data) {
  if (ModelNames().empty())
    GTEST_SKIP() << "INFER_TEST_DATA is not set or has no models/: no trained model was run";
}

}  // namespace
}  // namespace infer
