/// Reshape, Flatten, Squeeze, Unsqueeze: other extents over the same elements.
#include <algorithm>

#include "lib/ops/declared_rank.h"
#include "lib/ops/move/move.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"
#include "lib/support/strings.h"
#include "lib/tensor/equations.h"

namespace infer {
namespace {

/// Output 0 takes the known elements of input 0 when both have at most one axis.
void PassElementsIfFlat(OpCall& call) {
  const Shape& out = call.out(0).shape;
  if (out.has_rank() && out.rank() <= 1) PassElements(call);
}

Status SetReshaped(OpCall& call, Shape shape) {
  const Dim before = call.shape(0).num_elements(), after = shape.num_elements();
  if (before.is_static() && after.is_static() && before.value() != after.value())
    return InvalidModel(Cat("cannot reshape ", call.shape(0).ToString(), " to ", shape.ToString()));
  StateEqual(before, after);
  call.SetOut(0, call.dtype(0), std::move(shape));
  PassElementsIfFlat(call);
  return {};
}

/// [-1, n] of an operand that does not divide into such rows whatever its extents: a row was meant
/// to hold all axes behind the first, though rows of which several make one would run, too.
void StateRows(const Shape& in, const Dim& rows, const Dim& row) {
  if (!in.has_rank() || in.rank() < 2 || !rows.is_unknown() || !row.is_static()) return;
  Dim behind = 1;
  for (int axis = 1; axis < in.rank(); ++axis) behind = behind * in[axis];
  (void)StateBroadcast(behind, row);
}

/// The one extent left open (by -1, or because the wanted shape is not known) follows from the
/// number of elements where the others divide it.
Status InferReshape(OpCall& call) {
  const Shape& in = call.shape(0);
  const auto wanted = call.elements(1);
  if (!wanted) {
    INFER_ASSIGN(Shape out, UnknownOfDeclaredRank(LengthOf(call, 1)));
    call.SetOut(0, call.dtype(0), std::move(out));
    return {};
  }
  const bool allow_zero = call.Int("allowzero") != 0;
  std::vector<Dim> out;
  int open = -1, num_open = 0, num_minus_one = 0;
  Dim rest = 1;
  std::vector<bool> copied(in.has_rank() ? in.dims().size() : 0);
  for (size_t i = 0; i < wanted->size(); ++i) {
    Dim d = (*wanted)[i];
    if (d.KnownEqual(0) && !allow_zero) {
      if (in.has_rank() && static_cast<int>(i) >= in.rank())
        return InvalidModel(
            Cat("shape has 0 (copy) at axis ", i, " of an operand ", in.ToString()));
      d = in.has_rank() ? in[static_cast<int>(i)] : Dim();
      if (in.has_rank() && d.is_unknown()) {  // not open: it stands on both sides
        copied[i] = true;
        out.emplace_back();
        continue;
      }
    } else if (d.is_static() && d.value() < 0) {
      if (d.value() != -1) return InvalidModel(Cat("shape has the extent ", d.value()));
      if (++num_minus_one > 1) return InvalidModel("shape has more than one -1");
      d = Dim();
    }
    if (d.is_unknown()) {
      open = static_cast<int>(i);
      ++num_open;
    } else {
      rest = rest * d;
    }
    out.push_back(std::move(d));
  }
  if (num_open == 1) {
    Dim total = in.num_elements();
    if (std::find(copied.begin(), copied.end(), true) != copied.end()) {
      total = 1;
      for (size_t i = 0; i < copied.size(); ++i)
        if (!copied[i]) total = total * in.dims()[i];
    }
    if (num_minus_one && total.is_static() && rest.is_static() && rest.value() > 0 &&
        total.value() % rest.value() != 0)
      return InvalidModel(Cat("cannot reshape ", in.ToString(), " to ", Shape(out).ToString()));
    Dim& left = out[static_cast<size_t>(open)];
    left = total.ExactDiv(rest);
    if (num_minus_one && open == 0) StateRows(in, left, rest);
    // view(batch, -1) of another input whose batch has a name of its own.
    if (left.is_unknown() && open > 0 && in.has_rank() && in.rank() > 0 && in[0].is_symbolic() &&
        out[0].is_symbolic() && StateBroadcast(in[0], out[0])) {
      total = out[0];
      for (int i = 1; i < in.rank(); ++i) total = total * in[i];
      left = total.ExactDiv(rest);
    }
  }
  return SetReshaped(call, Shape(std::move(out)));
}

Status RunReshape(OpRun& run) {
  const Tensor& x = run.in(0);
  Dims dims = run.in(1).ToInts();
  const bool allow_zero = run.Int("allowzero") != 0;
  int64_t open = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allow_zero) {
      if (i >= x.dims().size()) return InvalidModel(Cat("shape has 0 (copy) beyond the rank"));
      dims[i] = x.dims()[i];
    } else if (dims[i] == -1 && open < 0) {
      open = static_cast<int64_t>(i);
    } else if (dims[i] < 0) {
      return InvalidModel(Cat("shape ", ToString(dims), " is not valid"));
    }
  }
  if (open >= 0) {
    dims[static_cast<size_t>(open)] = 1;
    const auto rest = CheckedNumElements(dims);
    if (!rest || *rest == 0 || x.num_elements() % *rest != 0)
      return InvalidModel(
          Cat("cannot reshape ", ToString(x.dims()), " to ", ToString(run.in(1).ToInts())));
    dims[static_cast<size_t>(open)] = x.num_elements() / *rest;
  }
  if (CheckedNumElements(dims) != x.num_elements())
    return InvalidModel(Cat("cannot reshape ", ToString(x.dims()), " to ", ToString(dims)));
  run.Set(0, x.Reshaped(std::move(dims)));
  return {};
}

Status LiftReshape(NodeSpec node, int opset, LiftContext& out) {
  node.attrs.erase("consumed_inputs");
  if (opset < 5) AttrToInput(node, "shape", 1, out);
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerReshape(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 14 && IntAttrOr(node, "allowzero", 0) != 0)
    return Unsupported("allowzero needs opset 14");
  if (opset < 5) INFER_TRY(InputToAttr(node, "shape", 1, out));
  return node;
}

/// Flatten's axis may equal the rank, unlike others.
Result<int> FlattenAxis(int64_t axis, int rank) {
  if (axis < -rank || axis > rank)
    return InvalidModel(Cat("axis ", axis, " is out of range for rank ", rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

/// Before opset 11 the axis counts from the front only.
Result<NodeSpec> LowerFlatten(NodeSpec node, int opset, LiftContext& out) {
  const int64_t axis = IntAttrOr(node, "axis", 1);
  if (opset >= 11 || axis >= 0) return node;
  const ValueType* type = out.Type(node.inputs[0]);
  if (!type || !type->tensor().shape.has_rank())
    return Unsupported("a negative axis of an operand of unknown rank needs opset 11");
  node.attrs["axis"] = axis + type->tensor().shape.rank();
  return node;
}

Status InferFlatten(OpCall& call) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    call.SetOut(0, call.dtype(0), UnknownOfRank(2));
    return {};
  }
  INFER_ASSIGN(const int axis, FlattenAxis(call.Int("axis"), s.rank()));
  const auto& d = s.dims();
  return SetReshaped(call, Shape(std::vector<Dim>{
                               Shape(std::vector<Dim>(d.begin(), d.begin() + axis)).num_elements(),
                               Shape(std::vector<Dim>(d.begin() + axis, d.end())).num_elements()}));
}

Status RunFlatten(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const int axis, FlattenAxis(run.Int("axis"), x.rank()));
  run.Set(0, x.Reshaped({Product(x.dims(), 0, axis), Product(x.dims(), axis, x.rank())}));
  return {};
}

/// Extents without `axes`; without every extent of one when axes is nullptr.
template <typename D, typename IsOne>
Result<std::vector<D>> Squeezed(const std::vector<D>& dims, const std::vector<int64_t>* axes,
                                IsOne may_be_one) {
  const int rank = static_cast<int>(dims.size());
  std::vector<bool> gone(dims.size(), false);
  if (axes) {
    for (int64_t a : *axes) {
      INFER_ASSIGN(const int axis, NormalizeAxis(a, rank));
      if (!may_be_one(dims[static_cast<size_t>(axis)]))
        return InvalidModel(Cat("axis ", a, " to squeeze is not 1"));
      if (gone[static_cast<size_t>(axis)]) return InvalidModel(Cat("axis ", a, " stands twice"));
      gone[static_cast<size_t>(axis)] = true;
    }
  } else {
    for (size_t i = 0; i < dims.size(); ++i) gone[i] = may_be_one(dims[i]);
  }
  std::vector<D> out;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!gone[i]) out.push_back(dims[i]);
  return out;
}

Status InferSqueeze(OpCall& call) {
  const Shape& s = call.shape(0);
  const bool has_axes = call.has_input(1);
  const auto axes = has_axes ? KnownInts(call, 1) : std::nullopt;
  const bool all_static = s.has_rank() && s.is_static();
  if (!s.has_rank() || (has_axes && !axes) || (!has_axes && !all_static)) {
    // Only the count is known, if that.
    const Dim n = has_axes ? LengthOf(call, 1) : Dim();
    call.SetOut(0, call.dtype(0),
                s.has_rank() && n.is_static() && n.value() <= s.rank()
                    ? UnknownOfRank(s.rank() - static_cast<int>(n.value()))
                    : Shape());
    return {};
  }
  INFER_ASSIGN(std::vector<Dim> dims, Squeezed(s.dims(), axes ? &*axes : nullptr, [](const Dim& d) {
                 return !d.is_static() || d.value() == 1;
               }));
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  PassElementsIfFlat(call);
  return {};
}

Status RunSqueeze(OpRun& run) {
  const Tensor& x = run.in(0);
  std::vector<int64_t> axes;
  if (run.has(1)) axes = run.in(1).ToInts();
  INFER_ASSIGN(Dims dims,
               Squeezed(x.dims(), run.has(1) ? &axes : nullptr, [](int64_t d) { return d == 1; }));
  run.Set(0, x.Reshaped(std::move(dims)));
  return {};
}

template <typename D>
Result<std::vector<D>> Unsqueezed(const std::vector<D>& dims, const std::vector<int64_t>& axes) {
  const size_t rank = dims.size() + axes.size();
  if (rank > kRankLimit)
    return InvalidModel(
        Cat("the result would have rank ", rank, ", over the limit of ", kRankLimit));
  INFER_ASSIGN(const std::vector<int> at, NormalizeAxes(axes, static_cast<int>(rank)));
  std::vector<D> out(rank);
  std::vector<bool> is_new(rank, false);
  for (int a : at) is_new[static_cast<size_t>(a)] = true;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) out[i] = is_new[i] ? D(1) : dims[next++];
  return out;
}

Status InferUnsqueeze(OpCall& call) {
  const Shape& s = call.shape(0);
  const auto axes = KnownInts(call, 1);
  if (!s.has_rank() || !axes) {
    const Dim rank = s.has_rank() ? LengthOf(call, 1) + Dim(s.rank()) : Dim();
    INFER_ASSIGN(Shape out, UnknownOfDeclaredRank(rank));
    call.SetOut(0, call.dtype(0), std::move(out));
    return {};
  }
  INFER_ASSIGN(std::vector<Dim> dims, Unsqueezed(s.dims(), *axes));
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  PassElementsIfFlat(call);
  return {};
}

Status RunUnsqueeze(OpRun& run) {
  INFER_ASSIGN(Dims dims, Unsqueezed(run.in(0).dims(), run.in(1).ToInts()));
  run.Set(0, run.in(0).Reshaped(std::move(dims)));
  return {};
}

/// Squeeze and Unsqueeze: axes was an attribute before opset 13.
Status LiftAxes(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 13) AttrToInput(node, "axes", 1, out);
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerAxes(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 13) INFER_TRY(InputToAttr(node, "axes", 1, out));
  return node;
}

Status InferBitCast(OpCall& call) {
  const int64_t t = call.Int("to");
  const DType to = t > 0 && t < kNumDTypes ? static_cast<DType>(t) : DType::kUndefined;
  if (!call.def().constraints[1].types.Has(to)) return InvalidModel(Cat("no element type ", t));
  if (call.dtype(0) != DType::kUndefined && BitWidth(to) != BitWidth(call.dtype(0)))
    return InvalidModel(Cat(Name(call.dtype(0)), " and ", Name(to), " differ in width"));
  call.SetOut(0, to, call.shape(0));
  return {};
}

/// The same bits; a bool is made of zero or not, as it may have no other bits.
Status RunBitCast(OpRun& run) {
  const Tensor& x = run.in(0);
  const auto to = static_cast<DType>(run.Int("to"));
  if (BitWidth(to) != BitWidth(x.dtype())) return InvalidModel("the types differ in width");
  if (to == DType::kBool) {
    Tensor& y = run.Out(0, to, x.dims());
    for (int64_t i = 0; i < x.num_elements(); ++i) y.SetInt(i, x.raw()[i] != std::byte{0});
    return {};
  }
  run.Set(0, Tensor(to, x.dims(), x.buffer()));
  return {};
}

PermuteResult PermuteSqueeze(const OpCall& call, const Perm& perm, PermutedCall to) {
  return PermuteListedAxes(call, perm, std::move(to), false);
}

}  // namespace

std::span<const OpDef> ReshapeOps() {
  static const OpDef ops[] = {
      {
          .name = "Reshape",
          .doc = "The same elements under other extents; 0 copies an extent, -1 is what remains.",
          .traits = Trait::kView,
          .since = 5,
          .versions = {1, 5, 13, 14, 19, 21, 23, 24, 25},
          .inputs = {{"data", "T"}, {"shape", "i64", Arity::kOne, 5}},
          .outputs = {{"reshaped", "T"}},
          .attrs = {{"allowzero", AttrKind::kInt, int64_t{0}, false, 14}},
          .constraints = {{"T", kAllTypes}},
          .tolerance = 0,
          .infer = InferReshape,
          .reference = RunReshape,
          .lift = LiftReshape,
          .lower = LowerReshape,
          .example = "graph g(x: f32[2,3,4]) -> (y) { s = const i64[2] {0, -1} y = Reshape(x, s) }",
      },
      {
          .name = "Flatten",
          .doc = "Two axes: the product of the extents before `axis`, and of those from it on.",
          .traits = Trait::kView,
          .since = 11,  // negative axes
          .versions = {1, 9, 11, 13, 21, 23, 24, 25},
          .inputs = {{"input", "T"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T", kAllTypes}},
          .tolerance = 0,
          .infer = InferFlatten,
          .reference = RunFlatten,
          .lower = LowerFlatten,
          .example = "graph g(x: f32[2,3,4]) -> (y) { y = Flatten(x) }",
      },
      {
          .name = "Squeeze",
          .doc = "Removes the given axes, or all, of extent one.",
          .traits = Trait::kView,
          .permute = PermuteSqueeze,
          .since = 13,
          .versions = {1, 11, 13, 21, 23, 24, 25},
          .inputs = {{"data", "T"}, {"axes", "i64", Arity::kOptional, 13}},
          .outputs = {{"squeezed", "T"}},
          .constraints = {{"T", kAllTypes}},
          .tolerance = 0,
          .infer = InferSqueeze,
          .reference = RunSqueeze,
          .lift = LiftAxes,
          .lower = LowerAxes,
          .example = "graph g(x: f32[1,3,1]) -> (y) { a = const i64[1] {0} y = Squeeze(x, a) }",
      },
      {
          .name = "Unsqueeze",
          .doc = "Inserts axes of extent one; `axes` are positions in the result.",
          .traits = Trait::kView,
          .since = 13,
          .versions = {1, 11, 13, 21, 23, 24, 25},
          .inputs = {{"data", "T"}, {"axes", "i64", Arity::kOne, 13}},
          .outputs = {{"expanded", "T"}},
          .constraints = {{"T", kAllTypes}},
          .tolerance = 0,
          .infer = InferUnsqueeze,
          .reference = RunUnsqueeze,
          .lift = LiftAxes,
          .lower = LowerAxes,
          .example = "graph g(x: f32[3]) -> (y) { a = const i64[2] {0, -1} y = Unsqueeze(x, a) }",
      },
      {
          .name = "BitCast",
          .doc = "The same bits as another type of the same width.",
          .traits = Trait::kUnary,
          .since = 26,
          .versions = {26},
          .inputs = {{"input", "T1"}},
          .outputs = {{"output", "T2"}},
          .attrs = {{"to", AttrKind::kInt, {}, true}},
          .constraints = {{"T1", kAllTypes - TypeSet(DType::kString)},
                          {"T2", kAllTypes - TypeSet(DType::kString)}},
          .tolerance = 0,
          .infer = InferBitCast,
          .reference = RunBitCast,
          .example = "graph g(x: f32[2,3]) -> (y) { y = BitCast(x) {to=6} }",
      },
  };
  return ops;
}

}  // namespace infer
