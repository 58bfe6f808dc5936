/// The ground of the checks of rewrites: values of a run on a backend, against reference kernels.
#include "tools/common/backend_values.h"

#include <gtest/gtest.h>

#include "lib/support/memory_limit.h"
#include "tests/tools/programs.h"
#include "tools/common/model_options.h"

namespace infer {
namespace {

/// Counts what is compiled.
class Counting final : public Backend {
 public:
  explicit Counting(int& compiled) : cpu_(*MakeBackend("cpu")), compiled_(compiled) {}
  std::string_view name() const override { return cpu_->name(); }
  std::string Unavailable() const override { return ""; }
  Result<std::shared_ptr<const Program>> Compile(const Graph& g,
                                                 const CompileOptions& options) const override {
    ++compiled_;
    EXPECT_EQ(options.level, 0);
    return cpu_->Compile(g, options);
  }

 private:
  std::unique_ptr<Backend> cpu_;
  int& compiled_;
};

/// The same values by the same names, and so many programs for them.
void CheckValues(const char* text, int programs) {
  SCOPED_TRACE(text);
  const Graph g = Parsed(text);
  const auto inputs = RandomInputs(g, 3, 5);
  ASSERT_TRUE(inputs.ok());
  int compiled = 0;
  const auto got = ValuesOn(std::make_shared<Counting>(compiled), 1, {})(g, *inputs, nullptr);
  const auto want = ReferenceValues(g, *inputs, nullptr);
  ASSERT_TRUE(got.ok()) << got.status().message();
  ASSERT_TRUE(want.ok()) << want.status().message();
  EXPECT_EQ(compiled, programs);
  EXPECT_EQ(got->size(), want->size());
  for (const auto& [name, value] : *want) {
    ASSERT_TRUE(got->contains(name)) << name;
    const auto error = RelativeError(value, got->at(name));
    ASSERT_TRUE(error.ok()) << name << ": " << error.status().message();
    EXPECT_LE(*error, 1e-5) << name;
  }
}

TEST(BackendValues, AreThoseOfReferenceKernels) {
  CheckValues(
      "graph g(x: f32[N,256]) -> (y, s) { w = const f32[256,512] ~1  v = const f32[512,256] ~2 "
      "a = MatMul(x, w)  b = Relu(a)  c = MatMul(b, v)  y = Add(c, x)  s = Shape(y) }",
      1);
}

TEST(BackendValues, LittleWorkIsNotCompiled) {
  CheckValues("graph g(x: f32[N,8]) -> (y) { a = Sigmoid(x)  y = Mul(a, x) }", 0);
}

/// As `run` compiles: of the model types stay.
TEST(CompileTakingWeights, LeavesTypesAlone) {
  Graph g = Parsed(R"(graph g(x: f32[4,1024]) -> (y) {
    w = const f32[1024,1024] ~1  h = MatMul(x, w)  k = const i64[2] {2, 2048}  y = Reshape(h, k) })");
  constexpr int64_t kWeights = 4 << 20;
  const int64_t before = ChargedMemory();
  const auto program = CompileTakingWeights(g, {.threads = 1, .level = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  // The packed form in the place of the plain one.
  EXPECT_LT(ChargedMemory() - before, kWeights / 2);
  EXPECT_EQ(ToString(g.outputs()[0]->type()), "f32[2,2048]");
  const auto inputs = RandomInputs(g, 3, 5);
  ASSERT_TRUE(inputs.ok());
  EXPECT_TRUE(RunOnce(**program, *inputs).ok());
}

}  // namespace
}  // namespace infer
