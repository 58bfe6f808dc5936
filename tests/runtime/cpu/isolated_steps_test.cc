/// Steps one by one do what the program does: the same kernels, and the same bits.
#include "runtime/cpu/exec/isolated_steps.h"

#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/kernels/common/kernels.h"

namespace infer {
namespace {

/// Blocked layouts, a residual that a convolution adds to, pooling, a view, a row operator.
constexpr std::string_view kNet = R"(graph g(x: f32[2,16,10,10]) -> (y) {
  w = const f32[32,16,3,3] ~1
  a = Conv(x, w) {pads=[1,1,1,1]}
  r = Relu(a)
  v = const f32[32,32,3,3] ~2
  b = Conv(r, v) {pads=[1,1,1,1]}
  s = Add(b, r)
  t = Relu(s)
  p = MaxPool(t) {kernel_shape=[2,2], strides=[2,2]}
  f = Flatten(p)
  m = const f32[800,7] ~3
  d = MatMul(f, m)
  y = Softmax(d)
})";

/// The output, every step run by itself.
Result<Tensor> StepByStep(const IsolatedSteps& steps, const Tensor& x) {
  std::vector<Tensor> values(steps.plan().values.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (const Tensor* c = steps.plan().constant(steps.plan().values[i])) values[i] = *c;
  values[static_cast<size_t>(steps.plan().inputs[0])] = x;
  for (size_t s = 0; s < steps.plan().steps.size(); ++s) {
    const PlanStep& step = steps.plan().steps[s];
    const StepKernel* kernel = steps.kernel(s);
    if (!kernel) return Internal(Cat(steps.info(s).op, " has no kernel"));
    std::vector<Tensor> operands;
    for (const int id : step.inputs) operands.push_back(values[static_cast<size_t>(id)]);
    const StepRun::Lanes lanes(*kernel, steps.lanes());
    INFER_ASSIGN(StepRun run, StepRun::Make(*kernel, operands));
    INFER_TRY(run.Run());
    INFER_ASSIGN(const auto results, run.Results());
    for (size_t o = 0; o < results.size(); ++o)
      values[static_cast<size_t>(step.outputs[o])] = results[o];
  }
  return values[static_cast<size_t>(steps.plan().outputs[0])];
}

TEST(IsolatedSteps, AreTheProgramsOwn) {
  const OpRegistry ops = AllOps();
  const Graph g = *ParseGraph(kNet, ops);
  Tensor x(DType::kF32, {2, 16, 10, 10});
  Random random(3);
  for (int64_t i = 0; i < x.num_elements(); ++i) x.Set(i, random.Normal());
  for (const int level : {0, 1, 2}) {
    const CompileOptions options = {.level = level, .threads = 1};
    const auto program = MakeCpuBackend()->Compile(g, options);
    ASSERT_TRUE(program.ok()) << program.status().message();
    const std::vector<Dims> dims = {x.dims()};
    const auto steps = IsolatedSteps::Make(g.Clone(), dims, CpuKernels(), options);
    ASSERT_TRUE(steps.ok()) << steps.status().message();
    ASSERT_EQ(steps->plan().steps.size(), (*program)->steps().size());
    for (size_t s = 0; s < (*program)->steps().size(); ++s)
      EXPECT_EQ(steps->info(s).kernel, (*program)->steps()[s].kernel) << "step " << s;
    const std::vector<Datum> inputs = {x};
    const auto want = RunOnce(**program, inputs);
    ASSERT_TRUE(want.ok()) << want.status().message();
    const auto got = StepByStep(*steps, x);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_TRUE(BitEqual(*got, (*want)[0].tensor())) << "level " << level;
  }
}

TEST(IsolatedSteps, WhatIsKnownBeforeTheRunHasNoKernel) {
  const OpRegistry ops = AllOps();
  Graph g = *ParseGraph(R"(graph g(x: f32[N,6]) -> (y) {
    s = Shape(x)  c = Cast(s) {to=1}  r = ReduceSum(c)  y = Mul(x, r) })",
                        ops);
  const std::vector<Dims> dims = {{4, 6}};
  const auto steps = IsolatedSteps::Make(std::move(g), dims, CpuKernels(), {.threads = 1});
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  int kernels = 0;
  for (size_t s = 0; s < steps->plan().steps.size(); ++s) {
    kernels += steps->kernel(s) != nullptr;
    EXPECT_EQ(steps->IsRun(s), steps->kernel(s) != nullptr) << steps->info(s).op;
  }
  EXPECT_EQ(kernels, 1);
}

}  // namespace
}  // namespace infer
