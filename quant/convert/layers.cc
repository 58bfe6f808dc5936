#include "quant/convert/layers.h"

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {

std::string LayerName(const Node& node) {
  if (!node.name().empty()) return node.name();
  for (const Value* v : node.outputs())
    if (v) return v->name();
  return std::string(node.op());
}

Status CheckIsFloat(const Graph& g) {
  for (const auto& n : g.nodes())
    if ((n->Is(Trait::kConversion) && n->Is(Trait::kQuantization)) || MakesStoredWeights(*n))
      return InvalidArgument(
          Cat("the model is quantized already (", Describe(*n), "); start from the f32 model"));
  return {};
}

Result<Value*> AddNamed(GraphEditor& editor, std::string_view op, std::vector<Value*> inputs,
                        AttrMap attrs, const std::string& name, std::string_view domain) {
  NodeOptions options;
  options.name = name;
  options.output_names = {name};
  return editor.Add(op, std::move(inputs), std::move(attrs), domain, std::move(options));
}

Result<Value*> AddCast(GraphEditor& editor, Value* v, DType to, const std::string& name) {
  return AddNamed(editor, "Cast", {v}, {{"to", static_cast<int64_t>(to)}}, name);
}

}  // namespace infer
