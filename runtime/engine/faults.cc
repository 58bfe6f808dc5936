#include "runtime/engine/faults.h"

#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "lib/support/hash.h"
#include "lib/support/strings.h"

namespace infer::engine {

std::string_view Name(FaultSite s) {
  switch (s) {
    case FaultSite::kLoad: return "load";
    case FaultSite::kBind: return "bind";
    case FaultSite::kRun: return "run";
    case FaultSite::kAnswer: return "answer";
  }
  return "";
}

std::string_view Name(FaultKind k) {
  switch (k) {
    case FaultKind::kFail: return "fail";
    case FaultKind::kThrow: return "throw";
    case FaultKind::kDelay: return "delay";
  }
  return "";
}

namespace {

void SleepFor(int64_t ns, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, std::chrono::nanoseconds(ns), [] { return false; });
}

class FaultyContext final : public RunContext {
 public:
  FaultyContext(std::unique_ptr<RunContext> real, std::shared_ptr<FaultInjector> injector)
      : real_(std::move(real)), injector_(std::move(injector)) {}
  Status BindInput(size_t i, Datum value) override {
    INFER_TRY(injector_->Visit(FaultSite::kBind));
    return real_->BindInput(i, std::move(value));
  }
  Status BindOutput(size_t i, Tensor buffer) override {
    return real_->BindOutput(i, std::move(buffer));
  }
  Status BindResident(size_t i, DeviceTensor value) override {
    INFER_TRY(injector_->Visit(FaultSite::kBind));
    return real_->BindResident(i, std::move(value));
  }
  Result<DeviceTensor> resident_output(size_t o) const override {
    return real_->resident_output(o);
  }
  Status Run(const RunOptions& options) override {
    INFER_TRY(injector_->Visit(FaultSite::kRun, options.stop));
    INFER_TRY(real_->Run(options));
    return injector_->Visit(FaultSite::kAnswer, options.stop);
  }
  const Datum& output(size_t i) const override { return real_->output(i); }
  std::span<const StepTiming> profile() const override { return real_->profile(); }
  const OperatorTimes& reference_times() const override { return real_->reference_times(); }
  MemoryInfo memory() const override { return real_->memory(); }
  CommandInfo commands() const override { return real_->commands(); }
  std::span<const Cost> step_costs() const override { return real_->step_costs(); }
  std::span<const std::string> step_kernels() const override { return real_->step_kernels(); }

 private:
  std::unique_ptr<RunContext> real_;
  std::shared_ptr<FaultInjector> injector_;
};

class FaultyProgram final : public Program {
 public:
  FaultyProgram(std::shared_ptr<const Program> real, std::shared_ptr<FaultInjector> injector)
      : real_(std::move(real)), injector_(std::move(injector)) {}
  const std::vector<Value*>& inputs() const override { return real_->inputs(); }
  const std::vector<Value*>& outputs() const override { return real_->outputs(); }
  const std::vector<StepInfo>& steps() const override { return real_->steps(); }
  Result<std::vector<Cost>> CostsFor(std::span<const Dims> dims) const override {
    return real_->CostsFor(dims);
  }
  std::optional<PipelineInfo> pipelines() const override { return real_->pipelines(); }
  Device* device() const override { return real_->device(); }
  Result<std::unique_ptr<RunContext>> NewContext() const override {
    INFER_TRY(injector_->Visit(FaultSite::kLoad));
    INFER_ASSIGN(auto real, real_->NewContext());
    return std::unique_ptr<RunContext>(std::make_unique<FaultyContext>(std::move(real), injector_));
  }

 private:
  std::shared_ptr<const Program> real_;
  std::shared_ptr<FaultInjector> injector_;
};

}  // namespace

Result<std::shared_ptr<FaultInjector>> FaultInjector::Make(FaultPlan plan, Wait wait) {
  for (const Fault& f : plan.faults) {
    const std::string name = Cat("fault ", Name(f.site), " ", Name(f.kind));
    if (!(f.rate >= 0 && f.rate <= 1))
      return InvalidArgument(Cat(name, ": rate ", f.rate, " is not from 0 to 1"));
    if ((f.kind == FaultKind::kDelay) != (f.delay_ns > 0))
      return InvalidArgument(Cat(name, ": a delay, and no other, takes time above 0"));
  }
  return std::shared_ptr<FaultInjector>(
      new FaultInjector(std::move(plan), wait ? std::move(wait) : Wait(SleepFor)));
}

FaultInjector::FaultInjector(FaultPlan plan, Wait wait)
    : plan_(std::move(plan)), wait_(std::move(wait)), met_(plan_.faults.size()) {}

bool FaultInjector::Meets(size_t fault, int64_t visit) const {
  Hasher h;
  h.Add(plan_.seed).Add(fault).Add(static_cast<uint64_t>(visit));
  return static_cast<double>(h.value() >> 11) * 0x1p-53 < plan_.faults[fault].rate;
}

Status FaultInjector::Visit(FaultSite site, const std::stop_token& stop) {
  if (!began_.load(std::memory_order_relaxed)) return {};
  const int64_t visit = visits_[static_cast<size_t>(site)].fetch_add(1, std::memory_order_relaxed);
  const Fault* ends = nullptr;
  for (size_t i = 0; i < plan_.faults.size(); ++i) {
    const Fault& f = plan_.faults[i];
    if (f.site != site || !Meets(i, visit)) continue;
    met_[i].fetch_add(1, std::memory_order_relaxed);
    if (f.kind != FaultKind::kDelay && !ends) ends = &f;
    if (f.kind != FaultKind::kDelay) continue;
    wait_(f.delay_ns, stop);
    if (stop.stop_requested()) return Cancelled("a planned delay was stopped");
  }
  if (!ends) return {};
  const std::string message = Cat("planned fault: ", Name(site), ", visit ", visit);
  if (ends->kind == FaultKind::kThrow) throw std::runtime_error(message);
  return Internal(message);
}

std::vector<FaultCount> FaultInjector::Counts() const {
  std::vector<FaultCount> counts;
  for (size_t i = 0; i < plan_.faults.size(); ++i) {
    const Fault& f = plan_.faults[i];
    counts.push_back({f, visits_[static_cast<size_t>(f.site)].load(std::memory_order_relaxed),
                      met_[i].load(std::memory_order_relaxed)});
  }
  return counts;
}

std::shared_ptr<const Program> WithFaults(std::shared_ptr<const Program> program,
                                          std::shared_ptr<FaultInjector> injector) {
  return std::make_shared<FaultyProgram>(std::move(program), std::move(injector));
}

}  // namespace infer::engine
