#pragma once
/// Integer codes and scales as text of graphs, for the suites of operators on codes.
#include "tests/suites/int8_codes.h"

namespace infer {

inline DType TypeOf(std::string_view name) { return name == "u8" ? DType::kU8 : DType::kI8; }

/// "const TYPE[DIMS] {...}" of any codes.
inline std::string Const(std::string_view type, const Dims& dims, uint64_t seed) {
  const Tensor t = Full(TypeOf(type), dims, seed);
  std::vector<std::string> values;
  for (int64_t i = 0; i < t.num_elements(); ++i) values.push_back(Cat(t.IntAt(i)));
  return Cat("const ", type, ToString(dims), " {", Join(values, ", "), "}");
}

/// Scales of `n` outputs.
inline std::string Scales(std::string_view name, int64_t n, double scale) {
  std::vector<std::string> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(FormatDouble(scale * (1 + static_cast<double>(i % 5) * 0.3)));
  return Cat(name, " = const f32[", n, "] {", Join(values, ", "), "} ");
}

/// Equal bits at all levels, and on the cpu no reference kernel.
inline void CheckExact(const std::string& text, const std::vector<Datum>& inputs) {
  SCOPED_TRACE(text.substr(0, 400));
  for (const StepInfo& step : CheckGraph(text, inputs, 0)) {
    if (BackendUnderTest().name() != "cpu") continue;
    EXPECT_FALSE(RunsOnReference(step.kernel)) << step.op << ": " << Join(step.refusals, "; ");
  }
}

}  // namespace infer
