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

namespace {

/// A layer whose weights are f16 or bf16, where none has f32; nullptr: there is none.
const Node* HalfLayer(const Graph& g) {
  const Node* half = nullptr;
  for (const auto& n : g.nodes()) {
    const Value* weights = WeightLayoutOf(*n) ? n->input(1) : nullptr;
    if (!weights || !weights->is_constant()) continue;
    if (weights->dtype() == DType::kF32) return nullptr;
    if (!half && (weights->dtype() == DType::kF16 || weights->dtype() == DType::kBF16))
      half = n.get();
  }
  return half;
}

}  // namespace

Status CheckIsFloat(const Graph& g) {
  for (const auto& n : g.nodes())
    if ((n->Is(Trait::kConversion) && n->Is(Trait::kQuantization)) || MakesStoredWeights(*n))
      return InvalidArgument(
          Cat("the model is quantized already (", Describe(*n), "); start from the f32 model"));
  if (const Node* n = HalfLayer(g))
    return InvalidArgument(Cat("the weights are ", Name(n->input(1)->dtype()), " already (",
                               Describe(*n), "); start from the f32 model"));
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
