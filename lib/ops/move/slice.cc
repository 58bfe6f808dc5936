/// Slice.
#include <algorithm>
#include <numeric>

#include "lib/ops/move/move.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"
#include "lib/support/strings.h"
#include "lib/tensor/equations.h"

namespace infer {
namespace {

/// One axis of a slice after clamping: elements start, start + step, ..., count of them.
struct Range1 {
  int64_t start = 0, step = 1, count = 0;
};

/// Negative positions count from the end, then everything is clamped. As in NumPy, but for a start
/// before the first element with a negative step: ONNX begins at that element then.
Range1 Resolve(int64_t start, int64_t end, int64_t step, int64_t extent) {
  Range1 r;
  r.step = step;
  if (extent == 0) return r;
  const int64_t highest = step > 0 ? extent : extent - 1;
  auto clamp = [&](int64_t i, int64_t lowest) {
    if (i < 0) i = i < -extent ? lowest : i + extent;
    return std::clamp(i, lowest, highest);
  };
  r.start = clamp(start, 0);
  const int64_t distance = clamp(end, step > 0 ? 0 : -1) - r.start;
  if (step > 0)
    r.count = distance > 0 ? (distance - 1) / step + 1 : 0;
  else
    r.count = distance < 0 ? (distance + 1) / step + 1 : 0;
  return r;
}

/// Starts, ends, steps per axis of the operand; an axis that is not sliced has step 0.
struct SliceSpec {
  std::vector<Dim> starts, ends;
  std::vector<int64_t> steps;
};

/// Negative for every positive value of its symbols.
bool IsNegative(const Dim& d) {
  if (d.is_static()) return d.value() < 0;
  return d.is_symbolic() && (Dim(0) - d).ToString().find('-') == std::string::npos;
}

/// Whether `start`, which counts from the end, lies within a symbolic extent, whatever that is.
/// Symbols are positive.
bool IsWithin(const Dim& extent, const Dim& start) {
  const Dim from = extent + start;
  return start.KnownEqual(-1) ||
         (from.is_symbolic() && from.ToString().find('-') == std::string::npos);
}

/// The extent after slicing a symbolic axis. Symbolic bounds are taken to lie within the extent,
/// as exporters mean them (past : past + length).
Dim SymbolicExtent(const Dim& extent, const Dim& start, const Dim& end, int64_t step) {
  constexpr int64_t kFar = INT32_MAX;
  if (step == -1 && start.KnownEqual(-1) && end.is_static() && end.value() <= -kFar) return extent;
  if (step < 1 || start.is_unknown() || end.is_unknown()) return {};
  if (start.is_static() && IsNegative(start) && !extent.is_static() && !IsWithin(extent, start))
    return {};  // min(-start, extent)
  const Dim from = IsNegative(start) ? extent + start : start;
  Dim to = end;
  if (end.is_static() && end.value() >= kFar)
    to = extent;
  else if (IsNegative(end))
    to = extent + end;
  else if (end.is_static() && !extent.is_static())
    return {};  // min(end, extent)
  if (extent.is_static() && to.is_static()) to = std::min(to.value(), extent.value());
  // An end that is computed is one that there is; nearly always the last.
  if (extent.is_symbolic() && to.is_symbolic()) StateBroadcast(extent, to);
  const Dim length = to - from;
  if (length.is_static() && length.value() < 0) return 0;
  return length.CeilDiv(step);
}

Status InferSlice(OpCall& call) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  const Dim listed = LengthOf(call, 1);
  auto axes = call.has_input(3) ? KnownInts(call, 3) : std::nullopt;
  if (!call.has_input(3) && listed.is_static()) {
    if (listed.value() > s.rank())
      return InvalidModel(
          Cat("starts has ", listed.value(), " entries, the operand ", s.rank(), " axes"));
    axes.emplace();
    for (int64_t i = 0; i < listed.value(); ++i) axes->push_back(i);
  }
  if (!axes) {
    call.SetOut(0, call.dtype(0), UnknownOfRank(s.rank()));
    return {};
  }
  INFER_ASSIGN(const auto at, NormalizeAxes(*axes, s.rank()));
  const auto known_starts = KnownInts(call, 1), known_ends = KnownInts(call, 2);
  const auto starts = call.elements(1), ends = call.elements(2);
  auto steps = call.has_input(4) ? KnownInts(call, 4) : std::vector<int64_t>(at.size(), 1);
  auto wrong = [&](const auto& v) { return v && v->size() != at.size(); };
  if (wrong(starts) || wrong(ends) || wrong(known_starts) || wrong(known_ends) || wrong(steps))
    return InvalidModel("starts, ends, axes and steps differ in length");
  if (steps && std::find(steps->begin(), steps->end(), 0) != steps->end())
    return InvalidModel("a step is 0");
  std::vector<Dim> dims = s.dims();
  for (size_t i = 0; i < at.size(); ++i) {
    Dim& d = dims[static_cast<size_t>(at[i])];
    if (!steps)
      d = Dim();
    else if (d.is_static() && known_starts && known_ends)
      d = Resolve((*known_starts)[i], (*known_ends)[i], (*steps)[i], d.value()).count;
    else
      d = SymbolicExtent(d,
                         known_starts ? Dim((*known_starts)[i])
                         : starts     ? (*starts)[i]
                                      : Dim(),
                         known_ends ? Dim(std::max((*known_ends)[i], INT64_MIN + 1))
                         : ends     ? (*ends)[i]
                                    : Dim(),
                         (*steps)[i]);
  }
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  const auto e = s.rank() == 1 ? call.elements(0) : std::nullopt;
  if (e && steps && known_starts && known_ends && at.size() == 1) {
    const Range1 r =
        Resolve((*known_starts)[0], (*known_ends)[0], (*steps)[0], static_cast<int64_t>(e->size()));
    std::vector<Dim> out;
    for (int64_t i = 0; i < r.count; ++i)
      out.push_back((*e)[static_cast<size_t>(r.start + i * r.step)]);
    call.SetElements(0, std::move(out));
  }
  return {};
}

Status RunSlice(OpRun& run) {
  const Tensor& x = run.in(0);
  const std::vector<int64_t> starts = run.in(1).ToInts(), ends = run.in(2).ToInts();
  std::vector<int64_t> axes, steps(starts.size(), 1);
  if (run.has(3)) {
    axes = run.in(3).ToInts();
  } else {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (run.has(4)) steps = run.in(4).ToInts();
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return InvalidModel("starts, ends, axes and steps differ in length");
  INFER_ASSIGN(const auto at, NormalizeAxes(axes, x.rank()));
  Dims dims = x.dims();
  StridedView from = Dense(x.dims());
  for (size_t i = 0; i < at.size(); ++i) {
    if (steps[i] == 0) return InvalidModel("a step is 0");
    const auto a = static_cast<size_t>(at[i]);
    const Range1 r = Resolve(starts[i], ends[i], steps[i], x.dims()[a]);
    dims[a] = r.count;
    from.offset += r.start * from.strides[a];
    // A step beyond the extent is taken once at most; it must not overflow.
    from.strides[a] *= r.count > 1 ? r.step : 0;
  }
  Tensor& y = run.Out(0, x.dtype(), dims);
  CopyStrided(x, from, y, Dense(dims), dims);
  return {};
}

/// Before opset 10 starts, ends and axes were attributes.
Status LiftSlice(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 10) {
    AttrToInput(node, "starts", 1, out);
    AttrToInput(node, "ends", 2, out);
    AttrToInput(node, "axes", 3, out);
  }
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerSlice(NodeSpec node, int opset, LiftContext& out) {
  if (opset >= 10) return node;
  if (node.inputs.size() > 4 && !node.inputs[4].empty()) {
    const Tensor* steps = out.ConstantValue(node.inputs[4]);
    bool ones = steps != nullptr;
    for (int64_t i = 0; ones && i < steps->num_elements(); ++i) ones = steps->IntAt(i) == 1;
    if (!ones) return Unsupported("Slice with steps needs opset 10 or newer");
    node.inputs.resize(4);
  }
  INFER_TRY(InputToAttr(node, "axes", 3, out));
  INFER_TRY(InputToAttr(node, "ends", 2, out));
  INFER_TRY(InputToAttr(node, "starts", 1, out));
  return node;
}

/// Reads what it writes, not the whole operand.
Cost SliceCost(const OpCall& call) {
  const int64_t bytes = TrafficOf(call).bytes_written;
  return {0, bytes, bytes};
}

/// Axes that are cut at positions that are not known have no link.
void SliceAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) return;
  const auto starts = KnownInts(call, 1), ends = KnownInts(call, 2);
  const size_t count = starts ? starts->size() : 0;
  std::vector<int64_t> given(count), steps(count, 1);
  std::iota(given.begin(), given.end(), 0);
  if (call.has_input(3)) given = KnownInts(call, 3).value_or(std::vector<int64_t>());
  if (call.has_input(4)) steps = KnownInts(call, 4).value_or(std::vector<int64_t>());
  const auto at = NormalizeAxes(given, s.rank());
  if (!at.ok() || at->empty()) return;
  LinkAllBut(call, *at, links);
  if (!starts || !ends || starts->size() != at->size() || ends->size() != at->size() ||
      steps.size() != at->size())
    return;
  for (size_t i = 0; i < at->size(); ++i) {
    const Dim& d = s[(*at)[i]];
    if (!d.is_static()) continue;
    const Range1 r = Resolve((*starts)[i], (*ends)[i], steps[i], d.value());
    links.push_back({.labels = r.count,
                     .from = {.axis = (*at)[i], .begin = r.start, .step = r.step, .count = r.count},
                     .to = {.axis = (*at)[i]}});
  }
}

PermuteResult PermuteSlice(const OpCall& call, const Perm& perm, PermutedCall to) {
  const auto rank = static_cast<int>(perm.size());
  const Dim count = LengthOf(call, 1);
  std::vector<int64_t> given;
  if (call.has_input(3)) {
    const auto known = KnownInts(call, 3);
    if (!known) return std::nullopt;
    given = *known;
  } else {
    if (!count.is_static() || count.value() > rank) return std::nullopt;
    given.resize(static_cast<size_t>(count.value()));
    std::iota(given.begin(), given.end(), 0);
  }
  const auto axes = NormalizeAxes(given, rank);
  if (!axes.ok()) return std::nullopt;
  to.replaced[3] = Tensor::Int64s(MappedAxes(*axes, perm));
  return to;
}

}  // namespace

std::span<const OpDef> SliceOps() {
  static const OpDef ops[] = {{
      .name = "Slice",
      .doc = "Elements start, start + step, ... below end, along the given axes.",
      .traits = Trait::kMove | Trait::kStrided,
      .axes = SliceAxes,
      .permute = PermuteSlice,
      .since = 10,
      .versions = {1, 10, 11, 13},
      .inputs = {{"data", "T"},
                 {"starts", "Tind", Arity::kOne, 10},
                 {"ends", "Tind", Arity::kOne, 10},
                 {"axes", "Tind", Arity::kOptional, 10},
                 {"steps", "Tind", Arity::kOptional, 10}},
      .outputs = {{"output", "T"}},
      .constraints = {{"T", kMovable}, {"Tind", kIndexTypes}},
      .tolerance = 0,
      .infer = InferSlice,
      .reference = RunSlice,
      .cost = SliceCost,
      .lift = LiftSlice,
      .lower = LowerSlice,
      .example = R"(graph g(x: f32[4,6]) -> (y) {
            s = const i64[2] {1, -1} e = const i64[2] {9, -7} a = const i64[2] {0, 1}
            t = const i64[2] {1, -2} y = Slice(x, s, e, a, t) })",
  }};
  return ops;
}

}  // namespace infer
