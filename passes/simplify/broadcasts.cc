/// Copies that a broadcasting operator makes by itself.
#include <algorithm>

#include "lib/support/strings.h"
#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr std::string_view kBroadcasting =
    "Add|Sub|Mul|Div|Pow|Min|Max|Equal|Less|LessOrEqual|Greater|GreaterOrEqual|And|Or|Where";

bool IsExpanded(const Value* v) { return v && v->producer() && v->producer()->Is("Expand"); }

bool ExpandsAnOperand(const Value& root) {
  const Node& n = *root.producer();
  return std::any_of(n.inputs().begin(), n.inputs().end(), IsExpanded);
}

}  // namespace

Rule SkipExpand() {
  Pattern root = Op(kBroadcasting, {})
                     .MoreInputs()
                     .Where("with an operand that is expanded", ExpandsAnOperand);
  return {
      .name = "skip-expand",
      .doc = "Add(Expand(x, s), y) => Add(x, y), where y has that shape anyway",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        // One at a time: of two expanded operands one may be needed.
        for (size_t i = 0; i < n.inputs().size(); ++i) {
          const Value* v = n.input(i);
          if (!IsExpanded(v)) continue;
          Result<Shape> shape = v->producer()->input(0)->shape();
          for (size_t k = 0; k < n.inputs().size() && shape.ok(); ++k)
            if (k != i) shape = Broadcast(*shape, n.input(k)->shape());
          const bool same =
              shape.ok() && shape->has_rank() && m[root]->shape().has_rank() &&
              std::equal(shape->dims().begin(), shape->dims().end(),
                         m[root]->shape().dims().begin(), m[root]->shape().dims().end(),
                         [](const Dim& x, const Dim& y) { return x.KnownEqual(y); });
          if (!same) continue;
          std::vector<Value*> operands = n.inputs();
          operands[i] = v->producer()->input(0);
          if (v->has_one_use()) b.Cover(v->producer());
          return b(n.op(), std::move(operands), n.attrs());
        }
        return InvalidModel("needs a result whose shape the other operands give");
      },
      .fires_on = {R"(graph g(x: f32[1,3], z: f32[N,2,3]) -> (y) { s = const i64[2] {2,3}
                     t = Expand(x, s)  y = Sub(z, t) })",
                   R"(graph g(c: bool[N,1], x: f32[N,3]) -> (y) { s = const i64[2] {1,3}
                     k = const f32[] {0}  t = Expand(c, s)  y = Where(t, x, k) })"},
      .silent_on = {{R"(graph g(x: f32[1,3], z: f32[1,3]) -> (y) { s = const i64[2] {2,3}
                       t = Expand(x, s)  y = Sub(z, t) })",
                     "a result whose shape the other operands give"},
                    {R"(graph g(x: f32[1], s: i64[1], z: f32[1]) -> (y) { t = Expand(x, s)
                       y = Sub(z, t) })",
                     "a result whose shape the other operands give"}},
  };
}

}  // namespace infer
