#include "runtime/cpu/compile/text_labels.h"

#include <numeric>

#include "lib/ir/replacement.h"
#include "lib/ops/ml/ml_scores.h"

namespace infer {
namespace {

constexpr std::string_view kTexts = "classlabels_strings";

/// The attribute with labels that are numbers; "": no operator that gives labels and scores.
std::string_view NumbersOf(const OpDef& def) {
  if (def.domain != "ai.onnx.ml" || def.outputs.size() != 2 || !def.FindAttr(kTexts)) return "";
  return def.FindAttr("classlabels_int64s") ? "classlabels_int64s" : "classlabels_ints";
}

Status TakeLabelsOf(GraphEditor& editor, Node& n, const std::vector<std::string>& texts) {
  editor.InsertBefore(n);
  AttrMap attrs = n.attrs();
  attrs.erase(attrs.find(kTexts));
  std::vector<int64_t> numbers(texts.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  attrs[std::string(NumbersOf(n.def()))] = std::move(numbers);
  NodeOptions options = NamesOf(n);
  for (const Value* v : n.outputs())
    options.output_names.push_back(v ? editor.FreshName(v->name()) : "");
  INFER_ASSIGN(Node * made, editor.AddNode(n.def(), {n.inputs().begin(), n.inputs().end()},
                                           std::move(attrs), std::move(options)));
  Value* const labels =
      editor.AddConstant(Tensor::OfStrings({static_cast<int64_t>(texts.size())}, texts));
  INFER_ASSIGN(Value * y, editor.Add("Gather", {labels, made->output(0)}));
  editor.SetType(y, n.output(0)->type());
  INFER_TRY(editor.ReplaceAllUses(n.output(0), y));
  if (Value* const scores = n.output(1)) {
    editor.SetType(made->output(1), scores->type());
    INFER_TRY(editor.ReplaceAllUses(scores, made->output(1)));
  }
  std::vector<std::pair<Value*, std::string>> names;
  if (!n.output(0)->is_output()) names.emplace_back(y, n.output(0)->name());
  if (n.output(1) && !n.output(1)->is_output())
    names.emplace_back(made->output(1), n.output(1)->name());
  editor.Erase(n);
  for (const auto& [v, name] : names) editor.Rename(v, editor.FreshName(name));
  return {};
}

}  // namespace

Result<int> TakeTextLabels(Graph& g) {
  GraphEditor editor(g);
  int taken = 0;
  for (auto it = g.nodes().begin(); it != g.nodes().end();) {
    Node& n = **it++;
    if (NumbersOf(n.def()).empty() || !n.output(0)) continue;
    const auto at = n.attrs().find(kTexts);
    if (at == n.attrs().end()) continue;
    const auto texts = std::get<std::vector<std::string>>(at->second);
    if (texts.empty()) continue;
    INFER_TRY(TakeLabelsOf(editor, n, texts));
    ++taken;
  }
  return taken;
}

}  // namespace infer
