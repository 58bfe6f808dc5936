#include "lib/ir/replacement.h"

namespace infer {

NodeOptions NamesOf(const Node& n) {
  NodeOptions o;
  o.name = n.name();
  o.fused_from = n.fused_from();
  return o;
}

Status ReplaceNode(GraphEditor& editor, Node& n, Value* made) {
  Value* const old = n.output();
  INFER_ASSIGN(ValueType type, Meet(old->type(), made->type()));
  editor.SetType(made, std::move(type));
  const std::string name = old->name();
  const bool renames = !old->is_output();
  INFER_TRY(editor.ReplaceAllUses(old, made));
  editor.Erase(n);
  if (renames) editor.Rename(made, name);
  return {};
}

}  // namespace infer
