#include "runtime/plan_ir/plan_view.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

std::string KindOf(PlannedBuffer::Kind kind) {
  switch (kind) {
    case PlannedBuffer::Kind::kArena: return "arena";
    case PlannedBuffer::Kind::kConstant: return "constant";
    case PlannedBuffer::Kind::kInput: return "input";
    case PlannedBuffer::Kind::kOutput: return "output";
  }
  return "";
}

std::string KindOf(const PlannedLaunch& launch, bool has_code) {
  if (launch.watch >= 0) return "watch";
  if (launch.is_late) return "late";
  if (launch.crosses) return "transfer";
  if (launch.is_copy) return "copy";
  return has_code ? "kernel" : "reference";
}

/// "" is row-major; layouts of host memory are the last backend's.
std::string NameOf(const Layout& layout, const PlanBackends& backends) {
  if (layout.plain()) return "";
  const bool host = layout.space == MemorySpace::kHost;
  return (host ? backends.back() : backends.front())->NameOf(layout);
}

std::vector<PlanView::Operand> OperandsOf(const Plan& plan, const std::vector<int>& ids) {
  std::vector<PlanView::Operand> list;
  for (int id : ids) {
    const Value* v = plan.values[static_cast<size_t>(id)];
    PlanView::Operand& o = list.emplace_back();
    o.value = v->name();
    o.type = ToString(v->type());
    o.constant = plan.constant(v) != nullptr;
  }
  return list;
}

/// Those of a step, whose values are `ids`, from what a launch for `given` of them was given.
void Place(std::vector<PlanView::Operand>& operands, const std::vector<int>& ids,
           const std::vector<int>& given, std::span<const int> args, bool is_kernel,
           std::span<const BufferOrigin> origins, const PlanBackends& backends) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto at =
        static_cast<size_t>(std::find(given.begin(), given.end(), ids[i]) - given.begin());
    if (at >= given.size() || at >= args.size()) continue;
    if (args[at] < 0) {
      if (is_kernel && operands[i].constant) operands[i].layout = "packed";
      continue;
    }
    operands[i].buffer = args[at];
    operands[i].layout = NameOf(origins[static_cast<size_t>(args[at])].layout, backends);
  }
}

}  // namespace

PlanView ViewOf(const Plan& plan) {
  PlanView view;
  const std::vector<StepInfo> infos = DescribeSteps(plan);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    PlanView::Step& step = view.steps.emplace_back();
    step.node = infos[s].node;
    step.op = infos[s].op;
    step.fused_from = infos[s].fused_from;
    step.operands = OperandsOf(plan, plan.steps[s].inputs);
    step.results = OperandsOf(plan, plan.steps[s].outputs);
  }
  return view;
}

void AddKernels(PlanView& view, std::span<const StepKernels> kernels,
                std::span<const StepInfo> infos) {
  for (size_t s = 0; s < view.steps.size(); ++s) {
    view.steps[s].candidates = kernels[s].names;
    view.steps[s].kernel = infos[s].kernel;
    view.steps[s].precision = infos[s].precision;
    view.steps[s].refusals = infos[s].refusals;
  }
}

void AddLayouts(PlanView& view, const Plan& plan, const ShapePlan& shapes,
                std::span<const BufferOrigin> origins, const PlanBackends& backends) {
  for (size_t s = 0; s < view.steps.size(); ++s) {
    PlanView::Step& step = view.steps[s];
    const PlanStep& of = plan.steps[s];
    for (size_t i = 0; i < of.inputs.size(); ++i)
      step.operands[i].type = ToString(shapes.type(of.inputs[i]));
    for (size_t i = 0; i < of.outputs.size(); ++i)
      step.results[i].type = ToString(shapes.type(of.outputs[i]));
    if (!step.candidates.empty()) step.kernel = shapes.reports->kernel[s];
    for (const std::string& r : shapes.reports->refusals[s])
      if (std::find(step.refusals.begin(), step.refusals.end(), r) == step.refusals.end())
        step.refusals.push_back(r);
  }
  for (size_t at = 0; at < shapes.code.size(); ++at) {
    const PlannedLaunch& l = shapes.frame->launches[at];
    if (l.is_copy || l.is_late || l.watch >= 0) continue;
    PlanView::Step& step = view.steps[l.step];
    const PlanStep& of = plan.steps[l.step];
    const PlanStep& ran = l.part < 0 ? of : of.parts[static_cast<size_t>(l.part)];
    const std::span<const int> args = l.args;
    Place(step.operands, of.inputs, ran.inputs, args, shapes.code[at] != nullptr, origins,
          backends);
    Place(step.results, of.outputs, ran.outputs,
          args.subspan(std::min(args.size(), ran.inputs.size())), false, origins, backends);
  }
}

void AddLaunches(PlanView& view, const ShapePlan& shapes) {
  for (size_t at = 0; at < shapes.code.size(); ++at) {
    const PlannedLaunch& l = shapes.frame->launches[at];
    view.launches.push_back(
        {static_cast<int>(l.step), KindOf(l, shapes.code[at] != nullptr), l.args});
  }
}

void AddMemory(PlanView& view, const Plan& plan, const ShapePlan& shapes,
               std::span<const BufferOrigin> origins, const PlanBackends& backends) {
  view.buffers.resize(shapes.buffers.size());
  for (size_t l = 0; l < shapes.frame->launches.size(); ++l)
    for (int arg : shapes.frame->launches[l].args) {
      if (arg < 0) continue;
      const auto b = static_cast<size_t>(arg);
      PlanView::Buffer& buffer = view.buffers[b];
      buffer.last = static_cast<int>(l);
      if (!buffer.kind.empty()) continue;
      buffer.first = static_cast<int>(l);
      buffer.kind = KindOf(shapes.buffers[b].kind);
      buffer.bytes = shapes.buffers[b].bytes;
      buffer.offset = shapes.buffers[b].offset;
      const int value = origins[b].value;
      if (value >= 0) buffer.value = plan.values[static_cast<size_t>(value)]->name();
      buffer.layout = NameOf(origins[b].layout, backends);
      buffer.on_device = shapes.buffers[b].space == MemorySpace::kDevice;
    }
  view.arena_bytes = shapes.memory.arena_bytes;
  view.lower_bound_bytes = shapes.memory.lower_bound_bytes;
}

}  // namespace infer
