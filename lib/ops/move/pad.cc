/// Pad and CenterCropPad.
#include <algorithm>

#include "lib/ops/decompositions.h"
#include "lib/ops/move/move.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// Elements added (negative: removed) before and after each axis.
struct Pads {
  std::vector<int64_t> begin, end;
};

/// `pads` are [begin..., end...] over `axes` (all when nullptr).
Result<Pads> PadsOf(const std::vector<int64_t>& pads, const std::vector<int64_t>* axes, int rank) {
  std::vector<int> at;
  if (axes) {
    INFER_ASSIGN(at, NormalizeAxes(*axes, rank));
  } else {
    for (int i = 0; i < rank; ++i) at.push_back(i);
  }
  if (pads.size() != 2 * at.size())
    return InvalidModel(Cat("pads has ", pads.size(), " entries for ", at.size(), " axes"));
  Pads p{std::vector<int64_t>(static_cast<size_t>(rank)),
         std::vector<int64_t>(static_cast<size_t>(rank))};
  for (size_t i = 0; i < at.size(); ++i) {
    p.begin[static_cast<size_t>(at[i])] = pads[i];
    p.end[static_cast<size_t>(at[i])] = pads[i + at.size()];
  }
  return p;
}

Status InferPad(OpCall& call) {
  constexpr std::string_view kModes[] = {"constant", "reflect", "edge", "wrap"};
  if (std::find(std::begin(kModes), std::end(kModes), call.Str("mode")) == std::end(kModes))
    return InvalidModel(Cat("no mode '", call.Str("mode"), "'"));
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  const auto axes = call.has_input(3) ? KnownInts(call, 3) : std::nullopt;
  const auto pads = call.elements(1);
  if (!pads || (call.has_input(3) && !axes)) {
    call.SetOut(0, call.dtype(0), UnknownOfRank(s.rank()));
    return {};
  }
  // Symbolic pads: the extents are sums, only the arrangement is checked here.
  std::vector<int64_t> order;
  for (size_t i = 0; i < pads->size(); ++i) order.push_back(static_cast<int64_t>(i) + 1);
  INFER_ASSIGN(const Pads where, PadsOf(order, axes ? &*axes : nullptr, s.rank()));
  std::vector<Dim> dims = s.dims();
  for (size_t i = 0; i < dims.size(); ++i) {
    for (const int64_t at : {where.begin[i], where.end[i]})
      if (at > 0) dims[i] = dims[i] + (*pads)[static_cast<size_t>(at - 1)];
    if (dims[i].is_static() && dims[i].value() < 0)
      return InvalidModel(Cat("pads remove more than axis ", i, " has"));
  }
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  return {};
}

/// The part of x that negative pads leave, and the pads without the negative ones.
Result<Tensor> Crop(const Tensor& x, Pads& pads) {
  Dims dims = x.dims();
  StridedView from = Dense(x.dims());
  bool cropped = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t before = std::max<int64_t>(-pads.begin[i], 0);
    const int64_t after = std::max<int64_t>(-pads.end[i], 0);
    if (before > dims[i] || after > dims[i] - before)
      return InvalidModel(Cat("pads remove more than axis ", i, " has"));
    cropped |= before + after > 0;
    dims[i] -= before + after;
    from.offset += before * from.strides[i];
    pads.begin[i] = std::max<int64_t>(pads.begin[i], 0);
    pads.end[i] = std::max<int64_t>(pads.end[i], 0);
  }
  if (!cropped) return x;
  Tensor y(x.dtype(), dims);
  CopyStrided(x, from, y, Dense(dims), dims);
  return y;
}

/// Which of n elements stands at position i (may lie outside) of an axis padded by `mode`.
int64_t SourceOf(std::string_view mode, int64_t i, int64_t n) {
  const auto mod = [](int64_t a, int64_t b) { return (a % b + b) % b; };
  if (mode == "edge") return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == "wrap") return mod(i, n);
  if (n == 1) return 0;
  const int64_t k = mod(i, 2 * (n - 1));  // reflect, over and over
  return k < n ? k : 2 * (n - 1) - k;
}

Result<Dims> PaddedDims(const Tensor& x, const Pads& pads) {
  Dims dims = x.dims();
  for (size_t i = 0; i < dims.size(); ++i)
    if (__builtin_add_overflow(dims[i], pads.begin[i], &dims[i]) ||
        __builtin_add_overflow(dims[i], pads.end[i], &dims[i]))
      return ResourceExhausted("pads is too large");
  return dims;
}

Status PadConstant(OpRun& run, const Tensor& x, const Pads& pads, const Tensor& value) {
  INFER_ASSIGN(const Dims dims, PaddedDims(x, pads));
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, x.dtype(), dims));
  Fill(*y, value);
  StridedView to = Dense(dims);
  for (size_t i = 0; i < dims.size(); ++i) to.offset += pads.begin[i] * to.strides[i];
  CopyStrided(x, Dense(x.dims()), *y, to, x.dims());
  return {};
}

/// Axis by axis, so that corners are made of what was padded before.
Status PadByIndex(OpRun& run, Tensor x, const Pads& pads) {
  const std::string& mode = run.Str("mode");
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto a = static_cast<size_t>(axis);
    const int64_t n = x.dims()[a], before = pads.begin[a];
    if (before == 0 && pads.end[a] == 0) continue;
    if (n == 0) return InvalidModel(Cat("cannot pad the empty axis ", axis, " by ", mode));
    Pads one{std::vector<int64_t>(x.dims().size()), std::vector<int64_t>(x.dims().size())};
    one.begin[a] = before;
    one.end[a] = pads.end[a];
    INFER_ASSIGN(Dims dims, PaddedDims(x, one));
    const int64_t padded = dims[a], inner = Product(x.dims(), axis + 1, x.rank());
    INFER_ASSIGN(Tensor * y, MakeOut(run, 0, x.dtype(), dims));
    if (y->num_elements() > 0)
      MoveRuns(x, *y, Product(x.dims(), 0, axis) * padded, inner, [&](int64_t i) {
        return (i / padded * n + SourceOf(mode, i % padded - before, n)) * inner;
      });
    x = *y;
  }
  run.Set(0, std::move(x));
  return {};
}

Status RunPad(OpRun& run) {
  std::vector<int64_t> axes;
  if (run.has(3)) axes = run.in(3).ToInts();
  INFER_ASSIGN(Pads pads,
               PadsOf(run.in(1).ToInts(), run.has(3) ? &axes : nullptr, run.in(0).rank()));
  INFER_ASSIGN(const Tensor x, Crop(run.in(0), pads));
  if (run.Str("mode") != "constant") return PadByIndex(run, x, pads);
  const Tensor* value = run.in_or_null(2);
  if (value && value->num_elements() != 1)
    return InvalidModel("constant_value does not have one element");
  return PadConstant(run, x, pads, value ? *value : ZerosOf(x.dtype(), {}));
}

/// The attribute that `pads` was before it became an input in opset 11.
const char* PadsAttr(int opset) { return opset < 2 ? "paddings" : "pads"; }

/// The value was an attribute before opset 11 too.
Status LiftPad(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 11) {
    AttrToInput(node, PadsAttr(opset), 1, out);
    if (const float value = FloatAttrOr(node, "value", 0); value != 0) {
      const ValueType* type = out.Type(node.inputs[0]);
      Tensor t = Tensor::Scalar<float>(value);
      if (type && type->is_tensor() && IsFloat(type->tensor().dtype))
        t = t.Cast(type->tensor().dtype);
      node.inputs.resize(3);
      node.inputs[2] = out.Constant(std::move(t));
    }
    DropAttr(node, "value");
  }
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerPad(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 18 && node.inputs.size() > 3 && !node.inputs[3].empty())
    return Unsupported(Cat("Pad '", node.name, "' with axes needs opset 18 or newer"));
  if (opset < 19 && StrAttrOr(node, "mode", "constant") == "wrap")
    return Unsupported(Cat("Pad '", node.name, "' by wrap needs opset 19 or newer"));
  if (opset >= 11) return node;
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    const Tensor* value = out.ConstantValue(node.inputs[2]);
    if (!value || value->num_elements() != 1)
      return Unsupported(Cat("Pad '", node.name, "' with a computed value needs opset 11"));
    node.attrs["value"] = static_cast<float>(value->At(0));
  }
  node.inputs.resize(std::min<size_t>(node.inputs.size(), 2));
  INFER_TRY(InputToAttr(node, PadsAttr(opset), 1, out));
  return node;
}

/// The axes that `shape` is about.
Result<std::vector<int>> CropAxes(const OpCall& call, int rank) {
  if (call.HasAttr("axes")) return NormalizeAxes(call.Ints("axes"), rank);
  std::vector<int> all;
  for (int i = 0; i < rank; ++i) all.push_back(i);
  return all;
}

Status InferCenterCropPad(OpCall& call) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  INFER_ASSIGN(const auto axes, CropAxes(call, s.rank()));
  const auto wanted = call.elements(1);
  const Dim entries = call.shape(1).has_rank() ? call.shape(1).num_elements() : Dim();
  if (!Meet(entries, Dim(static_cast<int64_t>(axes.size()))).ok())
    return InvalidModel(
        Cat("shape has ", entries.ToString(), " entries for ", axes.size(), " axes"));
  std::vector<Dim> dims = s.dims();
  for (size_t i = 0; i < axes.size(); ++i)
    dims[static_cast<size_t>(axes[i])] = wanted ? (*wanted)[i] : Dim();
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  return {};
}

/// The odd element is cropped at the right of the centre, padded at the end.
Status RunCenterCropPad(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const auto axes, CropAxes(run.call(), x.rank()));
  const std::vector<int64_t> wanted = run.in(1).ToInts();
  if (wanted.size() != axes.size()) return InvalidModel("shape and axes differ in length");
  Pads pads{std::vector<int64_t>(x.dims().size()), std::vector<int64_t>(x.dims().size())};
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto a = static_cast<size_t>(axes[i]);
    if (wanted[i] < 0) return InvalidModel(Cat("shape has ", wanted[i]));
    const int64_t more = wanted[i] - x.dims()[a];
    pads.begin[a] = more / 2;
    pads.end[a] = more - more / 2;
  }
  INFER_ASSIGN(const Tensor cropped, Crop(x, pads));
  return PadConstant(run, cropped, pads, ZerosOf(x.dtype(), {}));
}

/// Mode "constant" adds elements of one value; other modes repeat elements of the operand.
void PadAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  const auto given = KnownInts(call, 1);
  const auto at = call.has_input(3) ? KnownInts(call, 3) : std::nullopt;
  if (!s.has_rank() || !given || (call.has_input(3) && !at)) return;
  const auto pads = PadsOf(*given, at ? &*at : nullptr, s.rank());
  if (!pads.ok()) return;
  for (int a = 0; a < s.rank(); ++a) {
    const int64_t begin = pads->begin[static_cast<size_t>(a)],
                  end = pads->end[static_cast<size_t>(a)];
    if (begin == 0 && end == 0) {
      LinkSame(call, 0, a, 0, a, links);
    } else if (call.Str("mode") == "constant" && s[a].is_static()) {
      const int64_t kept = s[a].value() + std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0);
      links.push_back({.labels = kept,
                       .from = {.axis = a, .begin = std::max<int64_t>(-begin, 0), .count = kept},
                       .to = {.axis = a, .begin = std::max<int64_t>(begin, 0), .count = kept}});
    }
  }
}

PermuteResult PermutePad(const OpCall& call, const Perm& perm, PermutedCall to) {
  const size_t rank = perm.size();
  if (call.has_input(3)) {
    const auto given = KnownInts(call, 3);
    if (!given) return std::nullopt;
    const auto axes = NormalizeAxes(*given, static_cast<int>(rank));
    if (!axes.ok()) return std::nullopt;
    to.replaced[3] = Tensor::Int64s(MappedAxes(*axes, perm));
    return to;
  }
  const auto pads = KnownInts(call, 1);
  if (!pads || pads->size() != 2 * rank) return std::nullopt;
  std::vector<int64_t> mapped(2 * rank);
  for (size_t i = 0; i < rank; ++i) {
    mapped[static_cast<size_t>(perm[i])] = (*pads)[i];
    mapped[static_cast<size_t>(perm[i]) + rank] = (*pads)[i + rank];
  }
  to.replaced[1] = Tensor::Int64s(mapped);
  return to;
}

}  // namespace

std::span<const OpDef> PadOps() {
  static const OpDef ops[] = {
      {
          .name = "Pad",
          .doc = "Adds elements around a tensor: a constant, its edge, its reflection or itself.",
          .traits = Trait::kMove | Trait::kEnlarging,
          .axes = PadAxes,
          .permute = PermutePad,
          .since = 11,
          .versions = {1, 2, 11, 13, 18, 19, 21, 23, 24, 25},
          .inputs = {{"data", "T"},
                     {"pads", "i64", Arity::kOne, 11},
                     {"constant_value", "T", Arity::kOptional, 11},
                     {"axes", "Tind", Arity::kOptional, 18}},
          .outputs = {{"output", "T"}},
          .attrs = {{"mode", AttrKind::kString, std::string("constant")}},
          .constraints = {{"T", kAllTypes}, {"Tind", kIndexTypes}},
          .tolerance = 0,
          .infer = InferPad,
          .reference = RunPad,
          .lift = LiftPad,
          .lower = LowerPad,
          .example = R"(graph g(x: f32[2,3]) -> (y) {
            p = const i64[4] {0, 1, 2, -1} v = const f32[] {0.5} y = Pad(x, p, v) })",
      },
      {
          .name = "CenterCropPad",
          .doc = "Crops or zero-pads around the centre to the given extents.",
          .traits = Trait::kMove,
          .since = 18,
          .versions = {18},
          .inputs = {{"input_data", "T"}, {"shape", "Tind"}},
          .outputs = {{"output_data", "T"}},
          .attrs = {{"axes", AttrKind::kInts}},
          .constraints = {{"T", kMovable}, {"Tind", kIndexTypes}},
          .tolerance = 0,
          .infer = InferCenterCropPad,
          .reference = RunCenterCropPad,
          .decompose = DecomposeCenterCropPad,
          .example =
              "graph g(x: f32[5,4]) -> (y) { s = const i64[2] {2, 7} y = CenterCropPad(x, s) }",
      },
  };
  return ops;
}

}  // namespace infer
