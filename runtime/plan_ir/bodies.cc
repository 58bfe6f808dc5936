#include "runtime/plan_ir/bodies.h"

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/executor.h"

namespace infer {
namespace {

constexpr size_t kPlannedAtOnce = 32;

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

/// Whether both are the same elements in the same extents.
bool Shares(const Datum& a, const Datum& b) {
  return a.is_tensor() && b.is_tensor() && a.tensor().buffer() &&
         a.tensor().buffer() == b.tensor().buffer() && a.tensor().dtype() == b.tensor().dtype() &&
         a.tensor().dims() == b.tensor().dims();
}

/// Checks what will be lent, and binds the captures that changed.
Status BindAll(const BodyProgram& body, const SubgraphCall& call, Executor& context) {
  static const Datum none;
  for (size_t i = 0; i < body.kept.size(); ++i) {
    const size_t own = body.kept[i];
    if (own < call.own.size()) {
      const Value& v = *body.program->inputs()[i];
      INFER_TRY(CheckDatum(call.own[own], v.type(), v.name()));
      continue;
    }
    const size_t c = own - call.own.size();
    const Datum* captured = c < call.captures.size() ? call.captures[c] : nullptr;
    if (!captured || !Shares(context.input(i), *captured))
      INFER_TRY(context.BindInput(i, captured ? *captured : none));
  }
  return {};
}

/// While it lives, the subgraph's own inputs and the results lie in the context.
class Loan {
 public:
  Loan(const BodyProgram& body, const SubgraphCall& call, Executor& context)
      : body_(body), call_(call), context_(context) {
    call.results.resize(call.graph.outputs().size());
    Swap();
  }
  ~Loan() { Swap(); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  void Swap() {
    for (size_t i = 0; i < body_.kept.size(); ++i)
      if (body_.kept[i] < call_.own.size()) context_.SwapInput(i, call_.own[body_.kept[i]]);
    for (size_t o = 0; o < call_.results.size(); ++o) context_.SwapOutput(o, call_.results[o]);
  }

  const BodyProgram& body_;
  const SubgraphCall& call_;
  Executor& context_;
};

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

BodyRuns::BodyRuns(const BodyPrograms& bodies) : bodies_(bodies) {}
BodyRuns::~BodyRuns() = default;

BodyRuns::State& BodyRuns::StateOf(const Graph& g) {
  const auto [it, is_new] = states_.try_emplace(&g);
  if (const auto found = bodies_.find(&g); is_new && found != bodies_.end()) {
    it->second.body = &found->second;
    it->second.context = std::make_unique<Executor>(found->second.program);
  }
  return it->second;
}

bool BodyRuns::IsWorthAPlan(State& state) {
  const size_t most = PlansKept(state.body->program->plan().steps.size());
  if (state.shapes_planned >= most) return false;
  if (state.shapes_planned >= kPlannedAtOnce) {
    std::vector<Dims> shapes = state.context->BoundShapes();
    if (!state.seen.contains(shapes)) {
      if (state.seen.size() < most) state.seen.insert(std::move(shapes));
      return false;
    }
  }
  ++state.shapes_planned;
  return true;
}

Result<bool> BodyRuns::RunPlanned(State& state, const SubgraphCall& call,
                                  const RunOptions& options) {
  INFER_TRY(BindAll(*state.body, call, *state.context));
  const Loan loan(*state.body, call, *state.context);
  if (!state.context->KnowsShapes() && !IsWorthAPlan(state)) return false;
  INFER_TRY(state.context->Run(options));
  return true;
}

Status BodyRuns::Run(const SubgraphCall& call, const RunOptions& options, std::string_view op,
                     OperatorTimes& times) {
  const double begin = options.profile ? NowMs() : 0;
  State& state = StateOf(call.graph);
  bool ran = false;
  if (state.body) {
    INFER_ASSIGN(ran, RunPlanned(state, call, options));
  }
  if (!ran) INFER_TRY(EvaluateSubgraph(call));
  if (!options.profile) return {};
  if (!ran) times[std::string(op)] += NowMs() - begin;
  if (ran)
    for (const auto& [inner, ms] : state.context->reference_times())
      times[Cat(op, "/", inner)] += ms;
  return {};
}

void BodyRuns::Release(const Node& node) {
  for (const auto& [name, subgraph] : node.subgraphs()) {
    const auto found = states_.find(subgraph.get());
    if (found == states_.end() || !found->second.body) continue;
    for (size_t i = 0; i < found->second.body->kept.size(); ++i) {
      Datum none;
      found->second.context->SwapInput(i, none);
    }
  }
}

}  // namespace infer
