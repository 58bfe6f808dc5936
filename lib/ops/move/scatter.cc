/// ScatterElements, ScatterND, TensorScatter and the retired Scatter: writing by index.
#include <algorithm>

#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

Result<Reduction> ReductionOf(const OpCall& call) {
  constexpr std::pair<std::string_view, Reduction> kNames[] = {{"none", Reduction::kNone},
                                                               {"add", Reduction::kAdd},
                                                               {"mul", Reduction::kMul},
                                                               {"max", Reduction::kMax},
                                                               {"min", Reduction::kMin}};
  for (const auto& [name, r] : kNames)
    if (name == call.Str("reduction")) return r;
  return InvalidModel(Cat("no reduction '", call.Str("reduction"), "'"));
}

/// NaN wins, as in NumPy's maximum.
template <typename T>
T Combine(Reduction r, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return r == Reduction::kAdd || r == Reduction::kMax ? a || b : a && b;
  } else {
    switch (r) {
      case Reduction::kAdd: return static_cast<T>(a + b);
      case Reduction::kMul: return static_cast<T>(a * b);
      case Reduction::kMax: return a > b || a != a ? a : b;
      case Reduction::kMin: return a < b || a != a ? a : b;
      default: return b;
    }
  }
}

/// y's run of `run` elements at to(i) takes update run i, in order, so that later ones win.
template <typename F>
Status ScatterRuns(const Tensor& updates, Tensor& y, int64_t count, int64_t run, Reduction r,
                   F to) {
  if (r == Reduction::kNone) {
    const RunCopier copy(updates, y, run);
    for (int64_t i = 0; i < count; ++i) copy(i * run, to(i));
    return {};
  }
  const bool ok = DispatchReal(y.dtype(), [&]<typename T>(T) {
    const T* in = updates.data<T>().data();
    T* out = y.mutable_data<T>().data();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = to(i);
      for (int64_t k = 0; k < run; ++k) {
        if constexpr (std::is_same_v<T, Half>)
          out[at + k].bits = FloatToF16(Combine<float>(r, out[at + k], in[i * run + k]));
        else if constexpr (std::is_same_v<T, BFloat16>)
          out[at + k].bits = FloatToBF16(Combine<float>(r, out[at + k], in[i * run + k]));
        else
          out[at + k] = Combine<T>(r, out[at + k], in[i * run + k]);
      }
    }
  });
  return ok ? Status() : Unsupported(Cat("no reduction over ", Name(y.dtype())));
}

/// The result of scattering is the operand with some elements replaced.
Status InferScatter(OpCall& call) {
  INFER_TRY(ReductionOf(call).status());
  call.SetOut(0, call.in(0));
  return {};
}

Status InferScatterElements(OpCall& call) {
  const Shape &s = call.shape(0), &indices = call.shape(1);
  if (s.has_rank()) INFER_TRY(NormalizeAxis(call.Int("axis"), s.rank()).status());
  if (s.has_rank() && indices.has_rank() && s.rank() != indices.rank())
    return InvalidModel(Cat("data has rank ", s.rank(), ", indices ", indices.rank()));
  INFER_TRY(Meet(indices, call.shape(2)).status());
  return InferScatter(call);
}

Status RunScatterElements(OpRun& run) {
  const Tensor &x = run.in(0), &index = run.in(1), &updates = run.in(2);
  INFER_ASSIGN(const Reduction reduction, ReductionOf(run.call()));
  if (x.rank() != index.rank() || updates.dims() != index.dims())
    return InvalidModel(Cat("data ", ToString(x.dims()), ", indices ", ToString(index.dims()),
                            " and updates ", ToString(updates.dims()), " do not fit"));
  INFER_ASSIGN(const auto to, ElementOffsets(x, index, run.Int("axis")));
  Tensor y = x.Clone();
  INFER_TRY(ScatterRuns(updates, y, index.num_elements(), 1, reduction,
                        [&](int64_t i) { return to[static_cast<size_t>(i)]; }));
  run.Set(0, std::move(y));
  return {};
}

/// Known elements of a small vector, some replaced: how shapes are edited by exporters.
void PropagateScatterND(OpCall& call) {
  auto data = call.elements(0);
  const auto indices = KnownInts(call, 1);
  const auto updates = call.elements(2);
  const Shape& s = call.shape(1);
  if (!data || !indices || !updates || call.Str("reduction") != "none") return;
  if (!s.has_rank() || s.rank() < 1 || !s[-1].KnownEqual(1) || indices->size() != updates->size())
    return;
  const auto n = static_cast<int64_t>(data->size());
  for (size_t i = 0; i < indices->size(); ++i) {
    const int64_t at = (*indices)[i];
    if (at < -n || at >= n) return;
    (*data)[static_cast<size_t>(at < 0 ? at + n : at)] = (*updates)[i];
  }
  call.SetElements(0, *std::move(data));
}

Status InferScatterND(OpCall& call) {
  INFER_TRY(InferScatter(call));
  const Shape &s = call.shape(0), &indices = call.shape(1);
  if (s.has_rank() && indices.has_rank() && indices.rank() >= 1 && indices[-1].is_static() &&
      indices[-1].value() > s.rank())
    return InvalidModel(
        Cat("indices ", indices.ToString(), " are deeper than data ", s.ToString()));
  PropagateScatterND(call);
  return {};
}

Status RunScatterND(OpRun& run) {
  const Tensor &x = run.in(0), &index = run.in(1), &updates = run.in(2);
  INFER_ASSIGN(const Reduction reduction, ReductionOf(run.call()));
  if (index.rank() < 1 || index.dim(-1) > x.rank())
    return InvalidModel(
        Cat("indices ", ToString(index.dims()), " do not fit ", ToString(x.dims())));
  const auto depth = static_cast<int>(index.dim(-1));
  const int64_t count = Product(index.dims(), 0, index.rank() - 1);
  const int64_t inner = Product(x.dims(), depth, x.rank());
  if (updates.num_elements() != count * inner)
    return InvalidModel(Cat("updates ", ToString(updates.dims()), " do not fit indices ",
                            ToString(index.dims()), " into ", ToString(x.dims())));
  const Dims strides = Strides(x.dims());
  std::vector<int64_t> to(static_cast<size_t>(count), 0);
  for (int64_t i = 0; i < count; ++i)
    for (int k = 0; k < depth; ++k) {
      const int64_t at = index.IntAt(i * depth + k), extent = x.dim(k);
      if (at < -extent || at >= extent)
        return InvalidModel(Cat("index ", at, " is out of range for an extent of ", extent));
      to[static_cast<size_t>(i)] += (at < 0 ? at + extent : at) * strides[static_cast<size_t>(k)];
    }
  Tensor y = x.Clone();
  INFER_TRY(ScatterRuns(updates, y, count, inner, reduction,
                        [&](int64_t i) { return to[static_cast<size_t>(i)]; }));
  run.Set(0, std::move(y));
  return {};
}

/// Scatter was renamed ScatterElements in opset 11.
Status LiftScatter(NodeSpec node, int, LiftContext& out) {
  node.op = "ScatterElements";
  out.Emit(std::move(node));
  return {};
}

Status InferTensorScatter(OpCall& call) {
  const Shape& s = call.shape(0);
  if (call.Str("mode") != "linear" && call.Str("mode") != "circular")
    return InvalidModel(Cat("no mode '", call.Str("mode"), "'"));
  if (s.has_rank()) {
    INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), s.rank()));
    if (axis == 0) return InvalidModel("axis 0 is the batch");
  }
  call.SetOut(0, call.in(0));
  return {};
}

/// present[b, ..., (w[b] + t) mod S, ...] = update[b, ..., t, ...].
Status RunTensorScatter(OpRun& run) {
  const Tensor &x = run.in(0), &update = run.in(1);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), x.rank()));
  bool fits = axis > 0 && update.rank() == x.rank();
  for (int k = 0; fits && k < x.rank(); ++k)
    fits = k == axis ? update.dim(k) <= x.dim(k) : update.dim(k) == x.dim(k);
  if (fits && run.has(2)) fits = run.in(2).num_elements() == x.dim(0);
  if (!fits)
    return InvalidModel(
        Cat("update ", ToString(update.dims()), " does not fit cache ", ToString(x.dims())));
  const bool circular = run.Str("mode") == "circular";
  const int64_t capacity = x.dim(axis), length = update.dim(axis);
  const int64_t inner = Product(x.dims(), axis + 1, x.rank());
  const int64_t rows = Product(x.dims(), 1, axis);
  Tensor y = x.Clone();
  const RunCopier copy(update, y, inner);
  for (int64_t b = 0; b < x.dim(0); ++b) {
    const int64_t start = run.has(2) ? run.in(2).IntAt(b) : 0;
    if (start < 0 || (!circular && start > capacity - length))
      return InvalidModel(Cat("write index ", start, " is out of range"));
    for (int64_t r = b * rows; r < (b + 1) * rows; ++r)
      for (int64_t t = 0; t < length; ++t) {
        const int64_t at = circular ? (start % capacity + t) % capacity : start + t;
        copy((r * length + t) * inner, (r * capacity + at) * inner);
      }
  }
  run.Set(0, std::move(y));
  return {};
}

/// An update moves along one axis; on all others it stays where its index lies. Fewer indices than
/// elements reach the first ones alone, which then are not like the others.
void ScatterElementsAxes(const OpCall& call, AxisLinks& links) {
  const Shape &s = call.shape(0), &indices = call.shape(1);
  if (!s.has_rank() || !indices.has_rank() || indices.rank() != s.rank()) return;
  const auto axis = NormalizeAxis(call.Int("axis"), s.rank());
  if (!axis.ok()) return;
  for (int i = 0; i < s.rank(); ++i)
    for (size_t in = 0; in < 3 && i != *axis && indices[i].KnownEqual(s[i]); ++in)
      LinkSame(call, in, i, 0, i, links);
}

/// Samples, each with an index of its own.
void TensorScatterAxes(const OpCall& call, AxisLinks& links) {
  for (size_t in = 0; in < 3; ++in) LinkSame(call, in, 0, 0, 0, links);
}

}  // namespace

std::span<const OpDef> ScatterOps() {
  static const OpDef ops[] = {
      {
          .name = "ScatterElements",
          .doc = "`data` with single elements replaced or reduced, displaced along one axis.",
          .traits = Trait::kMove,
          .axes = ScatterElementsAxes,
          .since = 11,
          .versions = {11, 13, 16, 18},
          .inputs = {{"data", "T"}, {"indices", "Tind"}, {"updates", "T"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{0}},
                    {"reduction", AttrKind::kString, std::string("none"), false, 16}},
          .constraints = {{"T", kMovable}, {"Tind", kIndexTypes}},
          .tolerance = 0,
          .infer = InferScatterElements,
          .reference = RunScatterElements,
          .example = R"(graph g(x: f32[2,3], u: f32[1,2]) -> (y) {
            i = const i64[1,2] {1, 0} y = ScatterElements(x, i, u) {reduction="add"} })",
      },
      {
          .name = "ScatterND",
          .doc = "`data` with slices replaced or reduced, picked by index tuples.",
          .traits = Trait::kMove,
          .since = 11,
          .versions = {11, 13, 16, 18},
          .inputs = {{"data", "T"}, {"indices", "i64"}, {"updates", "T"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"reduction", AttrKind::kString, std::string("none"), false, 16}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferScatterND,
          .reference = RunScatterND,
          .example = R"(graph g(x: f32[3,4], u: f32[2,4]) -> (y) {
            i = const i64[2,1] {2, 0} y = ScatterND(x, i, u) })",
      },
      {
          .name = "Scatter",
          .doc = "The older name of ScatterElements.",
          .traits = Trait::kMove,
          .since = 9,
          .versions = {9, 11},
          .inputs = {{"data", "T"}, {"indices", "Tind"}, {"updates", "T"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", kClassicTypes}, {"Tind", kIndexTypes}},
          .lift = LiftScatter,
      },
      {
          .name = "TensorScatter",
          .doc = "A key/value cache with new entries written at each batch entry's index.",
          .traits = Trait::kMove,
          .axes = TensorScatterAxes,
          .since = 24,
          .versions = {24},
          .inputs = {{"past_cache", "T"},
                     {"update", "T"},
                     {"write_indices", "i64", Arity::kOptional}},
          .outputs = {{"present_cache", "T"}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{-2}},
                    {"mode", AttrKind::kString, std::string("linear")}},
          .constraints = {{"T", kAllTypes - TypeSet(DType::kU2, DType::kI2)}},
          .tolerance = 0,
          .infer = InferTensorScatter,
          .reference = RunTensorScatter,
          .example = R"(graph g(x: f32[2,4,3], u: f32[2,1,3]) -> (y) {
            w = const i64[2] {1, 3} y = TensorScatter(x, u, w) })",
      },
  };
  return ops;
}

}  // namespace infer
