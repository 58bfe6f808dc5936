#include "passes/blocks/activation_text.h"

#include "lib/ir/op_name.h"
#include "lib/support/strings.h"

namespace infer {

Result<std::string> ActivationText(const Node& activation) {
  const OpDef& def = activation.def();
  std::string text = FullOpName(def.domain, def.name);
  std::vector<std::string> attrs;
  for (const auto& [name, value] : activation.attrs()) {
    const AttrDef* known = def.FindAttr(name);
    if (known && AttrMap{{name, value}} == AttrMap{{name, known->default_value}}) continue;
    if (const auto* f = std::get_if<float>(&value))
      attrs.push_back(Cat(name, "=", FormatDouble(static_cast<double>(*f))));
    else if (const auto* s = std::get_if<std::string>(&value))
      attrs.push_back(Cat(name, "=\"", *s, "\""));
    else
      return InvalidModel(Cat("needs an activation without the attribute '", name, "'"));
  }
  if (!attrs.empty()) text += Cat(" {", Join(attrs, ", "), "}");
  return text;
}

}  // namespace infer
