#include "lib/ops/common.h"

namespace infer {
namespace {

bool IsNarrowFloat(DType t) { return IsFloat(t) && BitWidth(t) <= 16; }

/// Merges dimension d into d-1 where every operand steps through both in one stride.
bool CanMerge(const Dims& dims, const std::vector<Dims>& strides, size_t outer, size_t inner) {
  return std::all_of(strides.begin(), strides.end(),
                     [&](const Dims& s) { return s[outer] == s[inner] * dims[inner]; });
}

}  // namespace

Status InferSame(OpCall& call) {
  call.SetOut(0, call.type(0));
  return {};
}

Result<Shape> BroadcastInputs(const OpCall& call) {
  Shape shape(std::vector<Dim>{});
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    if (!call.has_input(i)) continue;
    INFER_ASSIGN(shape, Broadcast(shape, call.shape(i)));
  }
  return shape;
}

Status InferBroadcast(OpCall& call) {
  INFER_ASSIGN(Shape shape, BroadcastInputs(call));
  call.SetOut(0, call.dtype(0), std::move(shape));
  return {};
}

Status InferPredicate(OpCall& call) {
  INFER_ASSIGN(Shape shape, BroadcastInputs(call));
  call.SetOut(0, DType::kBool, std::move(shape));
  return {};
}

Status CheckRank(const OpCall& call, size_t i, int least, int most) {
  if (!call.has_input(i) || !call.shape(i).has_rank()) return {};
  const int rank = call.shape(i).rank();
  if (rank >= least && rank <= most) return {};
  return InvalidModel(Cat(call.def().name, ": input ", i, " has shape ", call.shape(i).ToString(),
                          ", its rank must be ", least == most ? "" : "at least ", least,
                          most < (1 << 20) && most != least ? Cat(" and at most ", most) : ""));
}

Shape WithDim(const Shape& shape, int axis, Dim d) {
  std::vector<Dim> dims = shape.dims();
  dims[static_cast<size_t>(axis)] = std::move(d);
  return Shape(std::move(dims));
}

Result<std::vector<int>> NormalizeAxes(std::span<const int64_t> axes, int rank) {
  if (axes.size() > static_cast<size_t>(rank))
    return InvalidModel(Cat(axes.size(), " axes for an operand of rank ", rank));
  std::vector<int> out;
  for (int64_t a : axes) {
    INFER_ASSIGN(const int axis, NormalizeAxis(a, rank));
    if (std::find(out.begin(), out.end(), axis) != out.end())
      return InvalidModel(Cat("axis ", a, " stands twice"));
    out.push_back(axis);
  }
  return out;
}

int64_t StaticElements(const Shape& shape) {
  if (!shape.is_static()) return 0;
  return CheckedNumElements(shape.static_dims()).value_or(0);
}

StridedLoop::StridedLoop(const Dims& dims, const std::vector<Dims>& strides,
                         std::vector<int64_t> starts)
    : strides_(strides.size()), starts_(std::move(starts)), size_(NumElements(dims)) {
  starts_.resize(strides.size());
  Dims kept;  // without extents of 1
  std::vector<Dims> steps(strides.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    kept.push_back(dims[d]);
    for (size_t k = 0; k < strides.size(); ++k) steps[k].push_back(strides[k][d]);
  }
  for (size_t d = 0; d < kept.size(); ++d) {
    if (d > 0 && CanMerge(kept, steps, d - 1, d)) {
      dims_.back() *= kept[d];
      for (size_t k = 0; k < steps.size(); ++k) strides_[k].back() = steps[k][d];
    } else {
      dims_.push_back(kept[d]);
      for (size_t k = 0; k < steps.size(); ++k) strides_[k].push_back(steps[k][d]);
    }
  }
  if (dims_.empty()) {
    dims_.push_back(1);
    for (Dims& s : strides_) s.push_back(1);
  }
}

void StridedLoop::ForEachRow(int64_t begin, int64_t end, Row row) const {
  if (begin >= end) return;
  const size_t rank = dims_.size(), operands = strides_.size();
  const int64_t inner = dims_.back();
  std::vector<int64_t> index(rank), offsets = starts_;
  int64_t rest = begin;
  for (size_t d = rank; d-- > 0;) {
    index[d] = rest % dims_[d];
    rest /= dims_[d];
    for (size_t k = 0; k < operands; ++k) offsets[k] += index[d] * strides_[k][d];
  }
  for (int64_t out = begin;;) {
    const int64_t n = std::min(inner - index[rank - 1], end - out);
    row(out, static_cast<const int64_t*>(offsets.data()), n);
    out += n;
    if (out >= end) return;
    for (size_t k = 0; k < operands; ++k) offsets[k] -= index[rank - 1] * strides_[k][rank - 1];
    index[rank - 1] = 0;
    for (size_t d = rank - 1; d-- > 0;) {
      for (size_t k = 0; k < operands; ++k) offsets[k] += strides_[k][d];
      if (++index[d] < dims_[d]) break;
      for (size_t k = 0; k < operands; ++k) offsets[k] -= dims_[d] * strides_[k][d];
      index[d] = 0;
    }
  }
}

StridedLoop StridedLoop::Broadcast(const Dims& dims, const Dims& a, const Dims& b) {
  const Dims operands[] = {a, b};
  return Broadcast(dims, operands);
}

void StridedLoop::Run(Row row) const {
  ParallelFor(size_, kElementGrain, [&](int64_t b, int64_t e) { ForEachRow(b, e, row); });
}

StridedLoop StridedLoop::Broadcast(const Dims& dims, std::span<const Dims> operands) {
  std::vector<Dims> strides;
  for (const Dims& o : operands) {
    INFER_CHECK(o.size() <= dims.size());
    Dims s(dims.size(), 0);
    const Dims own = Strides(o);
    const size_t pad = dims.size() - o.size();
    for (size_t d = 0; d < o.size(); ++d) {
      INFER_CHECK(o[d] == dims[pad + d] || o[d] == 1);
      if (o[d] != 1) s[pad + d] = own[d];
    }
    strides.push_back(std::move(s));
  }
  return StridedLoop(dims, strides);
}

Tensor Widen(const Tensor& t) {
  if (!IsNarrowFloat(t.dtype())) return t;
  Tensor out(DType::kF32, t.dims());
  const auto y = out.mutable_data<float>();
  if (t.dtype() == DType::kF16)
    MapUnary(t.data<Half>(), y, [](Half h) { return static_cast<float>(h); });
  else if (t.dtype() == DType::kBF16)
    MapUnary(t.data<BFloat16>(), y, [](BFloat16 h) { return static_cast<float>(h); });
  else
    for (int64_t i = 0; i < t.num_elements(); ++i)
      y[static_cast<size_t>(i)] = static_cast<float>(t.At(i));
  return out;
}

Tensor Narrow(const Tensor& t, DType to) {
  if (to == t.dtype()) return t;
  Tensor out(to, t.dims());
  if (to == DType::kF16)
    MapUnary(t.data<float>(), out.mutable_data<Half>(),
             [](float v) { return Half{FloatToF16(v)}; });
  else if (to == DType::kBF16)
    MapUnary(t.data<float>(), out.mutable_data<BFloat16>(),
             [](float v) { return BFloat16{FloatToBF16(v)}; });
  else
    return t.Cast(to);
  return out;
}

Status RunWide(OpRun& run, OpDef::ReferenceFn kernel) {
  bool narrow = false;
  for (size_t i = 0; i < run.num_inputs() && !narrow; ++i)
    narrow = run.has(i) && run.datum(i).is_tensor() && IsNarrowFloat(run.in(i).dtype());
  if (!narrow) return kernel(run);
  std::vector<Datum> wide(run.num_inputs());
  std::vector<const Datum*> inputs(run.num_inputs(), nullptr);
  for (size_t i = 0; i < run.num_inputs(); ++i) {
    if (!run.has(i)) continue;
    inputs[i] = &run.datum(i);
    if (!run.datum(i).is_tensor()) continue;
    wide[i] = Datum(Widen(run.in(i)));
    inputs[i] = &wide[i];
  }
  OpRun inner(run.call(), inputs, run.num_outputs());
  INFER_TRY(kernel(inner));
  for (size_t i = 0; i < run.num_outputs(); ++i) {
    Datum& y = inner.outputs()[i];
    const bool known = i < run.call().num_outputs() && run.call().out_type(i).is_tensor() &&
                       run.call().out(i).dtype != DType::kUndefined;
    const DType to = known ? run.call().out(i).dtype : run.in(0).dtype();
    if (y.is_tensor() && y.tensor().dtype() == DType::kF32) y = Datum(Narrow(y.tensor(), to));
    run.Set(i, std::move(y));
  }
  return {};
}

Status CheckSameTypes(const OpRun& run, size_t first, size_t last) {
  for (size_t i = first + 1; i < std::min(last, run.num_inputs()); ++i)
    if (run.has(i) && run.in(i).dtype() != run.in(first).dtype())
      return InvalidModel(Cat(run.call().def().name, ": inputs are ", Name(run.in(first).dtype()),
                              " and ", Name(run.in(i).dtype())));
  return {};
}

int64_t IntAttrOr(const NodeSpec& node, std::string_view name, int64_t absent) {
  const auto it = node.attrs.find(name);
  const auto* v = it == node.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return v ? *v : absent;
}

std::vector<int64_t> IntsAttrOr(const NodeSpec& node, std::string_view name,
                                const std::vector<int64_t>& absent) {
  const auto it = node.attrs.find(name);
  const auto* v = it == node.attrs.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
  return v ? *v : absent;
}

float FloatAttrOr(const NodeSpec& node, std::string_view name, float absent) {
  const auto it = node.attrs.find(name);
  const auto* v = it == node.attrs.end() ? nullptr : std::get_if<float>(&it->second);
  return v ? *v : absent;
}

void DropAttr(NodeSpec& node, std::string_view name) {
  if (const auto it = node.attrs.find(name); it != node.attrs.end()) node.attrs.erase(it);
}

NodeSpec MakeSpec(std::string_view op, const NodeSpec& origin, std::vector<std::string> inputs,
                  std::vector<std::string> outputs, AttrMap attrs) {
  return {"",
          std::string(op),
          origin.name.empty() ? "" : Cat(origin.name, "/", op),
          std::move(inputs),
          std::move(outputs),
          std::move(attrs)};
}

std::string ScalarLike(double value, const std::string& like, const NodeSpec& origin,
                       LiftContext& out) {
  const ValueType* type = out.Type(like);
  const DType dtype = type && type->is_tensor() ? type->tensor().dtype : DType::kUndefined;
  if (IsFloat(dtype) || IsInteger(dtype)) {
    Tensor t(dtype, {});
    t.Set(0, value);
    return out.Constant(std::move(t));
  }
  std::string y = out.Fresh("like");
  const std::string c = out.Constant(Tensor::Scalar(static_cast<float>(value)));
  out.Emit(MakeSpec("CastLike", origin, {c, like}, {y}));
  return y;
}

Status LiftConsumedInputs(NodeSpec node, int, LiftContext& out) {
  DropAttr(node, "consumed_inputs");
  out.Emit(std::move(node));
  return {};
}

Status LiftAxisBroadcast(NodeSpec node, int opset, LiftContext& out) {
  if (opset >= 7 || node.inputs.size() != 2) {
    out.Emit(std::move(node));
    return {};
  }
  const bool has_axis = node.attrs.contains("axis");
  const int64_t axis = IntAttrOr(node, "axis", 0);
  const bool broadcast = IntAttrOr(node, "broadcast", 0) != 0;
  for (const char* name : {"axis", "broadcast", "consumed_inputs"}) DropAttr(node, name);
  if (!has_axis || !broadcast) {
    out.Emit(std::move(node));
    return {};
  }
  const ValueType* a = out.Type(node.inputs[0]);
  const ValueType* b = out.Type(node.inputs[1]);
  if (!a || !b || !a->is_tensor() || !b->is_tensor() || !a->tensor().shape.has_rank() ||
      !b->tensor().shape.has_rank())
    return Unsupported(Cat(node.op, " '", node.name, "': attribute axis of opset ", opset,
                           " needs operands of known rank"));
  const int rank_a = a->tensor().shape.rank(), rank_b = b->tensor().shape.rank();
  INFER_ASSIGN(const int at, NormalizeAxis(axis, rank_a));
  std::vector<int64_t> trailing;
  for (int d = rank_b; d < rank_a - at; ++d) trailing.push_back(d);
  if (!trailing.empty()) {
    const std::string wide = out.Fresh(node.inputs[1]);
    out.Emit(MakeSpec("Unsqueeze", node, {node.inputs[1], out.Constant(Tensor::Int64s(trailing))},
                      {wide}));
    node.inputs[1] = wide;
  }
  out.Emit(std::move(node));
  return {};
}

void AttrToInput(NodeSpec& node, std::string_view attr, size_t at, LiftContext& out) {
  const auto it = node.attrs.find(attr);
  if (it == node.attrs.end()) return;
  const auto* ints = std::get_if<std::vector<int64_t>>(&it->second);
  if (!ints) return;  // the schema check names the wrong kind
  if (node.inputs.size() <= at) node.inputs.resize(at + 1);
  node.inputs[at] = out.Constant(Tensor::Int64s(*ints));
  node.attrs.erase(it);
}

Status InputToAttr(NodeSpec& node, std::string_view attr, size_t at, LiftContext& out) {
  if (node.inputs.size() <= at || node.inputs[at].empty()) return {};
  const Tensor* value = out.ConstantValue(node.inputs[at]);
  if (!value)
    return Unsupported(Cat(node.op, " '", node.name, "': '", attr,
                           "' is computed at run time; it needs a newer opset"));
  // Else the attribute would come back as another tensor than this.
  if (value->rank() != 1 || value->dtype() != DType::kI64)
    return Unsupported(Cat(node.op, " '", node.name, "': '", attr, "' is ", Name(value->dtype()),
                           ToString(value->dims()), ", not a list of i64; it needs a newer opset"));
  node.attrs[std::string(attr)] = value->ToInts();
  node.inputs.resize(at);
  return {};
}

}  // namespace infer
