#include "lib/ir/control_flow.h"

#include <algorithm>
#include <cstring>

#include "lib/ir/editor.h"
#include "lib/ir/flex_attention.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

const std::unique_ptr<Graph>* Find(const Subgraphs& subgraphs, std::string_view name) {
  for (const auto& [n, g] : subgraphs)
    if (n == name) return &g;
  return nullptr;
}

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
  INFER_TRY(InferInside(**then_graph, {}, captures).In("then_branch"));
  INFER_TRY(InferInside(**else_graph, {}, captures).In("else_branch"));
  const auto &a = (*then_graph)->outputs(), &b = (*else_graph)->outputs();
  if (a.size() != b.size() || a.size() < call.num_outputs())
    return InvalidModel(Cat("If: branches give ", a.size(), " and ", b.size(),
                            " outputs, the node ", call.num_outputs()));
  for (size_t i = 0; i < a.size(); ++i) {
    if (!SameElements(a[i]->type(), b[i]->type()))
      return InvalidModel(Cat("If: output ", i, " is ", ToString(a[i]->type()), " in one branch, ",
                              ToString(b[i]->type()), " in the other"));
    call.SetOut(i, JoinFacts(a[i]->type(), b[i]->type()));
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
  std::vector<ValueType> own = {TensorType{DType::kI64, Shape(Dims{})},
                                TensorType{DType::kBool, Shape(Dims{})}};
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

struct ScanLayout {
  size_t states, scans;
  std::vector<int64_t> in_axes, in_directions, out_axes, out_directions;
};

Result<ScanLayout> LayoutOf(const AttrMap& attrs, size_t num_inputs, size_t num_body_outputs) {
  ScanLayout l;
  auto it = attrs.find("num_scan_inputs");
  if (it == attrs.end()) return InvalidModel("Scan: num_scan_inputs is missing");
  l.scans = static_cast<size_t>(std::get<int64_t>(it->second));
  if (l.scans > num_inputs || l.scans == 0) return InvalidModel("Scan: bad num_scan_inputs");
  l.states = num_inputs - l.scans;
  if (num_body_outputs < l.states) return InvalidModel("Scan: the body gives too few outputs");
  auto list = [&](const char* name, size_t n, std::vector<int64_t>& v) -> Status {
    v.assign(n, 0);
    auto found = attrs.find(name);
    if (found == attrs.end()) return {};
    const auto& given = std::get<std::vector<int64_t>>(found->second);
    if (given.size() != n)
      return InvalidModel(Cat("Scan: ", name, " has ", given.size(), " entries, not ", n));
    v = given;
    return {};
  };
  auto directions = [&](const char* name, size_t n, std::vector<int64_t>& v) -> Status {
    INFER_TRY(list(name, n, v));
    for (int64_t d : v)
      if (d != 0 && d != 1)
        return InvalidModel(Cat("Scan: ", name, ": ", d, " is neither 0 (forward) nor 1"));
    return {};
  };
  const size_t results = num_body_outputs - l.states;
  INFER_TRY(list("scan_input_axes", l.scans, l.in_axes));
  INFER_TRY(directions("scan_input_directions", l.scans, l.in_directions));
  INFER_TRY(list("scan_output_axes", results, l.out_axes));
  INFER_TRY(directions("scan_output_directions", results, l.out_directions));
  return l;
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

/// Slice `index` of `t` along `axis`, without that axis.
Tensor SliceAt(const Tensor& t, int axis, int64_t index) {
  Dims dims = t.dims();
  const int64_t extent = dims[static_cast<size_t>(axis)];
  dims.erase(dims.begin() + axis);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < t.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : t.dim(i);
  Tensor out(t.dtype(), dims);
  if (t.dtype() == DType::kString) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        out.mutable_strings()[static_cast<size_t>(o * inner + i)] =
            t.strings()[static_cast<size_t>((o * extent + index) * inner + i)];
    return out;
  }
  if (IsPacked(t.dtype())) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        out.Set(o * inner + i, t.At((o * extent + index) * inner + i));
    return out;
  }
  const int64_t width = BitWidth(t.dtype()) / 8;
  for (int64_t o = 0; o < outer; ++o)
    std::memcpy(out.mutable_raw() + o * inner * width,
                t.raw() + (o * extent + index) * inner * width, static_cast<size_t>(inner * width));
  return out;
}

/// Stacks equally shaped tensors along a new axis. An empty list gives `empty_type` with extent 0.
Result<Tensor> Stack(const std::vector<Tensor>& parts, int64_t axis_attr, const ValueType& type) {
  if (parts.empty()) {
    Dims dims = {0};
    DType dtype = DType::kF32;
    if (type.is_tensor()) {
      if (type.tensor().dtype != DType::kUndefined) dtype = type.tensor().dtype;
      if (type.tensor().shape.has_rank())
        for (const Dim& d : type.tensor().shape.dims())
          dims.push_back(d.is_static() ? d.value() : 0);
    }
    return Tensor::Zeros(dtype, std::move(dims));
  }
  const Tensor& first = parts.front();
  INFER_ASSIGN(int axis, NormalizeAxis(axis_attr, first.rank() + 1));
  for (const Tensor& t : parts)
    if (t.dims() != first.dims() || t.dtype() != first.dtype())
      return InvalidModel(
          Cat("scan output changes from ", ToString(first.type()), " to ", ToString(t.type())));
  Dims dims = first.dims();
  const auto n = static_cast<int64_t>(parts.size());
  dims.insert(dims.begin() + axis, n);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < first.rank(); ++i) (i < axis ? outer : inner) *= first.dim(i);
  Tensor out(first.dtype(), std::move(dims));
  for (int64_t k = 0; k < n; ++k) {
    const Tensor& t = parts[static_cast<size_t>(k)];
    for (int64_t o = 0; o < outer; ++o) {
      const int64_t to = (o * n + k) * inner, from = o * inner;
      if (t.dtype() == DType::kString) {
        for (int64_t i = 0; i < inner; ++i)
          out.mutable_strings()[static_cast<size_t>(to + i)] =
              t.strings()[static_cast<size_t>(from + i)];
      } else if (IsPacked(t.dtype())) {
        for (int64_t i = 0; i < inner; ++i) out.Set(to + i, t.At(from + i));
      } else {
        const int64_t width = BitWidth(t.dtype()) / 8;
        std::memcpy(out.mutable_raw() + to * width, t.raw() + from * width,
                    static_cast<size_t>(inner * width));
      }
    }
  }
  return out;
}

/// The one element of a condition or of a trip count.
Result<int64_t> ElementOf(const Datum& d, DType dtype, std::string_view what) {
  if (!d.is_tensor() || d.tensor().dtype() != dtype)
    return InvalidModel(Cat(what, " is not ", Name(dtype)));
  if (d.tensor().num_elements() != 1) return InvalidModel(Cat(what, " is not one element"));
  return d.tensor().IntAt(0);
}

/// What types could not say before the run.
Status CheckCarried(size_t index, const Datum& before, const Datum& after, bool same_shape) {
  if (!before.is_tensor() || !after.is_tensor() || !before.tensor().defined()) return {};
  const TensorType a = before.tensor().type(), b = after.tensor().type();
  if (a.dtype == b.dtype && (!same_shape || before.tensor().dims() == after.tensor().dims()))
    return {};
  return InvalidModel(
      Cat("carried value ", index, " changes from ", ToString(a), " to ", ToString(b)));
}

Status Keep(Datum result, size_t index, std::vector<Tensor>& scan) {
  if (!result.is_tensor()) return InvalidModel(Cat("scan output ", index, " is not a tensor"));
  scan.push_back(std::move(result.tensor()));
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

Result<std::vector<Datum>> EvaluateSequenceMap(const Node& node,
                                               std::span<const Datum* const> inputs,
                                               size_t operands, const SubgraphRunner& run) {
  const Graph& body = *node.subgraph("body");
  for (size_t i = 0; i < operands; ++i)
    if (!inputs[i] || (i == 0 && !inputs[i]->is_sequence()))
      return InvalidModel(Cat("SequenceMap: input ", i, " is missing or no sequence"));
  const size_t n = inputs[0]->sequence().size();
  for (size_t i = 1; i < operands; ++i)
    if (inputs[i]->is_sequence() && inputs[i]->sequence().size() != n)
      return InvalidModel(Cat("SequenceMap: sequences have ", n, " and ",
                              inputs[i]->sequence().size(), " elements"));
  std::vector<SequenceDatum> results(node.outputs().size());
  for (size_t k = 0; k < n; ++k) {
    std::vector<Datum> args;
    for (size_t i = 0; i < operands; ++i)
      args.push_back(inputs[i]->is_sequence() ? inputs[i]->sequence()[k] : *inputs[i]);
    INFER_ASSIGN(auto out, run(body, WithCaptures(std::move(args), inputs.subspan(operands))));
    for (size_t i = 0; i < results.size(); ++i) results[i].elements.push_back(std::move(out[i]));
  }
  return std::vector<Datum>(std::make_move_iterator(results.begin()),
                            std::make_move_iterator(results.end()));
}

Result<std::vector<Datum>> EvaluateIf(const Node& node, std::span<const Datum* const> inputs,
                                      const SubgraphRunner& run) {
  INFER_ASSIGN(const int64_t cond, ElementOf(*inputs[0], DType::kBool, "If: the condition"));
  const Graph* branch = node.subgraph(cond ? "then_branch" : "else_branch");
  INFER_ASSIGN(auto out, run(*branch, WithCaptures({}, inputs.subspan(1))));
  out.resize(node.outputs().size());
  return out;
}

Result<std::vector<Datum>> EvaluateLoop(const Node& node, std::span<const Datum* const> inputs,
                                        size_t operands, const SubgraphRunner& run) {
  const Graph& body = *node.subgraph("body");
  const auto captures = inputs.subspan(operands);
  const size_t carried = operands < 2 ? 0 : operands - 2;
  int64_t limit = std::numeric_limits<int64_t>::max(), cond = 1;
  if (operands > 0 && inputs[0]) {
    INFER_ASSIGN(limit, ElementOf(*inputs[0], DType::kI64, "Loop: the trip count"));
  }
  if (operands > 1 && inputs[1]) {
    INFER_ASSIGN(cond, ElementOf(*inputs[1], DType::kBool, "Loop: the condition"));
  }
  std::vector<Datum> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(inputs[i + 2] ? *inputs[i + 2] : Datum());
  if (body.outputs().size() < carried + 1)
    return InvalidModel("Loop: the body gives too few outputs");
  std::vector<std::vector<Tensor>> scans(body.outputs().size() - 1 - carried);
  for (int64_t i = 0; i < limit && cond; ++i) {
    std::vector<Datum> args = {Tensor::Scalar<int64_t>(i), Tensor::Scalar<bool>(cond != 0)};
    args.insert(args.end(), state.begin(), state.end());
    INFER_ASSIGN(auto out, run(body, WithCaptures(std::move(args), captures)));
    INFER_ASSIGN(cond, ElementOf(out[0], DType::kBool, "Loop: the body's condition"));
    for (size_t k = 0; k < carried; ++k) {
      INFER_TRY(CheckCarried(k, state[k], out[k + 1], false));
      state[k] = std::move(out[k + 1]);
    }
    for (size_t k = 0; k < scans.size(); ++k)
      INFER_TRY(Keep(std::move(out[carried + 1 + k]), k, scans[k]));
  }
  for (size_t k = 0; k < scans.size(); ++k) {
    INFER_ASSIGN(Tensor t, Stack(scans[k], 0, body.outputs()[carried + 1 + k]->type()));
    state.emplace_back(std::move(t));
  }
  state.resize(node.outputs().size());
  return state;
}

Result<std::vector<Datum>> EvaluateScan(const Node& node, std::span<const Datum* const> inputs,
                                        size_t operands, const SubgraphRunner& run) {
  const Graph& body = *node.subgraph("body");
  INFER_ASSIGN(ScanLayout l, LayoutOf(node.attrs(), operands, body.outputs().size()));
  std::vector<Datum> state;
  for (size_t i = 0; i < operands; ++i)
    if (!inputs[i] || !inputs[i]->is_tensor())
      return InvalidModel(Cat("Scan: input ", i, " is not a tensor"));
  for (size_t i = 0; i < l.states; ++i) state.push_back(*inputs[i]);
  std::vector<int> axes;
  int64_t length = -1;
  for (size_t i = 0; i < l.scans; ++i) {
    const Tensor& t = inputs[l.states + i]->tensor();
    INFER_ASSIGN(int axis, NormalizeAxis(l.in_axes[i], t.rank()));
    axes.push_back(axis);
    if (length >= 0 && t.dim(axis) != length) return InvalidModel("Scan: inputs differ in length");
    length = t.dim(axis);
  }
  std::vector<std::vector<Tensor>> scans(body.outputs().size() - l.states);
  for (int64_t step = 0; step < length; ++step) {
    std::vector<Datum> args = state;
    for (size_t i = 0; i < l.scans; ++i)
      args.emplace_back(SliceAt(inputs[l.states + i]->tensor(), axes[i],
                                l.in_directions[i] ? length - 1 - step : step));
    INFER_ASSIGN(auto out, run(body, WithCaptures(std::move(args), inputs.subspan(operands))));
    for (size_t k = 0; k < l.states; ++k) {
      INFER_TRY(CheckCarried(k, state[k], out[k], true));
      state[k] = std::move(out[k]);
    }
    for (size_t k = 0; k < scans.size(); ++k)
      INFER_TRY(Keep(std::move(out[l.states + k]), k, scans[k]));
  }
  for (size_t k = 0; k < scans.size(); ++k) {
    if (l.out_directions[k]) std::reverse(scans[k].begin(), scans[k].end());
    INFER_ASSIGN(Tensor t, Stack(scans[k], l.out_axes[k], body.outputs()[l.states + k]->type()));
    state.emplace_back(std::move(t));
  }
  state.resize(node.outputs().size());
  return state;
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

std::vector<Datum> WithCaptures(std::vector<Datum> own, std::span<const Datum* const> captures) {
  for (const Datum* d : captures) own.push_back(d ? *d : Datum());
  return own;
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

Status CheckRanks(const std::vector<Datum>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].is_tensor() && outputs[i].tensor().defined() &&
        outputs[i].tensor().rank() > kMaxRank)
      return InvalidModel(Cat("output ", i, " has rank ", outputs[i].tensor().rank(),
                              ", over the limit of ", kMaxRank));
  return {};
}

Result<std::vector<Datum>> EvaluateControlFlow(const Node& node,
                                               std::span<const Datum* const> inputs,
                                               const SubgraphRunner& given) {
  const size_t operands = node.inputs().size() - node.num_captures();
  const SubgraphRunner on_reference = [](const Graph& g, std::span<const Datum> values) {
    return Evaluate(g, values);
  };
  const SubgraphRunner& run = given ? given : on_reference;
  auto out = node.op() == "If"              ? EvaluateIf(node, inputs, run)
             : node.op() == "Loop"          ? EvaluateLoop(node, inputs, operands, run)
             : node.op() == "SequenceMap"   ? EvaluateSequenceMap(node, inputs, operands, run)
             : node.op() == "FlexAttention" ? EvaluateFlexAttention(node, inputs, operands)
                                            : EvaluateScan(node, inputs, operands, run);
  if (!out.ok()) return out.status().In(Describe(node));
  INFER_TRY(CheckRanks(*out).In(Describe(node)));
  return out;
}

}  // namespace infer
