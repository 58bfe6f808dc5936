/// Evaluation of operators that own subgraphs: which branch, how often.
#include <limits>

#include "lib/ir/flex_attention.h"
#include "lib/ir/inference.h"
#include "lib/ir/scan_layout.h"
#include "lib/ir/stack.h"
#include "lib/support/stop.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// A stack of no parts, each of which would have been of this type.
Result<Tensor> StackOfNone(int64_t axis_attr, const ValueType& part) {
  Dims dims;
  DType dtype = DType::kF32;
  if (part.is_tensor()) {
    if (part.tensor().dtype != DType::kUndefined) dtype = part.tensor().dtype;
    if (part.tensor().shape.has_rank())
      for (const Dim& d : part.tensor().shape.dims()) dims.push_back(d.is_static() ? d.value() : 0);
  }
  INFER_ASSIGN(const int axis, NormalizeAxis(axis_attr, static_cast<int>(dims.size()) + 1));
  dims.insert(dims.begin() + axis, 0);
  return Tensor::Zeros(dtype, std::move(dims));
}

/// What is known of a value before the run, unless it is a tensor.
ValueType TypeOr(const ValueType& declared, const Datum& d) {
  return d.is_tensor() && d.tensor().defined() ? ValueType(d.tensor().type()) : declared;
}

/// What a body that never ran would have given for operands of these types.
std::vector<ValueType> ResultTypes(const Graph& body, const std::vector<ValueType>& own,
                                   std::span<const Datum* const> captures) {
  Graph g = body.Clone();
  std::vector<ValueType> captured;
  for (size_t i = 0; i < captures.size() && own.size() + i < g.inputs().size(); ++i) {
    const ValueType& type = g.inputs()[own.size() + i]->type();
    captured.push_back(captures[i] ? TypeOr(type, *captures[i]) : type);
  }
  std::vector<const ValueType*> pointers;
  for (const ValueType& t : captured) pointers.push_back(&t);
  const bool known = InferInside(g, own, pointers).ok();
  std::vector<ValueType> types;
  for (const Value* v : (known ? g : body).outputs()) types.push_back(v->type());
  return types;
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
  const Tensor &a = before.tensor(), &b = after.tensor();
  if (a.dtype() == b.dtype() && (!same_shape || a.dims() == b.dims())) return {};
  return InvalidModel(Cat("carried value ", index, " changes from ", ToString(a.type()), " to ",
                          ToString(b.type())));
}

/// The carried value becomes `result`, in whose place the old one may be written over.
Status Advance(size_t index, Datum& carried, Datum& result, bool same_shape) {
  INFER_TRY(CheckCarried(index, carried, result, same_shape));
  std::swap(carried, result);
  return {};
}

/// An iteration's scan outputs, from result `first` on.
Status AddTo(std::vector<Stack>& scans, const std::vector<Datum>& results, size_t first) {
  for (size_t k = 0; k < scans.size(); ++k) {
    const Datum& part = results[first + k];
    if (!part.is_tensor()) return InvalidModel(Cat("scan output ", k, " is not a tensor"));
    INFER_TRY(scans[k].Add(part.tensor()));
  }
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
    INFER_TRY(CheckStop());
    std::vector<Datum> args;
    for (size_t i = 0; i < operands; ++i)
      args.push_back(inputs[i]->is_sequence() ? inputs[i]->sequence()[k] : *inputs[i]);
    std::vector<Datum> out;
    INFER_TRY(run({body, args, inputs.subspan(operands), out}));
    for (size_t i = 0; i < results.size(); ++i) results[i].elements.push_back(std::move(out[i]));
  }
  return std::vector<Datum>(std::make_move_iterator(results.begin()),
                            std::make_move_iterator(results.end()));
}

Result<std::vector<Datum>> EvaluateIf(const Node& node, std::span<const Datum* const> inputs,
                                      const SubgraphRunner& run) {
  INFER_ASSIGN(const int64_t cond, ElementOf(*inputs[0], DType::kBool, "If: the condition"));
  const Graph* branch = node.subgraph(cond ? "then_branch" : "else_branch");
  std::vector<Datum> out;
  INFER_TRY(run({*branch, {}, inputs.subspan(1), out}));
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
  const Dims number_dims = LoopScalarDims(body, 0), cond_dims = LoopScalarDims(body, 1);
  std::vector<Datum> args(carried + 2), out;
  args[1] = Tensor::Of<bool>(cond_dims, {true});
  for (size_t k = 0; k < carried; ++k)
    if (inputs[k + 2]) args[k + 2] = *inputs[k + 2];
  if (body.outputs().size() < carried + 1)
    return InvalidModel("Loop: the body gives too few outputs");
  std::vector<Stack> scans(body.outputs().size() - 1 - carried, Stack(limit));
  for (int64_t i = 0; i < limit && cond; ++i) {
    INFER_TRY(CheckStop());
    WritableAs(args[0], DType::kI64, number_dims).mutable_data<int64_t>()[0] = i;
    INFER_TRY(run({body, args, captures, out}));
    INFER_ASSIGN(cond, ElementOf(out[0], DType::kBool, "Loop: the body's condition"));
    for (size_t k = 0; k < carried; ++k) INFER_TRY(Advance(k, args[k + 2], out[k + 1], false));
    INFER_TRY(AddTo(scans, out, carried + 1));
  }
  std::vector<ValueType> never;
  if (!scans.empty() && scans[0].size() == 0) {
    std::vector<ValueType> own = {TensorType{DType::kI64, Shape(number_dims)},
                                  TensorType{DType::kBool, Shape(cond_dims)}};
    for (size_t k = 0; k < carried; ++k)
      own.push_back(TypeOr(body.inputs()[k + 2]->type(), args[k + 2]));
    never = ResultTypes(body, own, captures);
  }
  std::vector<Datum> state(std::make_move_iterator(args.begin() + 2),
                           std::make_move_iterator(args.end()));
  for (size_t k = 0; k < scans.size(); ++k) {
    INFER_ASSIGN(Tensor t,
                 never.empty() ? scans[k].Take() : StackOfNone(0, never[carried + 1 + k]));
    state.emplace_back(std::move(t));
  }
  state.resize(node.outputs().size());
  return state;
}

Result<std::vector<Datum>> EvaluateScan(const Node& node, std::span<const Datum* const> inputs,
                                        size_t operands, const SubgraphRunner& run) {
  const Graph& body = *node.subgraph("body");
  INFER_ASSIGN(ScanLayout l, LayoutOf(node.attrs(), operands, body.outputs().size()));
  for (size_t i = 0; i < operands; ++i)
    if (!inputs[i] || !inputs[i]->is_tensor())
      return InvalidModel(Cat("Scan: input ", i, " is not a tensor"));
  std::vector<Datum> args(operands), out;
  for (size_t i = 0; i < l.states; ++i) args[i] = *inputs[i];
  std::vector<int> axes;
  int64_t length = -1;
  for (size_t i = 0; i < l.scans; ++i) {
    const Tensor& t = inputs[l.states + i]->tensor();
    INFER_ASSIGN(int axis, NormalizeAxis(l.in_axes[i], t.rank()));
    axes.push_back(axis);
    if (length >= 0 && t.dim(axis) != length) return InvalidModel("Scan: inputs differ in length");
    length = t.dim(axis);
  }
  std::vector<Stack> scans;
  for (size_t k = 0; k + l.states < body.outputs().size(); ++k)
    scans.emplace_back(length, l.out_axes[k], l.out_directions[k] != 0);
  for (int64_t step = 0; step < length; ++step) {
    INFER_TRY(CheckStop());
    for (size_t i = 0; i < l.scans; ++i)
      SliceAt(inputs[l.states + i]->tensor(), axes[i],
              l.in_directions[i] ? length - 1 - step : step, args[l.states + i]);
    INFER_TRY(run({body, args, inputs.subspan(operands), out}));
    for (size_t k = 0; k < l.states; ++k) INFER_TRY(Advance(k, args[k], out[k], true));
    INFER_TRY(AddTo(scans, out, l.states));
  }
  std::vector<ValueType> never;
  if (length == 0) {
    std::vector<ValueType> own;
    for (size_t i = 0; i < l.states; ++i) own.push_back(args[i].tensor().type());
    for (size_t i = 0; i < l.scans; ++i) {
      const Tensor& t = inputs[l.states + i]->tensor();
      Dims dims = t.dims();
      dims.erase(dims.begin() + axes[i]);
      own.push_back(TensorType{t.dtype(), Shape(dims)});
    }
    never = ResultTypes(body, own, inputs.subspan(operands));
  }
  std::vector<Datum> state(std::make_move_iterator(args.begin()),
                           std::make_move_iterator(args.begin() + static_cast<int64_t>(l.states)));
  for (size_t k = 0; k < scans.size(); ++k) {
    INFER_ASSIGN(Tensor t,
                 never.empty() ? scans[k].Take() : StackOfNone(l.out_axes[k], never[l.states + k]));
    state.emplace_back(std::move(t));
  }
  state.resize(node.outputs().size());
  return state;
}

/// A result that the graph says is no optional, but one branch, or the operand of a loop without
/// iterations, gives as one: what it holds.
Status OpenOptionals(const Node& node, std::vector<Datum>& outputs) {
  for (size_t i = 0; i < outputs.size() && i < node.outputs().size(); ++i) {
    const Value* v = node.output(i);
    if (!v || v->type() == ValueType() || v->type().kind() == ValueType::Kind::kOptional) continue;
    if (!outputs[i].is_optional()) continue;
    const std::shared_ptr<const Datum> held = outputs[i].optional().value;
    if (!held)
      return InvalidModel(
          Cat("output ", i, " is an empty optional, the model says ", ToString(v->type())));
    outputs[i] = *held;
  }
  return {};
}

}  // namespace

std::vector<Datum> WithCaptures(std::vector<Datum> own, std::span<const Datum* const> captures) {
  for (const Datum* d : captures) own.push_back(d ? *d : Datum());
  return own;
}

Status EvaluateSubgraph(const SubgraphCall& call) {
  INFER_ASSIGN(call.results, Evaluate(call.graph, WithCaptures({call.own.begin(), call.own.end()},
                                                               call.captures)));
  return {};
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
  const SubgraphRunner on_reference = EvaluateSubgraph;
  const SubgraphRunner& run = given ? given : on_reference;
  auto out = node.op() == "If"              ? EvaluateIf(node, inputs, run)
             : node.op() == "Loop"          ? EvaluateLoop(node, inputs, operands, run)
             : node.op() == "SequenceMap"   ? EvaluateSequenceMap(node, inputs, operands, run)
             : node.op() == "FlexAttention" ? EvaluateFlexAttention(node, inputs, operands)
                                            : EvaluateScan(node, inputs, operands, run);
  if (!out.ok()) return out.status().In(Describe(node));
  Status fits = CheckRanks(*out);
  if (fits.ok()) fits = OpenOptionals(node, *out);
  if (!fits.ok()) return std::move(fits).In(Describe(node));
  return out;
}

}  // namespace infer
