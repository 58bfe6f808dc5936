/// Transpose, Expand, Tile, DepthToSpace, SpaceToDepth: strided views of a tensor, made dense.
#include <algorithm>
#include <numeric>

#include "lib/ops/declared_rank.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"
#include "lib/support/strings.h"

namespace infer {

Tensor Transposed(const Tensor& x, const std::vector<int>& perm) {
  const Dims strides = Strides(x.dims());
  Dims dims;
  StridedView from;
  for (int p : perm) {
    dims.push_back(x.dim(p));
    from.strides.push_back(strides[static_cast<size_t>(p)]);
  }
  Tensor y(x.dtype(), dims);
  CopyStrided(x, from, y, Dense(dims), dims);
  return y;
}

namespace {

/// The permutation, [rank-1 ... 0] by default. InvalidModel when it is none.
Result<std::vector<int>> Permutation(const OpCall& call, int rank) {
  std::vector<int> perm(static_cast<size_t>(rank));
  if (!call.HasAttr("perm")) {
    for (int i = 0; i < rank; ++i) perm[static_cast<size_t>(i)] = rank - 1 - i;
    return perm;
  }
  const auto& p = call.Ints("perm");
  if (p.size() != perm.size())
    return InvalidModel(Cat("perm has ", p.size(), " entries, the operand ", rank, " axes"));
  // Unlike axes elsewhere, these are not counted from the end.
  if (std::any_of(p.begin(), p.end(), [](int64_t axis) { return axis < 0; }))
    return InvalidModel("perm has a negative entry");
  return NormalizeAxes(p, rank);
}

Status InferTranspose(OpCall& call) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    if (!call.HasAttr("perm")) {
      call.SetOut(0, call.dtype(0), Shape());
      return {};
    }
    const int rank = static_cast<int>(call.Ints("perm").size());
    INFER_TRY(Permutation(call, rank).status());
    call.SetOut(0, call.dtype(0), UnknownOfRank(rank));
    return {};
  }
  INFER_ASSIGN(const auto perm, Permutation(call, s.rank()));
  std::vector<Dim> dims;
  for (int p : perm) dims.push_back(s[p]);
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  if (s.rank() <= 1) PassElements(call);
  return {};
}

Status RunTranspose(OpRun& run) {
  INFER_ASSIGN(const auto perm, Permutation(run.call(), run.in(0).rank()));
  run.Set(0, Transposed(run.in(0), perm));
  return {};
}

Status InferExpand(OpCall& call) {
  const auto wanted = call.elements(1);
  const Shape& s = call.shape(0);
  if (!wanted) {
    // What the operand does not repeat stays whatever is wanted.
    INFER_ASSIGN(Shape out, UnknownOfDeclaredRank(LengthOf(call, 1)));
    INFER_ASSIGN(out, Broadcast(s, out));
    call.SetOut(0, call.dtype(0), std::move(out));
    return {};
  }
  for (const Dim& d : *wanted)
    if (d.is_static() && d.value() < 0) return InvalidModel(Cat("Expand: shape has ", d.value()));
  INFER_ASSIGN(Shape out, Broadcast(s, Shape(*wanted)));
  call.SetOut(0, call.dtype(0), std::move(out));
  // A single known element, repeated.
  const auto e = call.elements(0);
  const Shape& shape = call.out(0).shape;
  if (e && e->size() == 1 && shape.has_rank() && shape.rank() <= 1 && shape.is_static() &&
      shape.num_elements().value() <= 64)
    call.SetElements(
        0, std::vector<Dim>(static_cast<size_t>(shape.num_elements().value()), e->front()));
  return {};
}

Status RunExpand(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const Dims dims, Broadcast(x.dims(), run.in(1).ToInts()));
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, x.dtype(), dims));
  const Dims strides = Strides(x.dims());
  StridedView from{0, Dims(dims.size(), 0)};
  for (size_t i = 1; i <= strides.size(); ++i)
    if (x.dims()[strides.size() - i] != 1)
      from.strides[dims.size() - i] = strides[strides.size() - i];
  CopyStrided(x, from, *y, Dense(dims), dims);
  return {};
}

Status InferTile(OpCall& call) {
  const Shape& s = call.shape(0);
  const auto repeats = call.elements(1);
  if (!s.has_rank()) {
    INFER_ASSIGN(Shape out, UnknownOfDeclaredRank(LengthOf(call, 1)));
    call.SetOut(0, call.dtype(0), std::move(out));
    return {};
  }
  if (!repeats) {
    call.SetOut(0, call.dtype(0), UnknownOfRank(s.rank()));
    return {};
  }
  if (repeats->size() != static_cast<size_t>(s.rank()))
    return InvalidModel(
        Cat("repeats has ", repeats->size(), " entries, the operand ", s.rank(), " axes"));
  std::vector<Dim> dims;
  for (int i = 0; i < s.rank(); ++i) {
    const Dim& r = (*repeats)[static_cast<size_t>(i)];
    if (r.is_static() && r.value() < 0) return InvalidModel(Cat("repeats has ", r.value()));
    dims.push_back(s[i] * r);
  }
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  const auto e = call.elements(0);
  const Shape& out = call.out(0).shape;
  if (e && out.rank() == 1 && out.is_static() && out.num_elements().value() <= 64) {
    std::vector<Dim> tiled(static_cast<size_t>(out.num_elements().value()));
    for (size_t i = 0; i < tiled.size(); ++i) tiled[i] = (*e)[i % e->size()];
    call.SetElements(0, std::move(tiled));
  }
  return {};
}

/// Each axis of n is copied as [r, n] with stride 0 on r.
Status RunTile(OpRun& run) {
  const Tensor& x = run.in(0);
  const std::vector<int64_t> repeats = run.in(1).ToInts();
  if (repeats.size() != x.dims().size())
    return InvalidModel("repeats and the operand's axes differ in number");
  Dims dims, extents;
  StridedView from;
  const Dims strides = Strides(x.dims());
  for (size_t i = 0; i < repeats.size(); ++i) {
    int64_t extent = 0;
    if (repeats[i] < 0) return InvalidModel(Cat("repeats has ", repeats[i]));
    if (__builtin_mul_overflow(x.dims()[i], repeats[i], &extent))
      return ResourceExhausted("repeats is too large");
    dims.push_back(extent);
    extents.insert(extents.end(), {repeats[i], x.dims()[i]});
    from.strides.insert(from.strides.end(), {0, strides[i]});
  }
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, x.dtype(), std::move(dims)));
  if (y->num_elements() > 0) CopyStrided(x, from, *y, Dense(extents), extents);
  return {};
}

/// Opset 1 repeats one axis `tiles` times: (input, tiles, axis).
Status LiftTile(NodeSpec node, int opset, LiftContext& out) {
  if (opset >= 6) {
    out.Emit(std::move(node));
    return {};
  }
  if (node.inputs.size() != 3) return InvalidModel("Tile-1 takes three inputs");
  const Tensor* tiles = out.ConstantValue(node.inputs[1]);
  const Tensor* axis = out.ConstantValue(node.inputs[2]);
  const ValueType* type = out.Type(node.inputs[0]);
  if (!tiles || !axis || !type || !type->is_tensor() || !type->tensor().shape.has_rank())
    return Unsupported(
        "Tile of opset 1 needs constant tiles and axis and a known rank; convert"
        " the model to opset 6 or newer");
  const int rank = type->tensor().shape.rank();
  INFER_ASSIGN(const int at, NormalizeAxis(axis->IntAt(0), rank));
  std::vector<int64_t> repeats(static_cast<size_t>(rank), 1);
  repeats[static_cast<size_t>(at)] = tiles->IntAt(0);
  node.inputs = {node.inputs[0], out.Constant(Tensor::Int64s(repeats))};
  out.Emit(std::move(node));
  return {};
}

/// How the blocks of DepthToSpace and SpaceToDepth are taken apart and permuted: DCR has the block
/// before the depth in the channel axis, CRD behind it.
bool DepthFirst(const OpCall& call) { return call.Str("mode") != "CRD"; }

Status CheckBlock(const OpCall& call) {
  const int64_t b = call.Int("blocksize");
  if (b < 1) return InvalidModel("blocksize is not positive");
  if (b > 1 << 20) return InvalidModel(Cat("blocksize ", b, " is out of range"));
  if (call.Str("mode") != "DCR" && call.Str("mode") != "CRD")
    return InvalidModel(Cat("mode '", call.Str("mode"), "' is neither DCR nor CRD"));
  return {};
}

Status InferDepthToSpace(OpCall& call) {
  INFER_TRY(CheckBlock(call));
  const Shape& s = call.shape(0);
  if (s.has_rank() && s.rank() != 4) return InvalidModel("the operand is not [N,C,H,W]");
  const int64_t b = call.Int("blocksize");
  if (s.has_rank() && s[1].is_static() && s[1].value() % (b * b) != 0)
    return InvalidModel(Cat(s[1].value(), " channels are not a multiple of ", b * b));
  call.SetOut(0, call.dtype(0),
              s.has_rank() ? Shape(std::vector<Dim>{s[0], s[1].ExactDiv(b * b), s[2] * b, s[3] * b})
                           : UnknownOfRank(4));
  return {};
}

Status RunDepthToSpace(OpRun& run) {
  INFER_TRY(CheckBlock(run.call()));
  const Tensor& x = run.in(0);
  const int64_t b = run.Int("blocksize");
  if (x.rank() != 4 || x.dim(1) % (b * b) != 0)
    return InvalidModel(Cat("cannot take blocks of ", b, " from ", ToString(x.dims())));
  const int64_t n = x.dim(0), c = x.dim(1) / (b * b), h = x.dim(2), w = x.dim(3);
  const bool dcr = DepthFirst(run.call());
  const Tensor y = dcr ? Transposed(x.Reshaped({n, b, b, c, h, w}), {0, 3, 4, 1, 5, 2})
                       : Transposed(x.Reshaped({n, c, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  run.Set(0, y.Reshaped({n, c, h * b, w * b}));
  return {};
}

Status InferSpaceToDepth(OpCall& call) {
  INFER_TRY(CheckBlock(call));
  const Shape& s = call.shape(0);
  if (s.has_rank() && s.rank() != 4) return InvalidModel("the operand is not [N,C,H,W]");
  const int64_t b = call.Int("blocksize");
  for (int i = 2; s.has_rank() && i < 4; ++i)
    if (s[i].is_static() && s[i].value() % b != 0)
      return InvalidModel(Cat(s.ToString(), " is not made of blocks of ", b));
  call.SetOut(0, call.dtype(0),
              s.has_rank() ? Shape(std::vector<Dim>{s[0], s[1] * (b * b), s[2].ExactDiv(b),
                                                    s[3].ExactDiv(b)})
                           : UnknownOfRank(4));
  return {};
}

Status RunSpaceToDepth(OpRun& run) {
  INFER_TRY(CheckBlock(run.call()));
  const Tensor& x = run.in(0);
  const int64_t b = run.Int("blocksize");
  if (x.rank() != 4 || x.dim(2) % b != 0 || x.dim(3) % b != 0)
    return InvalidModel(Cat(ToString(x.dims()), " is not made of blocks of ", b));
  const int64_t n = x.dim(0), c = x.dim(1), h = x.dim(2) / b, w = x.dim(3) / b;
  const bool dcr = DepthFirst(run.call());
  const Tensor y =
      Transposed(x.Reshaped({n, c, h, b, w, b}),
                 dcr ? std::vector<int>{0, 3, 5, 1, 2, 4} : std::vector<int>{0, 1, 3, 5, 2, 4});
  run.Set(0, y.Reshaped({n, c * b * b, h, w}));
  return {};
}

void TransposeAxes(const OpCall& call, AxisLinks& links) {
  if (!call.shape(0).has_rank()) return;
  const auto perm = Permutation(call, call.shape(0).rank());
  if (!perm.ok()) return;
  for (size_t i = 0; i < perm->size(); ++i)
    LinkSame(call, 0, (*perm)[i], 0, static_cast<int>(i), links);
}

void ExpandAxes(const OpCall& call, AxisLinks& links) { LinkBroadcast(call, 0, links); }

/// Copies stand behind each other, so labels repeat.
void TileAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  for (int a = 0; s.has_rank() && a < s.rank(); ++a)
    if (s[a].is_static() && s[a].value() > 0)
      links.push_back({.labels = s[a].value(), .from = {.axis = a}, .to = {.axis = a}});
    else
      LinkSame(call, 0, a, 0, a, links);
}

/// Between the tensor with more channels and the one with longer height and width.
template <bool kToSpace>
void BlockAxes(const OpCall& call, AxisLinks& links) {
  const Shape &deep = kToSpace ? call.shape(0) : call.out(0).shape,
              &wide = kToSpace ? call.out(0).shape : call.shape(0);
  const int64_t b = call.Int("blocksize");
  if (!deep.has_rank() || !wide.has_rank() || b < 1) return;
  LinkSame(call, 0, 0, 0, 0, links);
  const auto link = [&](int axis, int64_t labels, int64_t deep_inner, int64_t wide_inner) {
    const LabelledAxis d{.axis = axis, .inner = deep_inner}, w{.axis = axis, .inner = wide_inner};
    links.push_back({.labels = labels, .from = kToSpace ? d : w, .to = kToSpace ? w : d});
  };
  if (wide[1].is_static()) link(1, wide[1].value(), DepthFirst(call) ? 1 : b * b, 1);
  for (const int a : {2, 3})
    if (deep[a].is_static()) link(a, deep[a].value(), 1, b);
}

}  // namespace

std::span<const OpDef> TransposeOps() {
  static const OpDef ops[] = {
      {
          .name = "Transpose",
          .doc = "Permutes the axes; reverses them by default.",
          .traits = Trait::kMove | Trait::kStrided | Trait::kPermutation,
          .axes = TransposeAxes,
          .since = 1,
          .versions = {1, 13, 21, 23, 24, 25},
          .inputs = {{"data", "T"}},
          .outputs = {{"transposed", "T"}},
          .attrs = {{"perm", AttrKind::kInts}},
          .constraints = {{"T", kAllTypes}},
          .tolerance = 0,
          .infer = InferTranspose,
          .reference = RunTranspose,
          .example = "graph g(x: f32[2,3,4]) -> (y) { y = Transpose(x) {perm=[0, 2, 1]} }",
      },
      {
          .name = "Expand",
          .doc = "Broadcasts the operand with a shape.",
          .traits = Trait::kMove | Trait::kStrided | Trait::kEnlarging,
          .axes = ExpandAxes,
          .since = 8,
          .versions = {8, 13},
          .inputs = {{"input", "T"}, {"shape", "i64"}},
          .outputs = {{"output", "T"}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferExpand,
          .reference = RunExpand,
          .example = "graph g(x: f32[3,1]) -> (y) { s = const i64[3] {2, 1, 4} y = Expand(x, s) }",
      },
      {
          .name = "Tile",
          .doc = "Repeats the operand along each axis.",
          .traits = Trait::kMove | Trait::kEnlarging,
          .axes = TileAxes,
          .since = 6,
          .versions = {1, 6, 13},
          .inputs = {{"input", "T"}, {"repeats", "i64"}},
          .outputs = {{"output", "T"}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferTile,
          .reference = RunTile,
          .lift = LiftTile,
          .example = "graph g(x: f32[2,3]) -> (y) { r = const i64[2] {1, 2} y = Tile(x, r) }",
      },
      {
          .name = "DepthToSpace",
          .doc = "Moves blocks of the channel axis into height and width.",
          .traits = Trait::kMove,
          .axes = BlockAxes<true>,
          .since = 1,
          .versions = {1, 11, 13, 28},
          .inputs = {{"input", "T"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"blocksize", AttrKind::kInt, {}, true},
                    {"mode", AttrKind::kString, std::string("DCR"), false, 11}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferDepthToSpace,
          .reference = RunDepthToSpace,
          .decompose = DecomposeDepthToSpace,
          .example = "graph g(x: f32[1,8,2,3]) -> (y) { y = DepthToSpace(x) {blocksize=2} }",
      },
      {
          .name = "SpaceToDepth",
          .doc = "Moves blocks of height and width into the channel axis.",
          .traits = Trait::kMove,
          .axes = BlockAxes<false>,
          .since = 1,
          .versions = {1, 13, 28},
          .inputs = {{"input", "T"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"blocksize", AttrKind::kInt, {}, true},
                    {"mode", AttrKind::kString, std::string("DCR"), false, 28}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferSpaceToDepth,
          .reference = RunSpaceToDepth,
          .example = "graph g(x: f32[1,2,4,6]) -> (y) { y = SpaceToDepth(x) {blocksize=2} }",
      },
  };
  return ops;
}

}  // namespace infer
