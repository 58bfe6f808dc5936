/// Evaluation of operators that own subgraphs: which branch, how often, slices and stacks.
#include <algorithm>
#include <cstring>

#include "lib/ir/flex_attention.h"
#include "lib/ir/inference.h"
#include "lib/ir/scan_layout.h"
#include "lib/support/stop.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

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

/// Stacks equally shaped tensors, at least one, along a new axis.
Result<Tensor> Stack(const std::vector<Tensor>& parts, int64_t axis_attr) {
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
  const Dims number_dims = LoopScalarDims(body, 0), cond_dims = LoopScalarDims(body, 1);
  for (int64_t i = 0; i < limit && cond; ++i) {
    INFER_TRY(CheckStop());
    std::vector<Datum> args = {Tensor::Of<int64_t>(number_dims, {i}),
                               Tensor::Of<bool>(cond_dims, {cond != 0})};
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
  std::vector<ValueType> never;
  if (!scans.empty() && scans[0].empty()) {
    std::vector<ValueType> own = {TensorType{DType::kI64, Shape(number_dims)},
                                  TensorType{DType::kBool, Shape(cond_dims)}};
    for (size_t k = 0; k < carried; ++k)
      own.push_back(TypeOr(body.inputs()[k + 2]->type(), state[k]));
    never = ResultTypes(body, own, captures);
  }
  for (size_t k = 0; k < scans.size(); ++k) {
    INFER_ASSIGN(Tensor t,
                 never.empty() ? Stack(scans[k], 0) : StackOfNone(0, never[carried + 1 + k]));
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
    INFER_TRY(CheckStop());
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
  std::vector<ValueType> never;
  if (length == 0) {
    std::vector<ValueType> own;
    for (const Datum& d : state) own.push_back(d.tensor().type());
    for (size_t i = 0; i < l.scans; ++i) {
      const Tensor& t = inputs[l.states + i]->tensor();
      Dims dims = t.dims();
      dims.erase(dims.begin() + axes[i]);
      own.push_back(TensorType{t.dtype(), Shape(dims)});
    }
    never = ResultTypes(body, own, inputs.subspan(operands));
  }
  for (size_t k = 0; k < scans.size(); ++k) {
    if (l.out_directions[k]) std::reverse(scans[k].begin(), scans[k].end());
    INFER_ASSIGN(Tensor t, never.empty() ? Stack(scans[k], l.out_axes[k])
                                         : StackOfNone(l.out_axes[k], never[l.states + k]));
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
  INFER_TRY(OpenOptionals(node, *out).In(Describe(node)));
  return out;
}

}  // namespace infer
