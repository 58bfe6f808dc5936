#include "runtime/plan_ir/bodies.h"

#include "lib/ir/control_flow.h"
#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Planning costs more than one slow run of a small body: where shapes change from run to run (a
/// Loop that grows a tensor), so many are planned and the rest runs on reference kernels.
constexpr int kMaxPlannedShapes = 32;

/// A copy of the subgraph in which captured constants are constants; `kept`: which inputs are left.
Result<Graph> WithConstants(const Plan& plan, const Node& node, const Graph& subgraph,
                            std::vector<size_t>& kept) {
  Graph g = subgraph.Clone();
  GraphEditor editor(g);
  const std::vector<Value*> inputs = g.inputs();
  const size_t own = inputs.size() - node.num_captures();
  const size_t operands = node.inputs().size() - node.num_captures();
  bool changed = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value* outer = i < own ? nullptr : node.input(operands + i - own);
    const Tensor* c = plan.constant(outer);
    if (!c || inputs[i]->is_output()) {
      kept.push_back(i);
      continue;
    }
    editor.SetConstant(inputs[i], *c);
    changed = true;
  }
  if (changed) INFER_TRY(InferTypes(g));
  return g;
}

}  // namespace

bool RunsBodies(const PlanStep& step) {
  return step.nodes.size() == 1 && !step.main->subgraphs().empty() &&
         step.main->op() != "FlexAttention";
}

Result<BodyPrograms> CompileBodies(const Plan& plan, const CompileFn& compile, bool must) {
  BodyPrograms bodies;
  for (const PlanStep& step : plan.steps) {
    if (!RunsBodies(step)) continue;
    for (const auto& [name, subgraph] : step.main->subgraphs()) {
      BodyProgram body;
      auto g = WithConstants(plan, *step.main, *subgraph, body.kept);
      auto program = g.ok() ? compile(*g) : g.status();
      if (!program.ok()) {
        if (must) return program.status().In(Cat(Describe(*step.main), ": ", name));
        continue;
      }
      body.program = *std::move(program);
      bodies.emplace(subgraph.get(), std::move(body));
    }
  }
  return bodies;
}

bool BodyRuns::WorthPlanning(const ExecutorProgram& program, State& state,
                             std::span<const Datum> inputs) const {
  std::vector<Dims> dims;
  for (const Datum& d : inputs) dims.push_back(d.is_tensor() ? d.tensor().dims() : Dims());
  return program.HasPlan(dims) || state.shapes_planned++ < kMaxPlannedShapes;
}

Result<std::vector<Datum>> BodyRuns::Run(const Graph& g, std::span<const Datum> inputs,
                                         const RunOptions& options, std::string_view op,
                                         OperatorTimes& times) {
  const double begin = options.profile ? NowMs() : 0;
  const auto found = bodies_.find(&g);
  State& state = states_[&g];
  std::vector<Datum> bound;
  if (found != bodies_.end())
    for (size_t i : found->second.kept) bound.push_back(i < inputs.size() ? inputs[i] : Datum());
  if (found == bodies_.end() || !WorthPlanning(*found->second.program, state, bound)) {
    auto out = Evaluate(g, inputs);
    if (options.profile) times[std::string(op)] += NowMs() - begin;
    return out;
  }
  if (!state.context) {
    INFER_ASSIGN(state.context, found->second.program->NewContext());
  }
  for (size_t i = 0; i < bound.size(); ++i)
    INFER_TRY(state.context->BindInput(i, std::move(bound[i])));
  INFER_TRY(state.context->Run(options));
  for (const auto& [inner, ms] : state.context->reference_times()) times[Cat(op, "/", inner)] += ms;
  std::vector<Datum> out;
  for (size_t i = 0; i < g.outputs().size(); ++i) out.push_back(state.context->output(i));
  return out;
}

}  // namespace infer
