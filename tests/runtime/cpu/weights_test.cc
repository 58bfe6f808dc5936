/// A program of fixed shapes holds its weights once, in the form that its kernels read.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "lib/ir/editor.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/cpu/backend.h"

namespace infer {
namespace {

int64_t Resident() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// x -> MatMul -> ... -> y by `count` matrices of n x n, float or dequantised from 8 bits.
Graph Chain(const OpRegistry& ops, int count, int64_t n, bool quantized) {
  Graph g(ops, "chain");
  GraphEditor editor(g);
  Value* v = editor.AddInput("x", TensorType{DType::kF32, Shape(Dims{32, n})});
  Value* const scale = editor.AddConstant(Tensor::Scalar<float>(1.0f / 4096));
  Value* const unit = editor.AddConstant(Tensor::Scalar<float>(1.0f / 16));
  Value* const zero = editor.AddConstant(Tensor::Scalar<uint8_t>(128));
  for (int i = 0; i < count; ++i) {
    Tensor w(quantized ? DType::kI8 : DType::kF32, {n, n});
    for (int64_t k = 0; k < n * n; ++k)
      if (quantized)
        w.mutable_data<int8_t>()[static_cast<size_t>(k)] = static_cast<int8_t>(k * 37 % 251 - 125);
      else
        w.mutable_data<float>()[static_cast<size_t>(k)] =
            static_cast<float>(k * 37 % 251 - 125) / 4096;
    Value* weights = editor.AddConstant(std::move(w));
    if (quantized) {
      v = *editor.Add("QuantizeLinear", {v, unit, zero});
      v = *editor.Add("DequantizeLinear", {v, unit, zero});
      weights = *editor.Add("DequantizeLinear", {weights, scale});
    }
    v = *editor.Add("MatMul", {v, weights});
  }
  editor.MarkOutput(v);
  return g;
}

#ifndef __has_feature
#define __has_feature(x) 0  // clang's; gcc has macros
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class Weights : public testing::TestWithParam<bool> {};

/// Ends the process: 0, or 1 with the reason.
[[noreturn]] void MeasureWeights(bool quantized) {
  const OpRegistry ops = AllOps();
  const int64_t n = 2048, bytes = 10 * n * n * (quantized ? 1 : 4);
  const auto backend = MakeCpuBackend();
  const Datum x = Tensor::Zeros(DType::kF32, {32, n});
  (void)*RunOnce(**backend->Compile(Chain(ops, 1, n, quantized), {}), std::vector<Datum>{x});
  const int64_t before = Resident();
  const auto program = backend->CompileOwned(Chain(ops, 10, n, quantized), {});
  const bool ran = program.ok() && RunOnce(**program, std::vector<Datum>{x}).ok();
  const double share = static_cast<double>(Resident() - before) / static_cast<double>(bytes);
  std::cerr << "grown by " << share << " of the weights\n";
  // Less than half: this measures nothing.
  std::_Exit(ran && share >= 0.5 && share <= 1.25 ? 0 : 1);
}

/// In a process of its own: what the tests before left in the heap would be taken again.
TEST_P(Weights, AreHeldOnce) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps what is freed";
  const OpRegistry ops = AllOps();
  const auto program = MakeCpuBackend()->Compile(Chain(ops, 1, 64, GetParam()), {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (const StepInfo& s : (*program)->steps())
    if (s.kernel == "reference") GTEST_SKIP() << "this machine has no kernel for " << s.op;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(MeasureWeights(GetParam()), testing::ExitedWithCode(0), "");
}

TEST(StoredWeights, AreMadeWhenCompiled) {
  const OpRegistry ops = AllOps();
  const auto g = ParseGraph(
      R"(graph g(x: f32[1,4,9,9], q: f32[3,1,2]) -> (y, h) {
        w = const i8[8,4,3,3] ~1  s = const f32[8,1,1,1] ~2
        c = Cast(w) {to=1}  f = Mul(c, s)  y = Conv(x, f)
        a = const i8[1,16,2] ~3  t = const f32[1,16,1] ~4  d = Cast(a) {to=1}  e = Mul(t, d)
        k = const f16[1,16,4] ~5  b = Cast(k) {to=1}  _, h = LSTM(q, e, b) {hidden_size=4} })",
      ops);
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const int level : {0, 1, 2}) {
    const auto program = MakeCpuBackend()->Compile(*g, {.level = level});
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_EQ((*program)->steps().size(), 2u) << "level " << level;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Weights, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Integers" : "Floats");
});

}  // namespace
}  // namespace infer
