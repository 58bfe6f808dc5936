/// Concat and Split.
#include <algorithm>
#include <numeric>

#include "lib/ops/move/move.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// The elements of input i; one unknown per element where only their number is known.
std::optional<std::vector<Dim>> ElementsOrUnknowns(const OpCall& call, size_t i) {
  if (auto e = call.elements(i)) return e;
  const Dim n = call.shape(i).num_elements();
  if (!n.is_static() || n.value() > 64) return std::nullopt;
  return std::vector<Dim>(static_cast<size_t>(n.value()));
}

Status InferConcat(OpCall& call) {
  if (call.num_inputs() == 0) return InvalidModel("has no operand");
  std::optional<Shape> merged;  // the extents off the axis, from all operands of known rank
  Dim extent = 0;
  int axis = 0;
  bool complete = true;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    if (!call.has_input(i)) return InvalidModel(Cat("operand ", i, " is missing"));
    const Shape& s = call.shape(i);
    if (!s.has_rank()) {
      complete = false;
      continue;
    }
    INFER_ASSIGN(axis, NormalizeAxis(call.Int("axis"), s.rank()));
    extent = extent + s[axis];
    std::vector<Dim> dims = s.dims();
    dims[static_cast<size_t>(axis)] = Dim();
    if (merged) {
      INFER_ASSIGN(merged, Meet(*merged, Shape(std::move(dims))));
    } else {
      merged = Shape(std::move(dims));
    }
  }
  if (!merged) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  std::vector<Dim> dims = merged->dims();
  dims[static_cast<size_t>(axis)] = complete ? extent : Dim();
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  if (merged->rank() != 1 || !IsInteger(call.dtype(0))) return {};
  std::vector<Dim> all;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    const auto e = ElementsOrUnknowns(call, i);
    if (!e) return {};
    all.insert(all.end(), e->begin(), e->end());
  }
  call.SetElements(0, std::move(all));
  return {};
}

Status RunConcat(OpRun& run) {
  const Tensor& first = run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), first.rank()));
  Dims dims = first.dims();
  int64_t& extent = dims[static_cast<size_t>(axis)];
  extent = 0;
  for (size_t i = 0; i < run.num_inputs(); ++i) {
    const Tensor& x = run.in(i);
    bool fits = x.rank() == first.rank() && x.dtype() == first.dtype();
    for (int k = 0; fits && k < first.rank(); ++k) fits = k == axis || x.dim(k) == first.dim(k);
    if (!fits)
      return InvalidModel(Cat("cannot join ", ToString(first.dims()), " and ", ToString(x.dims()),
                              " along axis ", axis));
    extent += x.dim(axis);
  }
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, first.dtype(), dims));
  StridedView to = Dense(dims);
  const int64_t step = to.strides[static_cast<size_t>(axis)];
  for (size_t i = 0; i < run.num_inputs(); ++i) {
    CopyStrided(run.in(i), Dense(run.in(i).dims()), *y, to, run.in(i).dims());
    to.offset += run.in(i).dim(axis) * step;
  }
  return {};
}

/// Extents of `n` equal parts of `total`; the last is smaller when it does not divide.
Result<std::vector<int64_t>> EqualParts(int64_t total, int64_t n) {
  if (n < 1) return InvalidModel("has no part");
  const int64_t part = (total + n - 1) / n;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < n; ++i) sizes.push_back(std::clamp<int64_t>(total - i * part, 0, part));
  return sizes;
}

Status InferSplit(OpCall& call) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    for (size_t i = 0; i < call.num_outputs(); ++i) call.SetOut(i, call.dtype(0), Shape());
    return {};
  }
  INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), s.rank()));
  const size_t n = call.num_outputs();
  std::vector<Dim> sizes(n);
  if (call.has_input(1)) {
    if (auto e = call.elements(1)) {
      if (e->size() != n)
        return InvalidModel(Cat("split has ", e->size(), " entries for ", n, " outputs"));
      sizes = *e;
    }
  } else {
    if (call.HasAttr("num_outputs") && call.Int("num_outputs") != static_cast<int64_t>(n))
      return InvalidModel(Cat("num_outputs is ", call.Int("num_outputs"), ", there are ", n));
    if (s[axis].is_static()) {
      INFER_ASSIGN(const auto parts, EqualParts(s[axis].value(), static_cast<int64_t>(n)));
      // Of 5 in 4 parts the standard does not say more: 2, 2 and then? Types say nothing either.
      if (parts.size() < 2 || parts[n - 2] == parts[0]) sizes.assign(parts.begin(), parts.end());
    } else {
      const Dim part = s[axis].ExactDiv(static_cast<int64_t>(n));
      std::fill(sizes.begin(), sizes.end(), part);
    }
  }
  Dim sum = 0;
  for (const Dim& d : sizes) sum = sum + d;
  if (sum.is_static() && s[axis].is_static() && sum.value() != s[axis].value())
    return InvalidModel(Cat("the parts have ", sum.value(), " of ", s[axis].value(), " in all"));
  const auto elements = s.rank() == 1 ? call.elements(0) : std::nullopt;
  auto next = elements ? elements->begin() : std::vector<Dim>::const_iterator();
  bool aligned = elements.has_value();
  for (size_t i = 0; i < n; ++i) {
    std::vector<Dim> dims = s.dims();
    dims[static_cast<size_t>(axis)] = sizes[i];
    call.SetOut(i, call.dtype(0), Shape(std::move(dims)));
    aligned = aligned && sizes[i].is_static() && sizes[i].value() >= 0 &&
              sizes[i].value() <= elements->end() - next;
    if (!aligned) continue;
    call.SetElements(i, {next, next + sizes[i].value()});
    next += sizes[i].value();
  }
  return {};
}

Status RunSplit(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), x.rank()));
  std::vector<int64_t> sizes;
  if (run.has(1)) {
    sizes = run.in(1).ToInts();
  } else {
    INFER_ASSIGN(sizes, EqualParts(x.dim(axis), static_cast<int64_t>(run.num_outputs())));
  }
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (sizes.size() != run.num_outputs() || sum != x.dim(axis) ||
      std::any_of(sizes.begin(), sizes.end(), [](int64_t d) { return d < 0; }))
    return InvalidModel(Cat("cannot split ", ToString(x.dims()), " into ", ToString(sizes)));
  StridedView from = Dense(x.dims());
  for (size_t i = 0; i < sizes.size(); ++i) {
    Dims dims = x.dims();
    dims[static_cast<size_t>(axis)] = sizes[i];
    Tensor& y = run.Out(i, x.dtype(), dims);
    CopyStrided(x, from, y, Dense(dims), dims);
    from.offset += sizes[i] * from.strides[static_cast<size_t>(axis)];
  }
  return {};
}

/// `split` was an attribute before opset 13 (and an optional input in opset 1); num_outputs, which
/// opset 18 wants where split is not given, is the number of outputs.
Status LiftSplit(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 13) AttrToInput(node, "split", 1, out);
  const bool has_split = node.inputs.size() > 1 && !node.inputs[1].empty();
  if (opset < 18 && !has_split)
    node.attrs["num_outputs"] = static_cast<int64_t>(node.outputs.size());
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerSplit(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 18 && node.attrs.erase("num_outputs") > 0) {
    // Older forms only know parts that are equal.
    const ValueType* type = node.inputs.empty() ? nullptr : out.Type(node.inputs[0]);
    auto it = node.attrs.find("axis");
    const int64_t axis = it == node.attrs.end() ? 0 : std::get<int64_t>(it->second);
    const auto n = static_cast<int64_t>(node.outputs.size());
    if (type && type->is_tensor() && type->tensor().shape.has_rank()) {
      const Shape& s = type->tensor().shape;
      INFER_ASSIGN(const int at, NormalizeAxis(axis, s.rank()));
      if (s[at].is_static() && s[at].value() % n != 0)
        return Unsupported("Split into unequal parts needs opset 18 or newer");
    }
  }
  if (opset < 13) INFER_TRY(InputToAttr(node, "split", 1, out));
  return node;
}

/// The axis of Concat had the default 1 before opset 4.
Status LiftConcat(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 4) node.attrs.emplace("axis", int64_t{1});
  out.Emit(std::move(node));
  return {};
}

void ConcatAxes(const OpCall& call, AxisLinks& links) {
  const Shape& y = call.out(0).shape;
  if (!y.has_rank()) return;
  const auto axis = NormalizeAxis(call.Int("axis"), y.rank());
  if (!axis.ok()) return;
  Dim begin = 0;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    for (int a = 0; a < y.rank(); ++a)
      if (a != *axis) LinkSame(call, i, a, 0, a, links);
    const Dim part = call.shape(i).has_rank() ? call.shape(i)[*axis] : Dim();
    if (begin.is_static() && part.is_static())
      links.push_back({.labels = part.value(),
                       .from = {.value = i, .axis = *axis},
                       .to = {.axis = *axis, .begin = begin.value(), .count = part.value()}});
    begin = begin + part;
  }
}

void SplitAxes(const OpCall& call, AxisLinks& links) {
  const Shape& x = call.shape(0);
  if (!x.has_rank()) return;
  const auto axis = NormalizeAxis(call.Int("axis"), x.rank());
  if (!axis.ok()) return;
  Dim begin = 0;
  for (size_t i = 0; i < call.num_outputs(); ++i) {
    if (!call.out_type(i).is_tensor()) return;
    for (int a = 0; a < x.rank(); ++a)
      if (a != *axis) LinkSame(call, 0, a, i, a, links);
    const Shape& y = call.out(i).shape;
    const Dim part = y.has_rank() ? y[*axis] : Dim();
    if (begin.is_static() && part.is_static())
      links.push_back({.labels = part.value(),
                       .from = {.axis = *axis, .begin = begin.value(), .count = part.value()},
                       .to = {.value = i, .axis = *axis}});
    begin = begin + part;
  }
}

PermuteResult PermuteConcat(const OpCall& call, const Perm& perm, PermutedCall to) {
  to.data.clear();
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    const Shape& s = call.shape(i);
    if (!s.has_rank() || s.rank() != static_cast<int>(perm.size())) return std::nullopt;
    to.data.push_back(i);
  }
  return PermuteAxis(call, perm, std::move(to));
}

}  // namespace

std::span<const OpDef> ConcatSplitOps() {
  static const OpDef ops[] = {
      {
          .name = "Concat",
          .doc = "Joins tensors along an axis.",
          .traits = Trait::kMove | Trait::kConcatenation,
          .axes = ConcatAxes,
          .permute = PermuteConcat,
          .since = 4,
          .versions = {1, 4, 11, 13},
          .inputs = {{"inputs", "T", Arity::kVariadic}},
          .outputs = {{"concat_result", "T"}},
          .attrs = {{"axis", AttrKind::kInt, {}, true}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferConcat,
          .reference = RunConcat,
          .lift = LiftConcat,
          .example = "graph g(x: f32[2,3], y: f32[2,1]) -> (z) { z = Concat(x, y) {axis=-1} }",
      },
      {
          .name = "Split",
          .doc = "Cuts a tensor along an axis, into parts of given or equal extents.",
          .traits = Trait::kMove | Trait::kStrided,
          .axes = SplitAxes,
          .permute = PermuteAxis,
          .since = 13,
          .versions = {1, 2, 11, 13, 18},
          .inputs = {{"input", "T"}, {"split", "i64", Arity::kOptional}},
          .outputs = {{"outputs", "T", Arity::kVariadic}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{0}},
                    {"num_outputs", AttrKind::kInt, {}, false, 18}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferSplit,
          .reference = RunSplit,
          .lift = LiftSplit,
          .lower = LowerSplit,
          .example = "graph g(x: f32[2,5]) -> (a, b) { s = const i64[2] {2, 3} a, b = Split(x, s) "
                     "{axis=1} }",
      },
  };
  return ops;
}

}  // namespace infer
