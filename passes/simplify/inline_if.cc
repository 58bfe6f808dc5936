/// Branches that are decided before the run.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lib/ir/op_name.h"
#include "lib/support/strings.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

/// Values of `branch` that results of `n` with a reader are made of.
std::unordered_set<const Value*> NeededOf(const Node& n, const Graph& branch) {
  std::unordered_set<const Value*> needed = {branch.outputs()[0]};
  for (size_t i = 1; i < n.outputs().size(); ++i)
    if (n.output(i) && !n.output(i)->is_dead()) needed.insert(branch.outputs()[i]);
  for (auto it = branch.nodes().rbegin(); it != branch.nodes().rend(); ++it) {
    const auto& made = (*it)->outputs();
    if (std::any_of(made.begin(), made.end(),
                    [&](const Value* v) { return v && needed.contains(v); }))
      needed.insert((*it)->inputs().begin(), (*it)->inputs().end());
  }
  return needed;
}

}  // namespace

Rule InlineIf() {
  Pattern condition = Scalar(), root = Op("If", condition).MoreInputs().Shared();
  return {
      .name = "inline-if",
      .doc = "If(true) {a} {b} => a",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        const Graph* branch = n.subgraph(m.scalar(condition) != 0 ? "then_branch" : "else_branch");
        std::unordered_map<const Value*, Value*> outer;
        const size_t captures = n.inputs().size() - n.num_captures();
        for (size_t i = 0; i < branch->inputs().size(); ++i)
          outer[branch->inputs()[i]] = n.input(captures + i);
        for (const auto& v : branch->values())
          if (v->is_constant() && !v->is_dead()) outer[v.get()] = b.Const(*v->constant());
        const auto needed = NeededOf(n, *branch);
        const auto is_needed = [&](const Value* v) { return v && needed.contains(v); };
        for (const auto& inner : branch->nodes()) {
          if (std::none_of(inner->outputs().begin(), inner->outputs().end(), is_needed)) continue;
          std::vector<Value*> inputs;
          for (const Value* v : inner->inputs()) inputs.push_back(v ? outer.at(v) : nullptr);
          NodeOptions options;
          options.name = inner->name();
          options.num_outputs = inner->outputs().size();
          options.num_captures = inner->num_captures();
          options.extra = inner->extra();
          for (const auto& [attr, graph] : inner->subgraphs())
            options.subgraphs.emplace_back(attr, std::make_unique<Graph>(graph->Clone()));
          const std::string op = FullOpName(inner->def().domain, inner->op());
          INFER_ASSIGN(Node * made,
                       b.Add(op, std::move(inputs), inner->attrs(), std::move(options)));
          for (size_t i = 0; i < inner->outputs().size(); ++i)
            if (inner->outputs()[i]) outer[inner->outputs()[i]] = made->output(i);
        }
        for (size_t i = 1; i < n.outputs().size(); ++i)
          if (n.output(i) && !n.output(i)->is_dead())
            b.Replace(n.output(i), outer.at(branch->outputs()[i]));
        return outer.at(branch->outputs()[0]);
      },
      .fires_on = {R"(graph g(x: f32[3], z: f32[3]) -> (y, u) { c = const bool[] {1}
                     y, u = If(c) [x, z] {
                       then_branch=graph(a, b) -> (s, t) { s = Add(a, b)  t = Relu(a) },
                       else_branch=graph(a, b) -> (s, t) { s = Sub(a, b)  t = Abs(a) }} })",
                   R"(graph g(x: f32[3]) -> (y) { c = const bool[1] {0}
                     y = If(c) [x] { then_branch=graph(a) -> (s) { s = Relu(a) },
                       else_branch=graph(a) -> (s) { k = const f32[] {2}  s = Mul(a, k) }} })",
                   R"(graph g(x: f32[3]) -> (y) { c = const bool[] {1}
                     y, u = If(c) [x] { then_branch=graph(a) -> (s, t) { s = Relu(a)  t = Abs(s) },
                       else_branch=graph(a) -> (s, t) { s = Abs(a)  t = Relu(a) }} })"},
      .silent_on = {{R"(graph g(c: bool[], x: f32[3]) -> (y) {
                       y = If(c) [x] { then_branch=graph(a) -> (s) { s = Relu(a) },
                         else_branch=graph(a) -> (s) { s = Abs(a) }} })",
                     "'c' is not a constant"}},
  };
}

}  // namespace infer
