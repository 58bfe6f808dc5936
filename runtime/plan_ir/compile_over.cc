#include "runtime/plan_ir/compile_over.h"

#include <algorithm>

#include "lib/support/exceptions.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/bodies.h"
#include "runtime/plan_ir/groups/chains.h"
#include "runtime/plan_ir/groups/parts.h"
#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {
namespace {

StepKernels KernelsOf(const StepCall& call, const PlanBackends& backends, StepInfo& info) {
  StepKernels chosen;
  const bool may_be_integer = call.step.borrowed > 0 || ReadsDequantized(call.main());
  for (size_t b = 0; b < backends.size(); ++b)
    for (const KernelDef& k : backends[b]->kernels()) {
      if (!k.Takes(call.main().def())) continue;
      // What an integer kernel misses in a float model is no news.
      if (!may_be_integer && k.name.starts_with("int8:")) continue;
      // A kernel named after a format is none of a program in another.
      if (const auto c = ComputeOf(k.name); c && *c != call.options.compute) continue;
      if (std::string reason = k.refuse(call); !reason.empty()) {
        const bool is_no_chain = k.name == kDeviceChainKernel && call.step.nodes.size() == 1;
        if (chosen.kernels.empty() && !is_no_chain)
          info.refusals.push_back(Cat(backends[b]->name(), ":", k.name, ": ", reason));
        continue;
      }
      // All others take one operator only, which is no news.
      if (chosen.kernels.empty() && k.name == kDeviceChainKernel) info.refusals.clear();
      chosen.kernels.push_back(k.make(call));
      chosen.names.push_back(Cat(backends[b]->name(), ":", k.name));
      chosen.backends.push_back(b);
    }
  info.kernel = chosen.names.empty() ? "reference" : chosen.names[0];
  info.precision = PrecisionOf(call);
  for (const PlanStep& part : call.step.parts) {
    StepInfo unused;
    chosen.parts.push_back(KernelsOf({call.plan, part, call.options}, backends, unused));
  }
  return chosen;
}

bool RunsOn(size_t backend, const StepKernels& chosen) {
  const auto& all = chosen.backends;
  return std::find(all.begin(), all.end(), backend) != all.end() ||
         std::any_of(chosen.parts.begin(), chosen.parts.end(),
                     [&](const StepKernels& part) { return RunsOn(backend, part); });
}

/// Says why a step cannot be on the device, where no kernel of the device was there to refuse it.
void TellNoShader(const StepKernels& chosen, const PlanBackend& device, StepInfo& info) {
  const std::string name = Cat(device.name(), ":");
  const auto tells = [&](const std::string& r) { return r.starts_with(name); };
  if (RunsOn(0, chosen) || std::any_of(info.refusals.begin(), info.refusals.end(), tells)) return;
  info.refusals.insert(info.refusals.begin(), name + " no shader");
}

/// Pre: `resident` counts the graph's inputs and outputs.
void SetResident(Plan& plan, const ResidentValues& resident) {
  plan.resident_inputs.assign(plan.inputs.size(), false);
  plan.resident_outputs.assign(plan.outputs.size(), false);
  for (size_t i : resident.inputs) plan.resident_inputs[i] = true;
  for (size_t o : resident.outputs) plan.resident_outputs[o] = !plan.is_watched(o);
}

/// Those asked for, else the caches; none without a device.
Result<ResidentValues> ResidentOf(const Graph& graph, const CompileOptions& options,
                                  const PlanBackends& backends) {
  if (!backends.front()->device()) return ResidentValues();
  if (!options.resident) return CachesOf(graph);
  const auto beyond = [](const std::vector<size_t>& list, size_t n) {
    return std::any_of(list.begin(), list.end(), [n](size_t i) { return i >= n; });
  };
  if (beyond(options.resident->inputs, graph.inputs().size()) ||
      beyond(options.resident->outputs, graph.outputs().size()))
    return InvalidArgument("resident: an input or output that the model does not have");
  return *options.resident;
}

Result<std::shared_ptr<const ExecutorProgram>> Compile(Graph graph, const CompileOptions& options,
                                                       const PlanBackends& backends, bool is_part) {
  CompileOptions inner = options;
  inner.observe = nullptr;
  inner.watched = 0;
  inner.resident = ResidentValues();
  inner.tune = false;  // it may be compiled during a run; what the file knows is taken
  const CompileFn compile = [inner, backends](const Graph& g) {
    return Compile(g.Clone(), inner, backends, true);
  };
  const PlanBackend &first = *backends.front(), &last = *backends.back();
  INFER_ASSIGN(const ResidentValues resident, ResidentOf(graph, options, backends));
  KernelList all;
  for (const auto& b : backends) all.insert(all.end(), b->kernels().begin(), b->kernels().end());
  if (first.wants_groups()) INFER_TRY(last.RewriteGraph(graph, all, options));
  Plan plan = PartitionByNode(std::move(graph));
  if (first.wants_groups()) {
    INFER_TRY(last.GroupSteps(plan, first.kernels(), options));
    AddParts(plan, KernelsAccept{plan, all, options});
  }
  plan.watched = options.watched;
  SetResident(plan, resident);
  plan.is_part = is_part;
  ExecutorParts parts{.backends = backends,
                      .compile = compile,
                      .lanes = options.threads > 0 ? options.threads : LaneBudget(),
                      .priority = options.priority};
  INFER_ASSIGN(parts.chooser, first.ChooserFor(options));
  INFER_ASSIGN(parts.bodies, CompileBodies(plan, compile, !options.allow_reference));
  std::vector<StepInfo> infos = DescribeSteps(plan);
  std::vector<std::string> without;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    parts.kernels.push_back(KernelsOf({plan, plan.steps[s], options}, backends, infos[s]));
    if (RunsBodies(plan.steps[s])) {
      infos[s].kernel = "bodies";
      continue;
    }
    if (first.device()) TellNoShader(parts.kernels.back(), first, infos[s]);
    if (parts.kernels.back().kernels.empty()) without.push_back(Describe(*plan.steps[s].main));
  }
  if (!options.allow_reference && !without.empty())
    return Unsupported(Cat("no kernel for: ", Join(without, ", ")));
  auto program =
      std::make_shared<ExecutorProgram>(std::move(plan), std::move(infos), std::move(parts));
  INFER_TRY(program->Prepare(options.observe));
  return std::shared_ptr<const ExecutorProgram>(std::move(program));
}

}  // namespace

Result<std::shared_ptr<const ExecutorProgram>> CompileOver(Graph graph,
                                                           const CompileOptions& options,
                                                           const PlanBackends& backends) {
  INFER_TRY(backends.front()->RefuseCompute(options.compute));
  try {
    return Compile(std::move(graph), options, backends, false);
  } catch (...) {
    return StatusOfException("while compiling");
  }
}

}  // namespace infer
