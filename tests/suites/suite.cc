#include "tests/suites/suite.h"

#include <cstdio>

#include "lib/support/isa.h"
#include "lib/support/parallel.h"

namespace infer {
namespace {

bool IsReal(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kF16 || t == DType::kBF16;
}

void ExpectCloseTensors(const Tensor& got, const Tensor& want, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(ToString(got.type()), ToString(want.type())) << what;
  if (!IsReal(want.dtype())) {
    EXPECT_TRUE(BitEqual(got, want))
        << what << ": " << ToString(got) << " wants " << ToString(want);
    return;
  }
  double largest = 0, worst = 0;
  int64_t at = -1;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double g = got.At(i), w = want.At(i);
    if (std::isnan(w) || std::isinf(w)) {
      EXPECT_TRUE(std::isnan(w) ? std::isnan(g) : g == w)
          << what << "[" << i << "] is " << g << ", wants " << w;
      continue;
    }
    largest = std::max(largest, std::abs(w));
    const double d = std::isfinite(g) ? std::abs(g - w) : INFINITY;
    if (d > worst) {
      worst = d;
      at = i;
    }
  }
  EXPECT_LE(worst, tolerance * largest + 1e-30)
      << what << "[" << at << "] is " << (at < 0 ? 0 : got.At(at)) << ", wants "
      << (at < 0 ? 0 : want.At(at)) << "; largest " << largest;
}

}  // namespace

Tensor RandomInput(DType dtype, const Dims& dims, Random& random) {
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (dtype == DType::kString)
      t.mutable_strings()[static_cast<size_t>(i)] =
          std::string(1, static_cast<char>('a' + random.Below(26)));
    else if (dtype == DType::kC64)
      t.mutable_data<std::complex<float>>()[static_cast<size_t>(i)] = {
          static_cast<float>(random.Normal()), 1};
    else if (dtype == DType::kC128)
      t.mutable_data<std::complex<double>>()[static_cast<size_t>(i)] = {random.Normal(), 2};
    else
      t.Set(i, IsFloat(dtype) ? random.Normal() : random.Below(2));
  }
  return t;
}

Dims DimsOf(const Value& v, int64_t symbol) {
  Dims dims;
  for (const Dim& d : v.shape().dims()) dims.push_back(d.is_static() ? d.value() : symbol);
  return dims;
}

void ExpectClose(const Datum& got, const Datum& want, double tolerance, const std::string& what) {
  if (want.is_tensor()) {
    ASSERT_TRUE(got.is_tensor()) << what;
    if (!want.tensor().defined()) return;
    ExpectCloseTensors(got.tensor(), want.tensor(), tolerance, what);
  } else if (want.is_sequence()) {
    ASSERT_TRUE(got.is_sequence()) << what;
    ASSERT_EQ(got.sequence().size(), want.sequence().size()) << what;
    for (size_t i = 0; i < want.sequence().size(); ++i)
      ExpectClose(got.sequence()[i], want.sequence()[i], tolerance, Cat(what, "[", i, "]"));
  } else if (want.is_optional()) {
    ASSERT_TRUE(got.is_optional()) << what;
    ASSERT_EQ(got.optional().value != nullptr, want.optional().value != nullptr) << what;
    if (want.optional().value)
      ExpectClose(*got.optional().value, *want.optional().value, tolerance, what);
  } else {
    ASSERT_TRUE(got.is_map()) << what;
    ExpectClose(got.map().keys, want.map().keys, tolerance, what);
    ExpectClose(*got.map().values, *want.map().values, tolerance, what);
  }
}

std::vector<int> DifferentLevels() {
  return BackendUnderTest().name() == "cpu" ? std::vector<int>{0, 1, 2} : std::vector<int>{2};
}

std::vector<StepInfo> CheckGraph(std::string_view text, const std::vector<Datum>& inputs,
                                 double tolerance) {
  auto g = ParseGraph(text, SuiteOps());
  EXPECT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  return g.ok() ? CheckGraph(*g, inputs, tolerance, text) : std::vector<StepInfo>();
}

std::vector<StepInfo> CheckGraph(const Graph& g, const std::vector<Datum>& inputs, double tolerance,
                                 std::string_view text) {
  auto want = Evaluate(g, inputs);
  EXPECT_TRUE(want.ok()) << want.status().message() << "\n" << text;
  if (!want.ok()) return {};
  std::vector<StepInfo> steps;
  for (const int level : DifferentLevels()) {
    auto program = BackendUnderTest().Compile(g, {.level = level});
    EXPECT_TRUE(program.ok()) << program.status().message() << "\n" << text;
    if (!program.ok()) return {};
    auto got = RunOnce(**program, inputs);
    EXPECT_TRUE(got.ok()) << got.status().message() << "\n" << text;
    if (!got.ok()) return {};
    steps = (*program)->steps();
    std::vector<std::string> kernels;
    for (const StepInfo& s : steps) kernels.push_back(Cat(s.op, "=", s.kernel));
    for (size_t i = 0; i < want->size(); ++i)
      ExpectClose(
          (*got)[i], (*want)[i], tolerance,
          Cat("level ", level, " output ", i, " of\n", text, "\nby ", Join(kernels, ", "), "\n"));
  }
  return steps;
}

void ExpectFast(const std::vector<StepInfo>& steps) {
  if (BackendUnderTest().name() == "reference") return;
  if (!RunsIsa(Isa::kAvx2)) {
    static const bool told = std::puts("fast kernels are not asserted: no AVX2") >= 0;
    (void)told;
    return;
  }
  EXPECT_FALSE(steps.empty());
  for (const StepInfo& s : steps)
    EXPECT_FALSE(RunsOnReference(s.kernel))
        << s.op << " by " << s.kernel << ": " << Join(s.refusals, "; ");
}

void ExpectFastOnCpu(const std::vector<StepInfo>& steps) {
  if (BackendUnderTest().name() == "cpu") ExpectFast(steps);
}

std::vector<Datum> RandomInputs(const Graph& g, uint64_t seed) {
  Random random(seed);
  std::vector<Datum> inputs;
  for (const Value* v : g.inputs()) inputs.push_back(RandomInput(v->dtype(), DimsOf(*v), random));
  return inputs;
}

void CheckSameBits(std::string_view text) {
  auto g = ParseGraph(text, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  CheckSameBits(*g, text);
}

void CheckSameBits(const Graph& g, std::string_view text) {
  const std::vector<Datum> inputs = RandomInputs(g, 11);
  const int before = LaneBudget();
  SetLaneBudget(7);
  std::optional<Tensor> first;
  for (int threads : {1, 2, 3, 7}) {
    auto program = BackendUnderTest().Compile(g, {.level = 2, .threads = threads});
    EXPECT_TRUE(program.ok()) << program.status().message();
    if (!program.ok()) break;
    auto out = RunOnce(**program, inputs);
    EXPECT_TRUE(out.ok()) << out.status().message();
    if (!out.ok()) break;
    if (!first) first = (*out)[0].tensor();
    EXPECT_TRUE(BitEqual((*out)[0].tensor(), *first)) << threads << " threads, " << text;
  }
  SetLaneBudget(before);
}

std::vector<StepInfo> CheckGraph(std::string_view text, uint64_t seed, double tolerance) {
  auto g = ParseGraph(text, SuiteOps());
  EXPECT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  if (!g.ok()) return {};
  return CheckGraph(text, RandomInputs(*g, seed), tolerance);
}

}  // namespace infer
