#include "tools/infer_bench/predict/measure_cases.h"

#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "tools/common/input_values.h"
#include "tools/common/profile.h"
#include "tools/infer_bench/predict/generated.h"

namespace infer::bench {
namespace {

constexpr double kWarmUpMs = 5;
constexpr int kWarmUpRuns = 3;
constexpr double kEnoughMs = 20;
constexpr double kLeastUs = 0.05;
// Larger programs would eat the budget of many; reference kernels do some 1e8 operations a second
// at worst.
constexpr int64_t kMostFastOps = 2'000'000'000, kMostReferenceOps = 2'000'000;

bool IsTooLong(const PlanFacts& plan) {
  int64_t ops = 0, on_reference = 0;
  for (const StepFacts& s : plan.steps)
    (RunsOnReference(s.info.kernel) ? on_reference : ops) += s.info.cost.flops;
  return ops > kMostFastOps || on_reference > kMostReferenceOps;
}

Status MeasureProgram(const GeneratedProgram& program, size_t index, const Roofline& machine,
                      const CaseOptions& options, MeasuredCases& out) {
  DeviceOptions device;
  device.threads = options.threads;
  INFER_ASSIGN(const PlannedModel model, PlanModel(program.graph, device));
  if (IsTooLong(model.facts)) return {};
  INFER_ASSIGN(const auto run, model.program->NewContext());
  INFER_ASSIGN(const std::vector<Datum> inputs, RandomModelInputs(program.graph, index));
  for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(run->BindInput(i, inputs[i]));
  const auto start = std::chrono::steady_clock::now();
  for (int n = 0; n < kWarmUpRuns || MsSince(start) < kWarmUpMs; ++n) INFER_TRY(run->Run());
  INFER_ASSIGN(const ModelProfile profile,
               ProfileRuns(program.kind, *model.program, *run, options.stop, kEnoughMs));
  if (profile.runs == 0) return {};
  FitRun whole{.launches = model.facts.launches,
               .unprofiled_us = 1e3 * profile.unprofiled_ms,
               .profiled_us = 1e3 * profile.wall_ms};
  for (size_t s = 0; s < profile.steps.size(); ++s) {
    const StepFacts& facts = model.facts.steps[s];
    const double us = 1e3 * profile.steps[s].ms;
    whole.steps_us += us;
    if (facts.late || facts.launches + facts.copies == 0 || us < kLeastUs) continue;
    out.cases.push_back({index, FeaturesOf(facts, model.facts.program_bytes(), machine), us});
  }
  out.runs.push_back(whole);
  return {};
}

}  // namespace

MeasuredCases MeasureCases(const OpRegistry& ops, const Roofline& machine,
                           const CaseOptions& options) {
  MeasuredCases out;
  out.next = options.first;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return MsSince(start) / 1e3; };
  while (seconds() < options.budget_s && !options.stop.stop_requested()) {
    if (options.programs > 0 && out.next >= options.first + static_cast<uint64_t>(options.programs))
      break;
    const auto program = MakeGenerated(out.next, ops);
    Status done = program.status();
    if (done.ok()) done = MeasureProgram(*program, out.next, machine, options, out);
    if (done.code() == Code::kCancelled) break;
    if (!done.ok())
      out.failures.push_back(Cat("generated program ", out.next, ": ", done.message()));
    ++out.next;
    if (options.progress) options.progress(seconds() / options.budget_s);
  }
  return out;
}

}  // namespace infer::bench
