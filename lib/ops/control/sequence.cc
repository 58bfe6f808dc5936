/// Sequences and optionals of values. SequenceMap owns a subgraph and is not here.
#include <algorithm>

#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

constexpr TypeSet kBoolOnly{DType::kBool};

/// The element type of sequence operand i; unknown when the operand's type is.
ValueType ElementOf(const OpCall& call, size_t i) {
  const ValueType& t = call.type(i);
  return t.kind() == ValueType::Kind::kSequence ? t.element() : ValueType();
}

/// InvalidModel unless operand i is a sequence, or nothing is known of it.
Status CheckSequence(const OpCall& call, size_t i) {
  const ValueType& t = call.type(i);
  if (t.kind() == ValueType::Kind::kSequence || t == ValueType()) return {};
  return InvalidModel(Cat("operand ", i, " is ", ToString(t), ", not a sequence"));
}

/// `position` as an index into [0, n); negative ones count from the end.
Result<size_t> PositionOf(const Tensor& position, size_t size, size_t limit) {
  if (position.num_elements() != 1) return InvalidModel("position is not a scalar");
  const auto n = static_cast<int64_t>(size);
  int64_t i = position.IntAt(0);
  if (i < -n || i >= static_cast<int64_t>(limit))
    return InvalidModel(Cat("position ", i, " in a sequence of ", n));
  if (i < 0) i += n;
  return static_cast<size_t>(i);
}

Status InferConstruct(OpCall& call) {
  if (call.num_inputs() == 0) return InvalidModel("no element, so no type");
  ValueType element = call.type(0);
  for (size_t i = 1; i < call.num_inputs(); ++i) {
    if (call.dtype(i) != call.dtype(0))
      return InvalidModel(Cat("elements are ", Name(call.dtype(0)), " and ", Name(call.dtype(i))));
    element = JoinFacts(element, call.type(i));
  }
  call.SetOut(0, ValueType::Sequence(std::move(element)));
  return {};
}

Status RunConstruct(OpRun& run) {
  SequenceDatum s;
  for (size_t i = 0; i < run.num_inputs(); ++i) s.elements.push_back(run.datum(i));
  run.Set(0, std::move(s));
  return {};
}

Status InferEmpty(OpCall& call) {
  const int64_t t = call.HasAttr("dtype") ? call.Int("dtype") : 1;
  if (t < 1 || t >= kNumDTypes) return InvalidModel(Cat("no element type ", t));
  call.SetOut(0, ValueType::Sequence(TensorType{static_cast<DType>(t), Shape()}));
  return {};
}

Status RunEmpty(OpRun& run) {
  run.Set(0, SequenceDatum{});
  return {};
}

Status InferAt(OpCall& call) {
  INFER_TRY(CheckSequence(call, 0));
  call.SetOut(0, ElementOf(call, 0));
  return {};
}

Status RunAt(OpRun& run) {
  const auto& s = run.datum(0).sequence();
  INFER_ASSIGN(const size_t at, PositionOf(run.in(1), s.size(), s.size()));
  run.Set(0, s[at]);
  return {};
}

Status InferErase(OpCall& call) {
  INFER_TRY(CheckSequence(call, 0));
  call.SetOut(0, call.type(0));
  return {};
}

Status RunErase(OpRun& run) {
  SequenceDatum s{run.datum(0).sequence()};
  if (s.elements.empty()) return InvalidModel("the sequence is empty");
  size_t at = s.elements.size() - 1;
  if (run.has(1)) {
    INFER_ASSIGN(at, PositionOf(run.in(1), s.elements.size(), s.elements.size()));
  }
  s.elements.erase(s.elements.begin() + static_cast<std::ptrdiff_t>(at));
  run.Set(0, std::move(s));
  return {};
}

Status InferInsert(OpCall& call) {
  INFER_TRY(CheckSequence(call, 0));
  call.SetOut(0, ValueType::Sequence(JoinFacts(ElementOf(call, 0), call.type(1))));
  return {};
}

Status RunInsert(OpRun& run) {
  SequenceDatum s{run.datum(0).sequence()};
  size_t at = s.elements.size();
  if (run.has(2)) {
    INFER_ASSIGN(at, PositionOf(run.in(2), s.elements.size(), s.elements.size() + 1));
  }
  s.elements.insert(s.elements.begin() + static_cast<std::ptrdiff_t>(at), run.datum(1));
  run.Set(0, std::move(s));
  return {};
}

Status InferLength(OpCall& call) {
  INFER_TRY(CheckSequence(call, 0));
  call.SetOut(0, DType::kI64, Shape(Dims{}));
  return {};
}

Status RunLength(OpRun& run) {
  run.Set(0, Tensor::Scalar<int64_t>(static_cast<int64_t>(run.datum(0).sequence().size())));
  return {};
}

/// The extent of all parts that input 1 makes of `whole`; unknown where they differ.
Dim PartOf(const OpCall& call, const Dim& whole) {
  const auto sizes = call.elements(1);
  if (!sizes || sizes->empty() || !call.shape(1).has_rank()) return {};
  const Dim& first = sizes->front();
  if (call.shape(1).rank() == 0)
    return first.is_static() && first.value() > 0 && !whole.ExactDiv(first).is_unknown() ? first
                                                                                         : Dim();
  return std::all_of(sizes->begin(), sizes->end(), [&](const Dim& d) { return d == first; })
             ? first
             : Dim();
}

Status InferSplitToSequence(OpCall& call) {
  const Shape& s = call.shape(0);
  Shape element;
  if (s.has_rank()) {
    INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), s.rank()));
    std::vector<Dim> dims = s.dims();
    if (!call.has_input(1) && call.Int("keepdims") == 0)
      dims.erase(dims.begin() + axis);
    else
      dims[static_cast<size_t>(axis)] = call.has_input(1) ? PartOf(call, s[axis]) : Dim(1);
    element = Shape(std::move(dims));
  }
  call.SetOut(0, ValueType::Sequence(TensorType{call.dtype(0), std::move(element)}));
  return {};
}

/// Extents of the parts along the axis: all of one size (the last may be smaller), or as listed.
Result<std::vector<int64_t>> PartSizes(const Tensor* split, int64_t extent) {
  std::vector<int64_t> sizes;
  if (split && split->rank() > 0) {
    sizes = split->ToInts();
    int64_t left = extent;
    for (int64_t n : sizes) {
      if (n < 0 || n > left) return InvalidModel(Cat("split does not add up to ", extent));
      left -= n;
    }
    if (left != 0) return InvalidModel(Cat("split does not add up to ", extent));
    return sizes;
  }
  const int64_t part = split ? split->IntAt(0) : 1;
  if (part < 1) return InvalidModel(Cat("split is ", part));
  for (int64_t left = extent; left > 0; left -= sizes.back()) sizes.push_back(std::min(part, left));
  return sizes;
}

Status RunSplitToSequence(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), x.rank()));
  INFER_ASSIGN(const auto sizes, PartSizes(run.in_or_null(1), x.dim(axis)));
  const bool squeeze = !run.has(1) && run.Int("keepdims") == 0;
  StridedView from = Dense(x.dims());
  SequenceDatum s;
  for (int64_t n : sizes) {
    Dims dims = x.dims();
    dims[static_cast<size_t>(axis)] = n;
    Tensor part(x.dtype(), dims);
    CopyStrided(x, from, part, Dense(dims), dims);
    from.offset += n * from.strides[static_cast<size_t>(axis)];
    if (squeeze) dims.erase(dims.begin() + axis);
    s.elements.push_back(part.Reshaped(std::move(dims)));
  }
  run.Set(0, std::move(s));
  return {};
}

Status InferConcatFromSequence(OpCall& call) {
  INFER_TRY(CheckSequence(call, 0));
  const ValueType element = ElementOf(call, 0);
  if (!element.is_tensor()) return InvalidModel("elements are no tensors");
  const Shape& s = element.tensor().shape;
  Shape out;
  if (s.has_rank()) {
    const bool stack = call.Int("new_axis") != 0;
    INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), s.rank() + (stack ? 1 : 0)));
    std::vector<Dim> dims = s.dims();
    if (stack)
      dims.insert(dims.begin() + axis, Dim());
    else
      dims[static_cast<size_t>(axis)] = Dim();
    out = Shape(std::move(dims));
  }
  call.SetOut(0, element.tensor().dtype, std::move(out));
  return {};
}

Status RunConcatFromSequence(OpRun& run) {
  const auto& s = run.datum(0).sequence();
  if (s.empty()) return InvalidModel("the sequence is empty");
  const bool stack = run.Int("new_axis") != 0;
  const Tensor& first = s[0].tensor();
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), first.rank() + (stack ? 1 : 0)));
  std::vector<Tensor> parts;
  Dims dims;
  for (const Datum& d : s) {
    const Tensor& t = d.tensor();
    Dims part = t.dims();
    if (stack && axis <= t.rank()) part.insert(part.begin() + axis, 1);
    if (dims.empty()) {
      dims = part;
      dims[static_cast<size_t>(axis)] = 0;
    }
    bool fits = t.dtype() == first.dtype() && part.size() == dims.size();
    for (size_t k = 0; fits && k < dims.size(); ++k)
      fits = static_cast<int>(k) == axis || part[k] == dims[k];
    if (!fits)
      return InvalidModel(Cat("cannot join ", ToString(first.type()), " and ", ToString(t.type())));
    dims[static_cast<size_t>(axis)] += part[static_cast<size_t>(axis)];
    parts.push_back(t.Reshaped(std::move(part)));
  }
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, first.dtype(), dims));
  StridedView to = Dense(dims);
  for (const Tensor& part : parts) {
    CopyStrided(part, Dense(part.dims()), *y, to, part.dims());
    to.offset += part.dim(axis) * to.strides[static_cast<size_t>(axis)];
  }
  return {};
}

Status InferOptional(OpCall& call) {
  if (call.has_input(0)) {
    call.SetOut(0, ValueType::Optional(call.type(0)));
    return {};
  }
  if (!call.HasAttr("type")) return InvalidModel("has neither an operand nor a type");
  call.SetOut(0, ValueType::Optional(call.Attr<ValueType>("type")));
  return {};
}

Status RunOptional(OpRun& run) {
  run.Set(
      0, run.has(0) ? OptionalDatum{std::make_shared<const Datum>(run.datum(0))} : OptionalDatum{});
  return {};
}

Status InferGetElement(OpCall& call) {
  const ValueType& t = call.type(0);
  call.SetOut(0, t.kind() == ValueType::Kind::kOptional ? t.element() : t);
  return {};
}

Status RunGetElement(OpRun& run) {
  const Datum& d = run.datum(0);
  if (d.is_optional() && !d.optional().value) return InvalidModel("the optional is empty");
  run.Set(0, d.is_optional() ? *d.optional().value : d);
  return {};
}

Status InferHasElement(OpCall& call) {
  call.SetOut(0, DType::kBool, Shape(Dims{}));
  return {};
}

Status RunHasElement(OpRun& run) {
  const bool has = run.has(0) && (!run.datum(0).is_optional() || run.datum(0).optional().value);
  run.Set(0, Tensor::Scalar<bool>(has));
  return {};
}

/// Values are passed on; at most a list of them is new.
Cost NoCost(const OpCall&) { return {}; }

OpDef SequenceOp(std::string_view name, std::string_view doc, std::vector<ParamDef> inputs,
                 ParamDef output, std::vector<AttrDef> attrs, OpDef::InferFn infer,
                 OpDef::ReferenceFn run, std::string_view example) {
  return OpDef{
      .name = name,
      .doc = doc,
      .traits = Trait::kContainer,
      .since = 11,
      .versions = {11},
      .inputs = std::move(inputs),
      .outputs = {output},
      .attrs = std::move(attrs),
      .constraints = {{"T", kMovable}, {"I", kIndexTypes}, {"B", kBoolOnly}},
      .tolerance = 0,
      .infer = infer,
      .reference = run,
      .cost = NoCost,
      .example = example,
  };
}

}  // namespace

std::span<const OpDef> SequenceOps() {
  static const std::vector<OpDef> ops = [] {
    const AttrDef axis{"axis", AttrKind::kInt, int64_t{0}};
    const ParamDef seq{"input_sequence", "seq(T)"}, out_seq{"output_sequence", "seq(T)"};
    const ParamDef position{"position", "I", Arity::kOptional};
    std::vector<OpDef> v;
    v.push_back(SequenceOp("SequenceConstruct", "A sequence of the operands.",
                           {{"inputs", "T", Arity::kVariadic}}, out_seq, {}, InferConstruct,
                           RunConstruct,
                           R"(graph g(x: f32[2], y: f32[3]) -> (n) {
                             s = SequenceConstruct(x, y) n = SequenceLength(s) })"));
    v.push_back(SequenceOp("SequenceEmpty", "A sequence without elements.", {},
                           {"output", "seq(T)"}, {{"dtype", AttrKind::kInt}}, InferEmpty, RunEmpty,
                           R"(graph g() -> (n) {
                             s = SequenceEmpty() {dtype=7} n = SequenceLength(s) })"));
    v.push_back(SequenceOp("SequenceAt", "The element at a position.", {seq, {"position", "I"}},
                           {"tensor", "T"}, {}, InferAt, RunAt,
                           R"(graph g(x: f32[2], y: f32[2]) -> (z) {
                             s = SequenceConstruct(x, y) i = const i64[] {-1}
                             z = SequenceAt(s, i) })"));
    v.push_back(SequenceOp("SequenceErase", "The sequence without one element.", {seq, position},
                           out_seq, {}, InferErase, RunErase,
                           R"(graph g(x: f32[2], y: f32[3]) -> (n) {
                             s = SequenceConstruct(x, y) e = SequenceErase(s)
                             n = SequenceLength(e) })"));
    v.push_back(SequenceOp("SequenceInsert", "The sequence with one element more.",
                           {seq, {"tensor", "T"}, position}, out_seq, {}, InferInsert, RunInsert,
                           R"(graph g(x: f32[2], y: f32[3]) -> (n) {
                             s = SequenceConstruct(x) e = SequenceInsert(s, y)
                             n = SequenceLength(e) })"));
    v.push_back(SequenceOp("SequenceLength", "The number of elements.", {seq}, {"length", "i64"},
                           {}, InferLength, RunLength,
                           R"(graph g(x: f32[2]) -> (n) {
                             s = SequenceConstruct(x, x) n = SequenceLength(s) })"));
    v.push_back(SequenceOp("SplitToSequence", "The parts of a tensor along an axis.",
                           {{"input", "T"}, {"split", "I", Arity::kOptional}}, out_seq,
                           {axis, {"keepdims", AttrKind::kInt, int64_t{1}}}, InferSplitToSequence,
                           RunSplitToSequence,
                           R"(graph g(x: f32[5,2]) -> (y) { k = const i64[] {2}
                             s = SplitToSequence(x, k) y = ConcatFromSequence(s) {axis=0} })"));
    v.back().versions = {11, 24};
    v.back().cost = nullptr;
    v.push_back(
        SequenceOp("ConcatFromSequence", "The elements joined along an axis or stacked.", {seq},
                   {"concat_result", "T"},
                   {{"axis", AttrKind::kInt, {}, true}, {"new_axis", AttrKind::kInt, int64_t{0}}},
                   InferConcatFromSequence, RunConcatFromSequence,
                   R"(graph g(x: f32[2], y: f32[2]) -> (z) {
                             s = SequenceConstruct(x, y)
                             z = ConcatFromSequence(s) {axis=0, new_axis=1} })"));
    v.back().cost = nullptr;
    v.push_back(SequenceOp("Optional", "An optional holding the operand, or empty.",
                           {{"input", "V", Arity::kOptional}}, {"output", "optional(V)"},
                           {{"type", AttrKind::kType}}, InferOptional, RunOptional,
                           R"(graph g(x: f32[2]) -> (y) {
                             o = Optional(x) y = OptionalGetElement(o) })"));
    v.push_back(SequenceOp("OptionalGetElement", "What an optional holds.", {{"input", "O"}},
                           {"output", "V"}, {}, InferGetElement, RunGetElement,
                           R"(graph g(x: f32[2]) -> (y) {
                             o = Optional(x) y = OptionalGetElement(o) })"));
    v.push_back(SequenceOp("OptionalHasElement", "Whether an optional holds something.",
                           {{"input", "O", Arity::kOptional}}, {"output", "B"}, {}, InferHasElement,
                           RunHasElement,
                           R"(graph g(x: f32[2]) -> (y) {
                             o = Optional(x) y = OptionalHasElement(o) })"));
    for (size_t i = v.size() - 3; i < v.size(); ++i) {
      v[i].since = 15;
      v[i].constraints = {{"V", kMovable, true}, {"O", kMovable, true}, {"B", kBoolOnly}};
      v[i].versions = {15, 18, 28};
    }
    v[v.size() - 3].versions = {15, 28};
    return v;
  }();
  return ops;
}

}  // namespace infer
