/// ConstantOfShape, Range, EyeLike, OneHot, Trilu: tensors made from parameters.
#include <algorithm>
#include <cmath>

#include "lib/ops/declared_rank.h"
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr TypeSet kBool1{DType::kBool};

Tensor FillValue(const OpCall& call) {
  return call.HasAttr("value") ? call.Attr<Tensor>("value") : Tensor::Of<float>({1}, {0.0f});
}

Status InferConstantOfShape(OpCall& call) {
  const Tensor value = FillValue(call);
  if (value.num_elements() != 1) return InvalidModel("value does not have one element");
  const Shape& list = call.shape(0);
  if (list.has_rank() && list.rank() > 1)
    return InvalidModel(Cat("the shape is a tensor of rank ", list.rank(), ", not a list"));
  const auto dims = call.elements(0);
  if (!dims) {
    INFER_ASSIGN(Shape out, UnknownOfDeclaredRank(LengthOf(call, 0)));
    call.SetOut(0, value.dtype(), std::move(out));
    return {};
  }
  for (const Dim& d : *dims)
    if (d.is_static() && d.value() < 0) return InvalidModel(Cat("shape has ", d.value()));
  call.SetOut(0, value.dtype(), Shape(*dims));
  const Dim n = Shape(*dims).num_elements();
  if (dims->size() <= 1 && n.is_static() && n.value() <= 64 && IsInteger(value.dtype()))
    call.SetElements(0,
                     std::vector<Dim>(static_cast<size_t>(n.value()), ElementsOf(value).front()));
  return {};
}

Status RunConstantOfShape(OpRun& run) {
  const Tensor value = FillValue(run.call());
  if (value.num_elements() != 1) return InvalidModel("value does not have one element");
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, value.dtype(), run.in(0).ToInts()));
  Fill(*y, value);
  return {};
}

/// max(ceil((limit - start) / delta), 0). InvalidModel when delta is 0 or the result is not finite.
Result<int64_t> RangeCount(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (start.num_elements() != 1 || limit.num_elements() != 1 || delta.num_elements() != 1)
    return InvalidModel("start, limit and delta are not scalars");
  if (delta.At(0) == 0) return InvalidModel("delta is 0");
  if (IsInteger(start.dtype())) {
    // In two's complement the distance of two int64 always fits uint64.
    const int64_t from = start.IntAt(0), to = limit.IntAt(0), step = delta.IntAt(0);
    if (from == to || (to > from) != (step > 0)) return int64_t{0};
    const auto a = static_cast<uint64_t>(from), b = static_cast<uint64_t>(to);
    const uint64_t distance = to > from ? b - a : a - b;
    const uint64_t stride =
        step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    const uint64_t n = (distance - 1) / stride + 1;
    return n > INT64_MAX ? INT64_MAX : static_cast<int64_t>(n);
  }
  const double n = std::ceil((limit.At(0) - start.At(0)) / delta.At(0));
  if (!std::isfinite(n) || n > 1e15) return InvalidModel("the range does not end");
  return n > 0 ? static_cast<int64_t>(n) : 0;
}

Status InferRange(OpCall& call) {
  Dim n;
  const Tensor *start = call.constant(0), *limit = call.constant(1), *delta = call.constant(2);
  if (start && limit && delta) {
    INFER_ASSIGN(n, RangeCount(*start, *limit, *delta));
  } else if (IsInteger(call.dtype(0))) {
    const auto from = call.elements(0), to = call.elements(1);
    const auto step = KnownInt(call, 2);
    // limit >= start is taken for granted where they are symbolic.
    if (from && to && step && *step > 0 && from->size() == 1 && to->size() == 1) {
      n = (to->front() - from->front()).CeilDiv(*step);
      if (n.is_static() && n.value() < 0) n = 0;
    }
  }
  call.SetOut(0, call.dtype(0), Shape(std::vector<Dim>{n}));
  const auto from = call.elements(0);
  const auto step = KnownInt(call, 2);
  if (from && from->size() == 1 && step && n.is_static() && n.value() <= 64) {
    std::vector<Dim> e;
    for (int64_t i = 0; i < n.value(); ++i) e.push_back(from->front() + Dim(i) * Dim(*step));
    call.SetElements(0, std::move(e));
  }
  return {};
}

/// f16 and bf16 are computed in float (stash_type 1) or, by stash_type 0, rounded at each step.
Status RunRange(OpRun& run) {
  const Tensor &start = run.in(0), &delta = run.in(2);
  INFER_ASSIGN(const int64_t n, RangeCount(start, run.in(1), delta));
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, start.dtype(), {n}));
  const auto fill = [&](auto* out, auto first, auto step) {
    for (int64_t i = 0; i < n; ++i) out[i] = first + static_cast<decltype(first)>(i) * step;
  };
  const auto count = [&](auto* out, uint64_t first, uint64_t step) {
    for (int64_t i = 0; i < n; ++i, first += step)
      out[i] = static_cast<std::remove_reference_t<decltype(*out)>>(first);
  };
  if (IsInteger(start.dtype())) {
    const auto first = static_cast<uint64_t>(start.IntAt(0)),
               step = static_cast<uint64_t>(delta.IntAt(0));
    switch (start.dtype()) {
      case DType::kI64: count(y->mutable_data<int64_t>().data(), first, step); break;
      case DType::kI32: count(y->mutable_data<int32_t>().data(), first, step); break;
      case DType::kI16: count(y->mutable_data<int16_t>().data(), first, step); break;
      default:
        for (int64_t i = 0; i < n; ++i)
          y->SetInt(i, static_cast<int64_t>(first + static_cast<uint64_t>(i) * step));
    }
  } else if (start.dtype() == DType::kF64) {
    fill(y->mutable_data<double>().data(), start.At(0), delta.At(0));
  } else if (start.dtype() == DType::kF32) {
    fill(y->mutable_data<float>().data(), start.data<float>()[0], delta.data<float>()[0]);
  } else {
    const auto first = static_cast<float>(start.At(0)), step = static_cast<float>(delta.At(0));
    for (int64_t i = 0; i < n; ++i) y->Set(i, first + static_cast<float>(i) * step);
  }
  return {};
}

Result<DType> EyeType(const OpCall& call) {
  if (!call.HasAttr("dtype")) return call.dtype(0);
  const int64_t t = call.Int("dtype");
  if (t < 1 || t >= kNumDTypes || !call.def().constraints[1].types.Has(static_cast<DType>(t)))
    return Unsupported(Cat("dtype ", t, " is not possible here"));
  return static_cast<DType>(t);
}

Status InferEyeLike(OpCall& call) {
  if (call.shape(0).has_rank() && call.shape(0).rank() != 2)
    return InvalidModel("the operand is not 2-D");
  INFER_ASSIGN(const DType t, EyeType(call));
  call.SetOut(0, t, call.shape(0).has_rank() ? call.shape(0) : UnknownOfRank(2));
  return {};
}

Status RunEyeLike(OpRun& run) {
  const Tensor& x = run.in(0);
  if (x.rank() != 2) return InvalidModel("the operand is not 2-D");
  INFER_ASSIGN(const DType t, EyeType(run.call()));
  Tensor y = Tensor::Zeros(t, x.dims());
  const int64_t k = run.Int("k");
  for (int64_t i = 0; i < x.dim(0); ++i)
    if (k >= -i && k < x.dim(1) - i) y.Set(i * x.dim(1) + i + k, 1);
  run.Set(0, std::move(y));
  return {};
}

Result<int> OneHotAxis(int64_t axis, int rank) { return NormalizeAxis(axis, rank + 1); }

Status InferOneHot(OpCall& call) {
  if (call.shape(2).has_rank() && !Meet(call.shape(2).num_elements(), Dim(2)).ok())
    return InvalidModel("values are not [off, on]");
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    call.SetOut(0, call.dtype(2), Shape());
    return {};
  }
  INFER_ASSIGN(const int axis, OneHotAxis(call.Int("axis"), s.rank()));
  Dim depth;
  if (const Tensor* t = call.constant(1)) {
    if (t->num_elements() != 1) return InvalidModel("depth does not have one element");
    depth = t->IntAt(0);
  } else if (const auto e = call.elements(1); e && e->size() == 1) {
    depth = e->front();
  }
  std::vector<Dim> dims = s.dims();
  dims.insert(dims.begin() + axis, depth);
  call.SetOut(0, call.dtype(2), Shape(std::move(dims)));
  return {};
}

Status RunOneHot(OpRun& run) {
  const Tensor &indices = run.in(0), &values = run.in(2);
  if (run.in(1).num_elements() != 1) return InvalidModel("depth does not have one element");
  if (values.num_elements() != 2) return InvalidModel("values are not [off, on]");
  const int64_t depth = run.in(1).IntAt(0);
  INFER_ASSIGN(const int axis, OneHotAxis(run.Int("axis"), indices.rank()));
  Dims dims = indices.dims();
  dims.insert(dims.begin() + axis, depth);
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, values.dtype(), std::move(dims)));
  Fill(*y, values);
  const int64_t inner = Product(indices.dims(), axis, indices.rank());
  const RunCopier copy(values, *y, 1);
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    int64_t hot = indices.IntAt(i);
    if (hot < 0) hot += depth;
    if (hot >= 0 && hot < depth) copy(1, (i / inner * depth + hot) * inner + i % inner);
  }
  return {};
}

Status InferTrilu(OpCall& call) {
  if (call.shape(0).has_rank() && call.shape(0).rank() < 2)
    return InvalidModel("the operand has fewer than two axes");
  call.SetOut(0, call.in(0));
  return {};
}

/// Row i of the upper part keeps columns j >= i + k, of the lower part j <= i + k.
Status RunTrilu(OpRun& run) {
  const Tensor& x = run.in(0);
  if (x.rank() < 2) return InvalidModel("the operand has fewer than two axes");
  if (run.has(1) && run.in(1).num_elements() != 1) return InvalidModel("k is not a scalar");
  const int64_t rows = x.dim(-2), columns = x.dim(-1);
  const int64_t k = run.has(1) ? std::clamp(run.in(1).IntAt(0), -rows, columns) : 0;
  const bool upper = run.Int("upper") != 0;
  Tensor y = ZerosOf(x.dtype(), x.dims());
  if (x.num_elements() > 0) {
    const int64_t matrices = x.num_elements() / (rows * columns);
    for (int64_t r = 0; r < matrices * rows; ++r) {
      const int64_t edge = r % rows + k;
      const int64_t begin = std::clamp<int64_t>(upper ? edge : 0, 0, columns);
      const int64_t end = std::clamp<int64_t>(upper ? columns : edge + 1, 0, columns);
      if (begin < end) RunCopier(x, y, end - begin)(r * columns + begin, r * columns + begin);
    }
  }
  run.Set(0, std::move(y));
  return {};
}

/// Every axis of the indices, around the new one.
void ExpandedIndexAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) return;
  const auto axis = NormalizeAxis(call.Int("axis"), s.rank() + 1);
  for (int i = 0; axis.ok() && i < s.rank(); ++i) LinkSame(call, 0, i, 0, i + (i >= *axis), links);
}

}  // namespace

std::span<const OpDef> GenerateOps() {
  static const OpDef ops[] = {
      {
          .name = "ConstantOfShape",
          .doc = "A tensor of the given shape, every element `value` (float 0 by default).",
          .traits = Trait::kGenerator | Trait::kEnlarging,
          .since = 9,
          .versions = {9, 20, 21, 23, 24, 25},
          .inputs = {{"input", "i64"}},
          .outputs = {{"output", "T2"}},
          .attrs = {{"value", AttrKind::kTensor}},
          .constraints = {{"T2", kAllTypes - kComplex - TypeSet(DType::kString)}},
          .tolerance = 0,
          .infer = InferConstantOfShape,
          .reference = RunConstantOfShape,
          .example = R"(graph g() -> (y) {
            s = const i64[2] {2, 3} y = ConstantOfShape(s) {value=const i32[1] {7}} })",
      },
      {
          .name = "Range",
          .doc = "start, start + delta, ... up to limit, which is not included.",
          .traits = Trait::kGenerator | Trait::kEnlarging,
          .since = 11,
          .versions = {11, 27},
          .inputs = {{"start", "T"}, {"limit", "T"}, {"delta", "T"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"stash_type", AttrKind::kInt, int64_t{1}, false, 27}},
          .constraints = {{"T", kFloatsBF16 | TypeSet(DType::kI16, DType::kI32, DType::kI64)}},
          .tolerance = 0,
          .infer = InferRange,
          .reference = RunRange,
          .example = R"(graph g() -> (y) {
            a = const i64[] {10} b = const i64[] {3} c = const i64[] {-2} y = Range(a, b, c) })",
      },
      {
          .name = "EyeLike",
          .doc = "Ones on the k-th diagonal, in the shape of the operand.",
          .traits = Trait::kGenerator | Trait::kShapeMath,
          .since = 9,
          .versions = {9, 22},
          .inputs = {{"input", "T1"}},
          .outputs = {{"output", "T2"}},
          .attrs = {{"dtype", AttrKind::kInt}, {"k", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T1", kNumeric | kBool1}, {"T2", kNumeric | kBool1}},
          .tolerance = 0,
          .infer = InferEyeLike,
          .reference = RunEyeLike,
          .example = "graph g(x: f32[3,4]) -> (y) { y = EyeLike(x) {k=1} }",
      },
      {
          .name = "OneHot",
          .doc = "values[1] at the position that an index names along a new axis, else values[0].",
          .traits = Trait::kGenerator | Trait::kEnlarging,
          .axes = ExpandedIndexAxes,
          .since = 9,
          .versions = {9, 11, 28},
          .inputs = {{"indices", "T1"}, {"depth", "T2"}, {"values", "T3"}},
          .outputs = {{"output", "T3"}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{-1}}},
          .constraints = {{"T1", kFloats | kInts}, {"T2", kFloats | kInts}, {"T3", kMovable}},
          .tolerance = 0,
          .infer = InferOneHot,
          .reference = RunOneHot,
          .example = R"(graph g(i: i64[3]) -> (y) {
            d = const i64[] {4} v = const f32[2] {0, 1} y = OneHot(i, d, v) })",
      },
      {
          .name = "Trilu",
          .doc = "The upper or lower triangle of each matrix; zero elsewhere.",
          .traits = Trait::kMove,
          .since = 14,
          .versions = {14},
          .inputs = {{"input", "T"}, {"k", "i64", Arity::kOptional}},
          .outputs = {{"output", "T"}},
          .attrs = {{"upper", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferTrilu,
          .reference = RunTrilu,
          .example =
              "graph g(x: f32[3,3]) -> (y) { k = const i64[] {-1} y = Trilu(x, k) {upper=0} }",
      },
  };
  return ops;
}

}  // namespace infer
