#include "runtime/plan_ir/groups/gate.h"

#include "lib/ir/roles.h"

namespace infer {
namespace {

bool IsPerChannel(const Value& by, const Value& x) {
  const Shape &s = by.shape(), &of = x.shape();
  return of.has_rank() && of.rank() == 4 && s[1].KnownEqual(of[1]) &&
         (s[0] == Dim(1) || s[0].KnownEqual(of[0]));
}

struct Gating {
  Pattern x = Any();
  Pattern by = Any().Where("[N, C, 1, 1]", [](const Value& v) {
    const Shape& s = v.shape();
    return s.has_rank() && s.rank() == 4 && s[2] == Dim(1) && s[3] == Dim(1);
  });
  Pattern mul = Op("Mul", x, by);
  Rule rule{
      .name = "gate",
      .doc = "Conv(Mul(x, [1 or N, C, 1, 1])) => one step",
      .match = Op("Conv", mul).MoreInputs(),
      .when = {{"a number for each channel of x",
                [x = x, by = by, mul = mul](const Match& m) {
                  return SameShape(*m[x], *m[mul]) && IsPerChannel(*m[by], *m[x]);
                }}},
      .fires_on = {"graph g(x: f32[2,3,4,4], s: f32[2,3,1,1]) -> (y) { w = const f32[5,3,1,1] ~1 "
                   "m = Mul(s, x) y = Conv(m, w) }",
                   "graph g(x: f32[2,3,4,4], s: f32[1,3,1,1]) -> (y) { w = const f32[5,3,1,1] ~1 "
                   "b = const f32[5] ~2 m = Mul(x, s) c = Conv(m, w, b) y = Relu(c) }"},
      .silent_on = {
          {"graph g(x: f32[2,3,4,4], s: f32[2,1,1,1]) -> (y) { w = const f32[5,3,1,1] ~1 "
           "m = Mul(x, s) y = Conv(m, w) }",
           "a number for each channel of x"},
          {"graph g(x: f32[2,3,4,4], s: f32[2,3,4,4]) -> (y) { w = const f32[5,3,1,1] ~1 "
           "m = Mul(x, s) y = Conv(m, w) }",
           "'s' is not [N, C, 1, 1]"},
          {"graph g(x: f32[2,3,4,4], s: f32[2,3,1,1]) -> (y, m) { w = const f32[5,3,1,1] ~1 "
           "m = Mul(x, s) y = Conv(m, w) }",
           "'m' has other uses: a graph output"}}};
};

const Gating& TheGating() {
  static const Gating gating;
  return gating;
}

}  // namespace

const Rule& GateRule() { return TheGating().rule; }

std::optional<Gate> GateOf(const StepCall& call) {
  if (call.step.nodes.front() == call.step.main) return std::nullopt;
  const Gating& g = TheGating();
  const auto m = FindMatch(g.rule, call.main().output(0));
  if (!m || &m->node(g.mul) != call.step.nodes.front()) return std::nullopt;
  return Gate{call.operand((*m)[g.x]), call.operand((*m)[g.by])};
}

void FoldGates(Plan& plan, AcceptsStep accepts) {
  const Gating& g = TheGating();
  Grouping grouping(plan);
  for (const auto& node : plan.graph.nodes()) {
    if (!IsConvolution(*node) || !grouping.IsFree(node.get())) continue;
    const auto m = FindMatch(g.rule, node->output(0));
    if (!m || !grouping.IsFree(&m->node(g.mul))) continue;
    PlanStep step = MakeStep(plan, *node, {&m->node(g.mul), node.get()});
    if (accepts(step)) grouping.Take(std::move(step));
  }
}

}  // namespace infer
