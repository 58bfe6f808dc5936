#include "runtime/plan_ir/groups/gathered_updates.h"

namespace infer {
namespace {

struct Gathering {
  Pattern table = Any();
  Pattern picks = Any().Where(
      "a list", [](const Value& v) { return v.shape().has_rank() && v.shape().rank() == 1; });
  Pattern gather = Op("Gather", table, picks).With("axis", int64_t{0});
  Pattern tuples = Any().Where("a list of single indices", [](const Value& v) {
    return v.shape().has_rank() && v.shape().rank() == 2 && v.shape()[1] == Dim(1);
  });
  Rule rule{.name = "gathered-updates",
            .doc = "ScatterND(x, i, Gather(table, picks)) => one step",
            .match = Op("ScatterND", Any(), tuples, gather),
            .fires_on = {"graph g(x: f32[3,4], t: f32[5,4], p: i64[6], i: i64[6,1]) -> (y) { "
                         "u = Gather(t, p) y = ScatterND(x, i, u) {reduction=\"max\"} }",
                         "graph g(x: f32[N,4], p: i64[E], i: i64[E,1]) -> (y) { "
                         "u = Gather(x, p) y = ScatterND(x, i, u) }"},
            .silent_on = {{"graph g(x: f32[3,4], t: f32[6,9], p: i64[4], i: i64[6,1]) -> (y) { "
                           "u = Gather(t, p) {axis=1} y = ScatterND(x, i, u) }",
                           "axis"},
                          {"graph g(x: f32[3,4], t: f32[5,4], p: i64[6], i: i64[6,1]) -> (y, u) { "
                           "u = Gather(t, p) y = ScatterND(x, i, u) }",
                           "'u' has other uses: a graph output"},
                          {"graph g(x: f32[3,4], t: f32[5,4], p: i64[2,3], i: i64[2,3,1]) -> (y) { "
                           "u = Gather(t, p) y = ScatterND(x, i, u) }",
                           "'i' is not a list of single indices"},
                          {"graph g(x: f32[3,4], t: f32[5], p: i64[6,4], i: i64[6,1]) -> (y) { "
                           "u = Gather(t, p) y = ScatterND(x, i, u) }",
                           "'p' is not a list"}}};
};

const Gathering& TheGathering() {
  static const Gathering gathering;
  return gathering;
}

}  // namespace

const Rule& GatheredUpdatesRule() { return TheGathering().rule; }

std::optional<GatheredUpdates> GatheredUpdatesOf(const StepCall& call) {
  if (call.step.nodes.front() == call.step.main) return std::nullopt;
  const Gathering& g = TheGathering();
  const auto m = FindMatch(g.rule, call.main().output(0));
  if (!m || &m->node(g.gather) != call.step.nodes.front()) return std::nullopt;
  return GatheredUpdates{call.operand((*m)[g.table]), call.operand((*m)[g.picks])};
}

void FoldGatheredUpdates(Plan& plan, AcceptsStep accepts) {
  const Gathering& g = TheGathering();
  Grouping grouping(plan);
  for (const auto& node : plan.graph.nodes()) {
    if (!node->Is("ScatterND") || !grouping.IsFree(node.get())) continue;
    const auto m = FindMatch(g.rule, node->output(0));
    if (!m || !grouping.IsFree(&m->node(g.gather))) continue;
    PlanStep step = MakeStep(plan, *node, {&m->node(g.gather), node.get()});
    if (accepts(step)) grouping.Take(std::move(step));
  }
}

}  // namespace infer
