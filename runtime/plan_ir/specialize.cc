#include "runtime/plan_ir/specialize.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// What is worth knowing before the run: operands and results of a node up to so many bytes.
constexpr int64_t kFoldBytes = 1 << 16;
/// Elements that inference is told of.
constexpr int64_t kFoldElements = 256;

/// The integer tensor that `elements` describe, where all of them are known.
Tensor KnownTensor(const ValueType& type, const std::optional<std::vector<Dim>>& elements) {
  if (!elements || !IsPlannable(type) || !IsInteger(type.tensor().dtype)) return {};
  const Dims dims = type.tensor().shape.static_dims();
  if (NumElements(dims) != static_cast<int64_t>(elements->size())) return {};
  for (const Dim& d : *elements)
    if (!d.is_static()) return {};
  Tensor t(type.tensor().dtype, dims);
  for (size_t i = 0; i < elements->size(); ++i)
    t.SetInt(static_cast<int64_t>(i), (*elements)[i].value());
  return t;
}

/// Operators whose results are not much larger than their operands.
bool MayFoldUnsized(const Node& n) {
  return !n.Is("Range") && !n.Is("ConstantOfShape") && !n.Is("Expand") && !n.Is("Tile") &&
         !n.Is("Pad") && !n.Is("Resize") && !n.Is("OneHot");
}

/// Works on a copy of the plan's graph. Its values and nodes correspond to the plan's by position.
class Specializer {
 public:
  Specializer(const Plan& plan, ShapePlan& out)
      : plan_(plan), out_(out), graph_(plan.graph.Clone()), editor_(graph_) {
    for (const auto& v : graph_.values()) id_.emplace(v.get(), static_cast<int>(id_.size()));
    out_.known.resize(plan_.values.size());
  }

  Status Run(std::span<const Dims> input_dims) {
    INFER_ASSIGN(const bool changed, SetInputs(input_dims));
    INFER_TRY(InferAndFold(changed));
    for (const auto& v : graph_.values()) out_.types.push_back(v->type());
    INFER_CHECK(out_.types.size() == plan_.values.size());
    SetCosts();
    return {};
  }

 private:
  /// Whether any input's shape is another than the graph says.
  Result<bool> SetInputs(std::span<const Dims> input_dims) {
    bool changed = false;
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      Value* v = graph_.inputs()[i];
      if (!v->type().is_tensor()) continue;
      TensorType t{v->dtype(), Shape(input_dims[i])};
      auto met = Meet(t.shape, v->shape());
      if (!met.ok()) return std::move(met.status()).In(Cat("input '", v->name(), "'"));
      changed |= !(t.shape == v->shape());
      editor_.SetType(v, std::move(t));
    }
    return changed;
  }

  /// Types, inferred anew where something `changed`, and the values of small results whose operands
  /// are all known: shapes may hang on them.
  Status InferAndFold(bool changed) {
    for (const auto& n : graph_.nodes()) {
      if (changed) INFER_TRY(editor_.Reinfer(*n));
      bool complete = true;
      for (const Value* v : n->outputs()) {
        if (!v || IsConstant(v)) continue;
        Tensor& t = Known(v);
        t = KnownTensor(v->type(), v->elements());
        complete &= t.defined();
      }
      if (!complete) changed |= Fold(*n);
    }
    return {};
  }

  /// Whether it learnt something. A node that fails here fails in the run, where it is reported.
  bool Fold(const Node& n) {
    if (!MayFold(n)) return false;
    std::vector<Datum> values;
    for (const Value* v : n.inputs())
      values.push_back(v ? Datum(*KnownOrConstant(plan_, out_, id_.at(v))) : Datum());
    std::vector<const Datum*> operands;
    for (size_t i = 0; i < values.size(); ++i)
      operands.push_back(n.input(i) ? &values[i] : nullptr);
    const auto results = EvaluateNode(n, operands, plan_.graph.ops());
    if (!results.ok()) return false;
    for (size_t o = 0; o < n.outputs().size() && o < results->size(); ++o) {
      Value* v = n.output(o);
      if (v && (*results)[o].is_tensor() && !IsConstant(v)) Learn(v, (*results)[o].tensor());
    }
    return true;
  }

  /// Its operands are known, and with the results they take few bytes.
  bool MayFold(const Node& n) const {
    if (!n.def().deterministic || !n.subgraphs().empty() || n.inputs().empty()) return false;
    int64_t bytes = 0;
    for (const Value* v : n.inputs()) {
      if (!v) continue;
      const Tensor* t = KnownOrConstant(plan_, out_, id_.at(v));
      if (!t || t->dtype() == DType::kString) return false;
      bytes += t->byte_size();
    }
    for (const Value* v : n.outputs()) {
      if (!v) continue;
      if (!IsPlannable(v->type()) && !MayFoldUnsized(n)) return false;
      bytes += PlannedBytes(v->type());
    }
    return bytes <= kFoldBytes;
  }

  void Learn(Value* v, const Tensor& t) {
    if (t.dtype() == DType::kString) return;
    Known(v) = t;
    editor_.SetType(v, t.type());
    if (!IsInteger(t.dtype()) || t.rank() > 1 || t.num_elements() > kFoldElements) return;
    std::vector<Dim> elements;
    for (int64_t i = 0; i < t.num_elements(); ++i) elements.emplace_back(t.IntAt(i));
    editor_.SetElements(v, std::move(elements));
  }

  /// A step of one node costs what the node does; a fused one moves only its own operands.
  void SetCosts() {
    std::map<const Node*, Cost> cost;
    auto it = graph_.nodes().begin();
    for (const auto& n : plan_.graph.nodes()) cost[n.get()] = StaticCost(**it++);
    for (const PlanStep& step : plan_.steps) {
      Cost& c = out_.cost.emplace_back();
      if (step.nodes.size() == 1) {
        c = cost[step.main];
        continue;
      }
      for (const Node* n : step.nodes) c.flops += cost[n].flops;
      for (int id : step.inputs) c.bytes_read += BytesOf(id);
      for (int id : step.outputs) c.bytes_written += BytesOf(id);
    }
  }

  int64_t BytesOf(int id) const { return PlannedBytes(out_.types[static_cast<size_t>(id)]); }
  Tensor& Known(const Value* v) { return out_.known[static_cast<size_t>(id_.at(v))]; }
  bool IsConstant(const Value* v) const {
    return plan_.constant(plan_.values[static_cast<size_t>(id_.at(v))]) != nullptr;
  }

  const Plan& plan_;
  ShapePlan& out_;
  Graph graph_;
  GraphEditor editor_;
  std::unordered_map<const Value*, int> id_;  // of graph_'s values in the plan
};

}  // namespace

bool IsPlannable(const ValueType& type) {
  return type.is_tensor() && type.tensor().is_static() && type.tensor().dtype != DType::kString;
}

int64_t PlannedBytes(const ValueType& type) {
  if (!IsPlannable(type)) return 0;
  return PackedBytes(type.tensor().dtype, NumElements(type.tensor().shape.static_dims()));
}

const Tensor* KnownOrConstant(const Plan& plan, const ShapePlan& shapes, int id) {
  const auto i = static_cast<size_t>(id);
  if (const Tensor* c = plan.constant(plan.values[i])) return c;
  return shapes.known[i].defined() ? &shapes.known[i] : nullptr;
}

Status Specialize(const Plan& plan, std::span<const Dims> input_dims, ShapePlan& out) {
  out.input_dims.assign(input_dims.begin(), input_dims.end());
  return Specializer(plan, out).Run(input_dims);
}

}  // namespace infer
