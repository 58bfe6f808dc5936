#include "lib/ir/control_flow.h"

#include <algorithm>

#include "lib/ir/editor.h"
#include "lib/ir/flex_attention.h"
#include "lib/ir/inference.h"
#include "lib/ir/scan_layout.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

Status CheckCarried(size_t index, const ValueType& before, const ValueType& after) {
  if (SameElements(before, after)) return {};
  return InvalidModel(
      Cat("carried value ", index, " changes from ", ToString(before), " to ", ToString(after)));
}

/// What a body stacks must be a tensor.
Status CheckStacked(size_t index, const ValueType& t) {
  if (t.is_tensor()) return {};
  return InvalidModel(Cat("scan output ", index, " is ", ToString(t), ", not a tensor"));
}

Status InferIf(OpCall& call, const Subgraphs& subgraphs,
               std::span<const ValueType* const> captures) {
  const auto *then_graph = Find(subgraphs, "then_branch"),
             *else_graph = Find(subgraphs, "else_branch");
  if (!then_graph || !else_graph) return InvalidModel("If: a branch is missing");
  // A branch that is never taken may be ill-typed: exporters test ranks so.
  const Tensor* condition = call.constant(0);
  const bool known =
      condition && condition->dtype() == DType::kBool && condition->num_elements() == 1;
  const Graph* taken = !known ? nullptr : (condition->IntAt(0) ? then_graph : else_graph)->get();
  for (const auto& [graph, name] :
       {std::pair(then_graph, "then_branch"), std::pair(else_graph, "else_branch")}) {
    Status s = InferInside(**graph, {}, captures);
    if (!s.ok() && (!taken || taken == graph->get())) return std::move(s).In(name);
  }
  const auto &a = (*then_graph)->outputs(), &b = (*else_graph)->outputs();
  if (a.size() != b.size() || a.size() < call.num_outputs())
    return InvalidModel(Cat("If: branches give ", a.size(), " and ", b.size(),
                            " outputs, the node ", call.num_outputs()));
  for (size_t i = 0; i < a.size(); ++i) {
    if (!SameElements(a[i]->type(), b[i]->type()))
      return InvalidModel(Cat("If: output ", i, " is ", ToString(a[i]->type()), " in one branch, ",
                              ToString(b[i]->type()), " in the other"));
    call.SetOut(i, taken ? taken->outputs()[i]->type() : JoinFacts(a[i]->type(), b[i]->type()));
  }
  return {};
}

/// Carried types of a loop: the join of what goes in and what comes back, until it is stable.
Status InferCarried(Graph& body, std::vector<ValueType>& own, size_t first_carried,
                    size_t num_carried, size_t first_result,
                    std::span<const ValueType* const> captures) {
  // Every level of nesting multiplies the rounds. From some depth on one round must do: shapes of
  // carried tensors are given up beforehand, so that nothing can contradict them.
  constexpr int kPreciseDepth = 3;
  thread_local int depth = 0;
  struct Level {
    Level() { ++depth; }
    ~Level() { --depth; }
  } level;
  if (depth > kPreciseDepth) {
    for (size_t i = first_carried; i < first_carried + num_carried; ++i)
      if (own[i].is_tensor()) own[i] = TensorType{own[i].tensor().dtype, Shape()};
    INFER_TRY(InferInside(body, own, captures).In("body"));
    if (body.outputs().size() < first_result + num_carried)
      return InvalidModel("the body gives too few outputs");
    for (size_t i = 0; i < num_carried; ++i) {
      const ValueType& result = body.outputs()[first_result + i]->type();
      ValueType& t = own[first_carried + i];
      INFER_TRY(CheckCarried(i, t, result));
      const ValueType joined = JoinFacts(t, result);
      if (t.is_tensor() && !(joined == t) && t.tensor().dtype != DType::kUndefined)
        return InvalidModel(
            Cat("a carried value changes from ", ToString(t), " to ", ToString(result)));
    }
    return {};
  }
  for (int round = 0; round < 4; ++round) {
    INFER_TRY(InferInside(body, own, captures).In("body"));
    bool stable = true;
    for (size_t i = 0; i < num_carried; ++i) {
      if (first_result + i >= body.outputs().size())
        return InvalidModel("the body gives too few outputs");
      const ValueType& result = body.outputs()[first_result + i]->type();
      ValueType& t = own[first_carried + i];
      INFER_TRY(CheckCarried(i, t, result));
      ValueType joined = JoinFacts(t, result);
      if (!(joined == t)) {
        t = std::move(joined);
        stable = false;
      }
    }
    if (stable) return {};
  }
  return InferInside(body, own, captures).In("body");
}

/// Drops what a loop input's declared type adds, so that carried types start from the operands.
Status InferLoop(OpCall& call, const Subgraphs& subgraphs,
                 std::span<const ValueType* const> captures) {
  const auto* body = Find(subgraphs, "body");
  if (!body) return InvalidModel("Loop: body is missing");
  Graph& g = **body;
  const size_t carried = call.num_inputs() < 2 ? 0 : call.num_inputs() - 2;
  std::vector<ValueType> own = {TensorType{DType::kI64, Shape(LoopScalarDims(g, 0))},
                                TensorType{DType::kBool, Shape(LoopScalarDims(g, 1))}};
  for (size_t i = 0; i < carried; ++i)
    own.push_back(call.has_input(i + 2) ? call.type(i + 2) : ValueType());
  INFER_TRY(InferCarried(g, own, 2, carried, 1, captures).In("Loop"));
  if (g.outputs().empty()) return InvalidModel("Loop: the body gives no condition");
  const ValueType& cond = g.outputs()[0]->type();
  if (!SameElements(cond, TensorType{DType::kBool, Shape()}))
    return InvalidModel(Cat("Loop: the body's condition is ", ToString(cond), ", not a bool"));
  for (size_t i = 0; i + 1 < g.outputs().size(); ++i) {
    const ValueType& t = g.outputs()[i + 1]->type();
    if (i < carried) {
      call.SetOut(i, JoinFacts(own[i + 2], t));
      continue;
    }
    INFER_TRY(CheckStacked(i - carried, t).In("Loop"));
    if (t.tensor().shape.has_rank()) {
      std::vector<Dim> dims = {Dim()};
      for (const Dim& d : t.tensor().shape.dims()) dims.push_back(d);
      call.SetOut(i, t.tensor().dtype, Shape(std::move(dims)));
    } else {
      call.SetOut(i, t.tensor().dtype, Shape());
    }
  }
  return {};
}

Status InferScan(OpCall& call, const Subgraphs& subgraphs,
                 std::span<const ValueType* const> captures) {
  const auto* body = Find(subgraphs, "body");
  if (!body) return InvalidModel("Scan: body is missing");
  Graph& g = **body;
  INFER_ASSIGN(ScanLayout l, LayoutOf(call.attrs(), call.num_inputs(), g.outputs().size()));
  std::vector<ValueType> own;
  Dim length;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    if (!call.has_input(i)) return InvalidModel(Cat("Scan: input ", i, " is missing"));
    if (i < l.states) {
      own.push_back(call.type(i));
      continue;
    }
    const Shape& s = call.shape(i);
    if (!s.has_rank()) {
      own.push_back(TensorType{call.dtype(i), Shape()});
      continue;
    }
    INFER_ASSIGN(int axis, NormalizeAxis(l.in_axes[i - l.states], s.rank()));
    std::vector<Dim> dims = s.dims();
    if (length.is_unknown()) length = dims[static_cast<size_t>(axis)];
    dims.erase(dims.begin() + axis);
    own.push_back(TensorType{call.dtype(i), Shape(std::move(dims))});
  }
  // Unlike a Loop's, the states of a Scan keep their shapes: one round says all.
  INFER_TRY(InferInside(g, own, captures).In("Scan: body"));
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const ValueType& t = g.outputs()[i]->type();
    if (i < l.states) {
      auto met = Meet(own[i], t);
      if (!met.ok())
        return InvalidModel(
            Cat("Scan: state ", i, " changes from ", ToString(own[i]), " to ", ToString(t)));
      call.SetOut(i, *std::move(met));
      continue;
    }
    INFER_TRY(CheckStacked(i - l.states, t).In("Scan"));
    if (!t.tensor().shape.has_rank()) {
      call.SetOut(i, t.tensor().dtype, Shape());
    } else {
      std::vector<Dim> dims = t.tensor().shape.dims();
      INFER_ASSIGN(int axis,
                   NormalizeAxis(l.out_axes[i - l.states], static_cast<int>(dims.size()) + 1));
      dims.insert(dims.begin() + axis, length);
      call.SetOut(i, t.tensor().dtype, Shape(std::move(dims)));
    }
  }
  return {};
}

Status InferSequenceMap(OpCall& call, const Subgraphs& subgraphs,
                        std::span<const ValueType* const> captures) {
  const auto* body = Find(subgraphs, "body");
  if (!body) return InvalidModel("SequenceMap: body is missing");
  if (const ValueType& t = call.type(0);
      t.kind() != ValueType::Kind::kSequence && !(t == ValueType()))
    return InvalidModel(Cat("SequenceMap: input 0 is ", ToString(t), ", not a sequence"));
  std::vector<ValueType> own;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    if (!call.has_input(i)) return InvalidModel(Cat("SequenceMap: input ", i, " is missing"));
    const ValueType& t = call.type(i);
    own.push_back(t.kind() == ValueType::Kind::kSequence ? t.element() : t);
  }
  INFER_TRY(InferInside(**body, own, captures).In("SequenceMap: body"));
  const auto& results = (*body)->outputs();
  if (results.size() < call.num_outputs())
    return InvalidModel(Cat("SequenceMap: the body gives ", results.size(), " outputs, the node ",
                            call.num_outputs()));
  for (size_t i = 0; i < call.num_outputs(); ++i)
    call.SetOut(i, ValueType::Sequence(results[i]->type()));
  return {};
}

}  // namespace

bool SameElements(const ValueType& a, const ValueType& b) {
  if (a == ValueType() || b == ValueType()) return true;
  if (a.kind() == ValueType::Kind::kOptional) return SameElements(a.element(), b);
  if (b.kind() == ValueType::Kind::kOptional) return SameElements(a, b.element());
  if (a.kind() != b.kind()) return false;
  if (!a.is_tensor()) return a.key() == b.key() && SameElements(a.element(), b.element());
  return a.tensor().dtype == b.tensor().dtype || a.tensor().dtype == DType::kUndefined ||
         b.tensor().dtype == DType::kUndefined;
}

Status InferInside(Graph& g, std::span<const ValueType> own,
                   std::span<const ValueType* const> captures) {
  if (g.inputs().size() != own.size() + captures.size())
    return InvalidModel(Cat("a subgraph takes ", g.inputs().size(), " inputs, gets ", own.size(),
                            " and ", captures.size(), " captured"));
  GraphEditor editor(g);
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const ValueType& t = i < own.size() ? own[i] : *captures[i - own.size()];
    // A branch's declared type may know more than the loop's join does.
    if (!(t == ValueType())) editor.SetType(g.inputs()[i], t);
  }
  return InferTypes(g);
}

Dims LoopScalarDims(const Graph& body, size_t i) {
  if (i >= body.inputs().size()) return {};
  const ValueType& t = body.inputs()[i]->type();
  const bool vector = t.is_tensor() && t.tensor().shape.has_rank() && t.tensor().shape.rank() == 1;
  return vector ? Dims{1} : Dims{};
}

bool IsControlFlow(const OpDef& def) {
  return std::any_of(def.attrs.begin(), def.attrs.end(),
                     [](const AttrDef& a) { return a.kind == AttrKind::kGraph; });
}

Status InferControlFlow(OpCall& call, const Subgraphs& subgraphs,
                        std::span<const ValueType* const> captures) {
  if (call.def().name == "If") return InferIf(call, subgraphs, captures);
  if (call.def().name == "Loop") return InferLoop(call, subgraphs, captures);
  if (call.def().name == "SequenceMap") return InferSequenceMap(call, subgraphs, captures);
  if (call.def().name == "FlexAttention") return InferFlexAttention(call, subgraphs, captures);
  return InferScan(call, subgraphs, captures);
}

}  // namespace infer
