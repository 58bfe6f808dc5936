#include "tools/infer_bench/predict/plan_facts.h"

#include <map>

#include "lib/support/strings.h"
#include "tools/infer_bench/predict/body_runs.h"

namespace infer::bench {
namespace {

std::vector<OperandFacts> FactsOf(const std::vector<PlanView::Operand>& operands) {
  std::vector<OperandFacts> list;
  for (const PlanView::Operand& o : operands) {
    list.push_back(OperandOf(o.type));
    list.back().constant = o.constant;
  }
  return list;
}

/// The views that a compilation shows last, and what a group no longer shows.
struct LastViews {
  PlanView layouts, launches, memory;
  std::map<std::string, Dims> softmax;  // by node
  void Keep(const PlanView& view) {
    if (view.name == "partition")
      for (const PlanView::Step& s : view.steps)
        if (s.op == "Softmax" && !s.node.empty())
          softmax[s.node] = OperandOf(s.results[0].type).dims;
    if (view.name == "layouts") layouts = view;
    if (view.name == "launches") launches = view;
    if (view.name == "memory") memory = view;
  }
};

Dims ScoresOf(const StepInfo& info, const LastViews& views) {
  if (info.kernel.find("attention") == std::string::npos) return {};
  for (const std::string& node : info.fused_from)
    if (const auto it = views.softmax.find(node); it != views.softmax.end()) return it->second;
  return {};
}

void CountLaunches(const LastViews& views, PlanFacts& facts) {
  if (facts.steps.empty()) return;  // an input that is an output is copied by no step
  for (const PlanView::Launch& l : views.launches.launches) {
    StepFacts& step = facts.steps[static_cast<size_t>(l.step)];
    ++facts.launches;
    if (l.kind == "late") step.late = true;
    if (l.kind != "copy") {
      ++step.launches;
      continue;
    }
    ++step.copies;
    for (int b : l.args)
      if (b >= 0) step.copied_bytes += views.memory.buffers[static_cast<size_t>(b)].bytes;
  }
}

/// The nodes that run subgraphs: as the steps that do, in their order.
std::vector<const Node*> ControlFlowOf(const Graph& g) {
  std::vector<const Node*> nodes;
  for (const auto& node : g.nodes())
    if (!node->subgraphs().empty() && node->op() != "FlexAttention") nodes.push_back(node.get());
  return nodes;
}

BodyFacts FactsOfBody(const Node& node, const BodyRun& run, const DeviceOptions& options) {
  BodyFacts facts{.runs = run.runs};
  const auto body = BodyOf(node, *run.body);
  auto planned = body.ok() ? PlanModel(*body, options) : body.status();
  facts.known = planned.ok();
  if (planned.ok()) facts.plan = std::move(planned->facts);
  return facts;
}

/// Leaves out what the compiler made other control flow of than the graph has.
void PlanBodies(const Graph& g, const DeviceOptions& options, PlanFacts& facts) {
  std::vector<size_t> steps;
  for (size_t s = 0; s < facts.steps.size(); ++s)
    if (facts.steps[s].info.kernel == "bodies") steps.push_back(s);
  const std::vector<const Node*> nodes = ControlFlowOf(g);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (nodes.size() != steps.size() || facts.steps[steps[i]].info.op != nodes[i]->op()) {
      facts.bodies.push_back({.step = steps[i], .known = false});
      continue;
    }
    const BodyRuns runs = BodyRunsOf(*nodes[i]);
    for (const BodyRun& run : runs.bodies) {
      BodyFacts& body = facts.bodies.emplace_back(FactsOfBody(*nodes[i], run, options));
      body.step = steps[i];
      body.at_least = runs.at_least;
      facts.constant_bytes += body.plan.constant_bytes;
      facts.arena_bytes += body.plan.arena_bytes;
    }
  }
}

}  // namespace

int64_t OperandFacts::elements() const { return known ? NumElements(dims) : 0; }
int64_t OperandFacts::bytes() const { return known ? PackedBytes(dtype, elements()) : 0; }

OperandFacts OperandOf(std::string_view type) {
  OperandFacts o;
  const size_t bracket = type.find('[');
  if (bracket == type.npos || !type.ends_with(']')) return o;
  const auto dtype = ParseDType(type.substr(0, bracket));
  if (!dtype || *dtype == DType::kString) return o;
  const std::string_view inside = type.substr(bracket + 1, type.size() - bracket - 2);
  for (const std::string& part : inside.empty() ? std::vector<std::string>() : Split(inside, ',')) {
    const auto extent = ParseInt(Trim(part));
    if (!extent) return {};
    o.dims.push_back(*extent);
  }
  o.dtype = *dtype;
  o.known = true;
  return o;
}

Result<PlannedModel> PlanModel(const Graph& g, const DeviceOptions& options) {
  if (HasOpenDims(g)) return InvalidArgument("a prediction needs the extents of all inputs");
  LastViews views;
  PlannedModel model;
  INFER_ASSIGN(model.program,
               CompileFor(g, options, [&](const PlanView& view) { views.Keep(view); }));
  PlanFacts& facts = model.facts;
  const std::vector<StepInfo>& infos = model.program->steps();
  if (views.layouts.steps.size() != infos.size())
    return Unsupported(Cat("device ", options.device, " shows no plan to predict from"));
  for (size_t s = 0; s < infos.size(); ++s) {
    StepFacts& step = facts.steps.emplace_back();
    step.info = infos[s];
    step.late = infos[s].kernel == "bodies";
    step.scores = ScoresOf(infos[s], views);
    step.operands = FactsOf(views.layouts.steps[s].operands);
    step.results = FactsOf(views.layouts.steps[s].results);
    facts.constant_bytes += infos[s].constant_bytes;
  }
  CountLaunches(views, facts);
  facts.arena_bytes = views.memory.arena_bytes;
  PlanBodies(g, options, facts);
  return model;
}

}  // namespace infer::bench
