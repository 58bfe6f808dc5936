#pragma once
/// One node with its operands, run again with one of them changed: what tests of the promises that
/// operators make (traits, axes) are written with.
#include <cmath>
#include <memory>
#include <optional>
#include <unordered_map>

#include "tests/lib/ops/graph_values.h"

namespace infer {

class NodeSample {
 public:
  /// The first node of `def` in `text`, whose inputs are random; nothing where the graph has inputs
  /// that are no tensors, or does not run.
  static std::optional<NodeSample> Of(const OpDef& def, std::string_view text) {
    if (text.empty()) return std::nullopt;
    auto g = ParseGraph(text, TestOps());
    EXPECT_TRUE(g.ok()) << g.status().message();
    if (!g.ok()) return std::nullopt;
    Random random(5);
    std::vector<Datum> inputs;
    for (const Value* v : g->inputs()) {
      if (!v->type().is_tensor()) return std::nullopt;
      inputs.push_back(ExampleInput(v->tensor_type(), random));
    }
    std::unordered_map<const Value*, Datum> values;
    const auto tap = [&](const Value& v, const Datum& d) { values[&v] = d; };
    if (!Evaluate(*g, inputs, {.tap = tap}).ok()) return std::nullopt;
    for (const auto& v : g->values())
      if (v->is_constant()) values[v.get()] = *v->constant();
    for (const auto& n : g->nodes()) {
      if (&n->def() != &def) continue;
      NodeSample s;
      s.node = n.get();
      for (const Value* v : n->inputs()) s.operands.push_back(v ? values.at(v) : Datum());
      s.graph = std::make_shared<Graph>(*std::move(g));
      return s;
    }
    return std::nullopt;
  }

  bool HasTensor(size_t i) const {
    return i < operands.size() && operands[i].is_tensor() && operands[i].tensor().defined();
  }
  const Tensor& operand(size_t i) const { return operands[i].tensor(); }

  /// Result `out` of the node; nothing where it is no tensor, or the node refuses.
  std::optional<Tensor> Result(const std::vector<Datum>& given, size_t out = 0) const {
    std::vector<const Datum*> pointers;
    for (size_t k = 0; k < given.size(); ++k)
      pointers.push_back(node->input(k) ? &given[k] : nullptr);
    auto made = EvaluateNode(*node, pointers, TestOps());
    if (!made.ok() || out >= made->size() || !(*made)[out].is_tensor()) return std::nullopt;
    return (*made)[out].tensor();
  }
  /// With operand i replaced.
  std::optional<Tensor> With(size_t i, Tensor t, size_t out = 0) const {
    std::vector<Datum> changed = operands;
    changed[i] = std::move(t);
    return Result(changed, out);
  }
  std::optional<Tensor> Result(size_t out = 0) const {
    return operands.empty() ? std::nullopt : Result(operands, out);
  }

  std::shared_ptr<Graph> graph;
  const Node* node = nullptr;
  std::vector<Datum> operands;
};

inline bool IsNumeric(const Tensor& t) {
  return IsFloat(t.dtype()) || IsInteger(t.dtype()) || t.dtype() == DType::kBool;
}

/// Another value of element k.
inline Tensor Moved(const Tensor& t, int64_t k) {
  Tensor out = t.Clone();
  if (t.dtype() == DType::kBool)
    out.SetInt(k, t.IntAt(k) == 0);
  else if (IsInteger(t.dtype()))
    out.SetInt(k, t.IntAt(k) == 1 ? 2 : 1);
  else
    out.Set(k, t.At(k) + 0.75);
  return out;
}

inline bool SameAt(const Tensor& a, const Tensor& b, int64_t i) {
  return IsFloat(a.dtype()) ? a.At(i) == b.At(i) || (std::isnan(a.At(i)) && std::isnan(b.At(i)))
                            : a.IntAt(i) == b.IntAt(i);
}

}  // namespace infer
