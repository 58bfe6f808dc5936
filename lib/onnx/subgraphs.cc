#include "lib/onnx/subgraphs.h"

#include <algorithm>

#include "lib/ir/editor.h"

namespace infer::onnx_io {

void OrderAsDeclared(const OpDef& def, std::vector<Subgraph>& subgraphs) {
  std::stable_sort(subgraphs.begin(), subgraphs.end(), [&](const auto& a, const auto& b) {
    return def.FindAttr(a.attr) < def.FindAttr(b.attr);
  });
}

void DropUnreadCaptures(std::vector<Subgraph>& subgraphs, std::vector<Value*>& captured) {
  for (size_t k = captured.size(); k-- > 0;) {
    const bool read = std::any_of(subgraphs.begin(), subgraphs.end(), [&](const Subgraph& sub) {
      return !sub.graph->inputs()[sub.own_inputs + k]->is_dead();
    });
    if (read) continue;
    for (Subgraph& sub : subgraphs) GraphEditor(*sub.graph).EraseInput(sub.own_inputs + k);
    captured.erase(captured.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

}  // namespace infer::onnx_io
