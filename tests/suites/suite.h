#pragma once
/// Suites know no backend: each is a set of tests that a runner (tests/suites/run_*.cc) links with
/// one definition of BackendUnderTest().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/api/program.h"

namespace infer {

/// Defined by the runner.
const Backend& BackendUnderTest();

inline const OpRegistry& SuiteOps() {
  static const OpRegistry ops = AllOps();
  return ops;
}

/// Inference of an operator of a test: the result is like the operand.
inline Status SameAsInput(OpCall& call) {
  call.SetOut(0, call.type(0));
  return {};
}

/// Attention is one step of the cpu backend where there are vectors for it
/// (runtime/cpu/simd/attention.h).
inline bool FusesAttention() {
#if defined(__x86_64__)
  const char* cap = std::getenv("INFER_MAX_ISA");
  return BackendUnderTest().name() == "cpu" && __builtin_cpu_supports("avx2") &&
         !(cap && std::string_view(cap) == "sse4");
#else
  return false;
#endif
}

/// How the names of its kernels for attention as one step begin; "": the backend has none.
inline std::string_view AttentionKernel() {
  if (BackendUnderTest().name() == "vulkan") return "vulkan:attention";
  return FusesAttention() ? "own:attention" : "";
}

/// Values such as a model sees: normal floats, small integers, every element NaN-free.
Tensor RandomInput(DType dtype, const Dims& dims, Random& random);

/// Extents for symbols of `v`'s shape: 3 for each.
Dims DimsOf(const Value& v, int64_t symbol = 3);

/// max|d| / max|ref| over f32, f64, f16, bf16; other types must be equal. NaN must meet NaN, an
/// infinity the same infinity.
void ExpectClose(const Datum& got, const Datum& want, double tolerance, const std::string& what);

/// The levels at which the backend makes different programs, up to 2: those that fuse nothing have
/// one.
std::vector<int> DifferentLevels();

/// Compiles `text` at levels 0, 1 and 2 (on a backend that has them), runs it on `inputs`, and
/// compares with Evaluate(). Returns the steps of the last level.
std::vector<StepInfo> CheckGraph(std::string_view text, const std::vector<Datum>& inputs,
                                 double tolerance = 1e-5);
/// The same of a graph that no text describes; `what` names it.
std::vector<StepInfo> CheckGraph(const Graph& g, const std::vector<Datum>& inputs, double tolerance,
                                 std::string_view what);
/// Each of these steps ran on a kernel other than the reference's, where the backend has kernels.
/// Call it where a test is about a fast kernel: a kernel that refuses passes every comparison with
/// the reference.
void ExpectFast(const std::vector<StepInfo>& steps);
/// On cpu alone: of operators that it takes apart, and of types that it widens.
void ExpectFastOnCpu(const std::vector<StepInfo>& steps);
/// Output 0 has the same bits with 1, 2, 3 and 7 threads, at the highest level, of random inputs.
void CheckSameBits(std::string_view text);
void CheckSameBits(const Graph& g, std::string_view what);
/// For each input of `g`, of its declared (static) shape.
std::vector<Datum> RandomInputs(const Graph& g, uint64_t seed);
/// With random inputs of the declared (static) shapes.
std::vector<StepInfo> CheckGraph(std::string_view text, uint64_t seed = 1, double tolerance = 1e-5);

}  // namespace infer
