#pragma once
/// Integer codes for suites: operands of the full range, DQ and Q around them, and comparisons with
/// the QDQ graph on the reference kernels.
#include "tests/suites/suite.h"

namespace infer {

inline Tensor Full(DType dtype, const Dims& dims, uint64_t seed) {
  Random random(seed);
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.SetInt(i, IntegerMin(dtype) + random.Below(256));
  return t;
}

/// How many elements of `n` may be off by one quantum.
inline int64_t Isolated(int64_t n) { return std::max<int64_t>(1, n / 1000); }
inline int64_t None(int64_t) { return 0; }

/// Runs at levels 0 and 1: every element within one quantum (1e-5 of the largest value for f32),
/// and no more than `may_differ` of them not equal.
inline std::vector<StepInfo> CheckInt8(const std::string& text, const std::vector<Datum>& inputs,
                                       int64_t (*may_differ)(int64_t) = Isolated) {
  auto g = ParseGraph(text, SuiteOps());
  EXPECT_TRUE(g.ok()) << g.status().message() << "\n" << text.substr(0, 2000);
  if (!g.ok()) return {};
  auto want = Evaluate(*g, inputs);
  EXPECT_TRUE(want.ok()) << want.status().message();
  if (!want.ok()) return {};
  std::vector<StepInfo> steps;
  for (int level : {0, 1}) {
    auto program = BackendUnderTest().Compile(*g, {.level = level});
    EXPECT_TRUE(program.ok()) << program.status().message();
    if (!program.ok()) return {};
    steps = (*program)->steps();
    auto got = RunOnce(**program, inputs);
    EXPECT_TRUE(got.ok()) << got.status().message();
    if (!got.ok()) return {};
    std::vector<std::string> kernels;
    for (const StepInfo& s : steps)
      kernels.push_back(
          Cat(s.op, "=", s.kernel, " ", s.precision, " (", Join(s.refusals, "; "), ")"));
    for (size_t o = 0; o < want->size(); ++o) {
      const Tensor &a = (*got)[o].tensor(), &b = (*want)[o].tensor();
      EXPECT_EQ(ToString(a.type()), ToString(b.type()));
      if (a.dims() != b.dims()) return steps;
      const std::string where = Cat("level ", level, " by ", Join(kernels, ", "));
      if (b.dtype() == DType::kF32) {
        ExpectClose((*got)[o], (*want)[o], 1e-5, where);
        continue;
      }
      int64_t off = 0, worst = 0;
      for (int64_t i = 0; i < a.num_elements(); ++i) {
        worst = std::max<int64_t>(worst, std::abs(a.IntAt(i) - b.IntAt(i)));
        off += a.IntAt(i) != b.IntAt(i);
      }
      EXPECT_LE(worst, 1) << where;
      EXPECT_LE(off, may_differ(a.num_elements())) << where;
    }
  }
  return steps;
}

/// Operand `x` of the group, per tensor.
inline std::string Dq(std::string_view out, std::string_view in, double scale,
                      std::string_view type, int zero) {
  return Cat("s_", out, " = const f32[] {", FormatDouble(scale), "} z_", out, " = const ", type,
             "[] {", zero, "} ", out, " = DequantizeLinear(", in, ", s_", out, ", z_", out, ") ");
}
inline std::string Q(std::string_view out, std::string_view in, double scale, std::string_view type,
                     int zero) {
  return Cat("s_", out, " = const f32[] {", FormatDouble(scale), "} z_", out, " = const ", type,
             "[] {", zero, "} ", out, " = QuantizeLinear(", in, ", s_", out, ", z_", out, ") ");
}

/// Level 1 gives the graph's own bits.
inline void ExpectExactly(const std::string& text, const std::vector<Datum>& inputs) {
  const Graph g = *ParseGraph(text, SuiteOps());
  const auto want = *Evaluate(g, inputs);
  const auto program = BackendUnderTest().Compile(g, {.level = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto got = RunOnce(**program, inputs);
  ASSERT_TRUE(got.ok()) << got.status().message();
  const Tensor &a = (*got)[0].tensor(), &b = want[0].tensor();
  ASSERT_EQ(a.num_elements(), b.num_elements());
  for (int64_t i = 0; i < a.num_elements(); ++i)
    ASSERT_EQ(a.At(i), b.At(i)) << i << " by " << (*program)->steps()[0].kernel << " "
                                << text.substr(0, 99);
}

}  // namespace infer
