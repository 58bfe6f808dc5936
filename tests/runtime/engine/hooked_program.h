#pragma once
/// Programs for tests of the engine: of graphs in text on the reference backend, with a hook that
/// sees the bound inputs before each run and may wait, fail or take virtual time.
#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/engine/engine.h"
#include "runtime/reference/backend.h"

namespace infer::engine {

inline const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

inline Graph Parsed(std::string_view text) {
  auto g = ParseGraph(text, Ops());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

using RunHook = std::function<Status(const std::vector<Datum>& inputs, const RunOptions& options)>;
/// Of a run with these inputs; without any before the first.
using MemoryHook = std::function<MemoryInfo(const std::vector<Datum>& inputs)>;

inline MemoryHook Weighs(int64_t bytes) {
  return [bytes](const auto&) { return MemoryInfo{.weight_bytes = bytes}; };
}

class HookedProgram final : public Program {
 public:
  HookedProgram(std::shared_ptr<const Program> real, RunHook hook, MemoryHook memory = {})
      : real_(std::move(real)), hook_(std::move(hook)), memory_(std::move(memory)) {}
  const std::vector<Value*>& inputs() const override { return real_->inputs(); }
  const std::vector<Value*>& outputs() const override { return real_->outputs(); }
  const std::vector<StepInfo>& steps() const override { return real_->steps(); }
  Result<std::vector<Cost>> CostsFor(std::span<const Dims> dims) const override {
    return real_->CostsFor(dims);
  }
  Result<std::unique_ptr<RunContext>> NewContext() const override;

 private:
  std::shared_ptr<const Program> real_;
  RunHook hook_;
  MemoryHook memory_;
};

class HookedContext final : public RunContext {
 public:
  HookedContext(std::unique_ptr<RunContext> real, size_t inputs, RunHook hook, MemoryHook memory)
      : real_(std::move(real)),
        inputs_(inputs),
        hook_(std::move(hook)),
        memory_hook_(std::move(memory)) {
    if (memory_hook_) memory_ = memory_hook_({});
  }
  Status BindInput(size_t i, Datum value) override {
    INFER_TRY(real_->BindInput(i, value));
    inputs_[i] = std::move(value);
    return {};
  }
  Status BindOutput(size_t i, Tensor buffer) override {
    return real_->BindOutput(i, std::move(buffer));
  }
  Status Run(const RunOptions& options) override {
    if (memory_hook_) memory_ = memory_hook_(inputs_);
    if (hook_) INFER_TRY(hook_(inputs_, options));
    return real_->Run(options);
  }
  const Datum& output(size_t i) const override { return real_->output(i); }
  std::span<const StepTiming> profile() const override { return real_->profile(); }
  const OperatorTimes& reference_times() const override { return real_->reference_times(); }
  MemoryInfo memory() const override { return memory_hook_ ? memory_ : real_->memory(); }
  std::span<const Cost> step_costs() const override { return real_->step_costs(); }
  std::span<const std::string> step_kernels() const override { return real_->step_kernels(); }

 private:
  std::unique_ptr<RunContext> real_;
  std::vector<Datum> inputs_;
  RunHook hook_;
  MemoryHook memory_hook_;
  MemoryInfo memory_;
};

inline Result<std::unique_ptr<RunContext>> HookedProgram::NewContext() const {
  INFER_ASSIGN(auto real, real_->NewContext());
  return std::unique_ptr<RunContext>(
      std::make_unique<HookedContext>(std::move(real), inputs().size(), hook_, memory_));
}

/// Rows that are independent: what request r holds comes back doubled.
inline constexpr const char* kRowsModel = "graph g(x: f32[N,L]) -> (y: f32[N,L]) { y = Add(x, x) }";

inline ModelSource SourceOf(std::string_view text, RunHook hook = {}) {
  auto source = CompileSource(*MakeReferenceBackend(), Parsed(text), {.threads = 1});
  EXPECT_TRUE(source.ok()) << source.status().message();
  if (hook)
    source->program = std::make_shared<HookedProgram>(std::move(source->program), std::move(hook));
  return *std::move(source);
}

/// [rows, length], every element `value`.
inline Datum Filled(float value, int64_t rows = 1, int64_t length = 4) {
  Tensor t(DType::kF32, {rows, length});
  for (float& v : t.mutable_data<float>()) v = value;
  return t;
}

inline float FirstOf(const Outcome& o) {
  return o.outputs.empty() ? 0 : o.outputs[0].tensor().data<float>()[0];
}

}  // namespace infer::engine
