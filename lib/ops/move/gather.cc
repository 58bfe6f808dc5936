/// Gather, GatherElements, GatherND, Compress, ReverseSequence: reading by index.
#include <algorithm>

#include "lib/ops/move/move.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Reads what it writes and its indices, not the whole table.
Cost GatherCost(const OpCall& call) {
  const Cost all = TrafficOf(call);
  int64_t indices = 0;
  if (call.in(1).is_static())
    if (auto n = CheckedNumElements(call.shape(1).static_dims()))
      indices = PackedBytes(call.dtype(1), *n);
  return {0, all.bytes_written + indices, all.bytes_written};
}

void PropagateGather(OpCall& call) {
  const auto data = call.elements(0);
  const auto indices = KnownInts(call, 1);
  if (!data || !indices || call.shape(0).rank() != 1 || call.shape(1).rank() > 1) return;
  std::vector<Dim> out;
  const auto n = static_cast<int64_t>(data->size());
  for (int64_t i : *indices) {
    if (i < -n || i >= n) return;
    out.push_back((*data)[static_cast<size_t>(i < 0 ? i + n : i)]);
  }
  call.SetElements(0, std::move(out));
}

Status InferGather(OpCall& call) {
  const Shape &s = call.shape(0), &indices = call.shape(1);
  if (!s.has_rank() || !indices.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), s.rank()));
  if (const auto known = KnownInts(call, 1); known && s[axis].is_static()) {
    const int64_t n = s[axis].value();
    for (int64_t i : *known)
      if (i < -n || i >= n)
        return InvalidModel(Cat("index ", i, " is out of range for an extent of ", n));
  }
  std::vector<Dim> dims(s.dims().begin(), s.dims().begin() + axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), s.dims().begin() + axis + 1, s.dims().end());
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  PropagateGather(call);
  return {};
}

Status RunGather(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), x.rank()));
  const int64_t extent = x.dim(axis), inner = Product(x.dims(), axis + 1, x.rank());
  INFER_ASSIGN(const auto indices, NormalizeIndices(run.in(1), extent));
  const auto n = static_cast<int64_t>(indices.size());
  Dims dims(x.dims().begin(), x.dims().begin() + axis);
  dims.insert(dims.end(), run.in(1).dims().begin(), run.in(1).dims().end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, x.dtype(), std::move(dims)));
  if (y->num_elements() == 0) return {};
  MoveRuns(x, *y, Product(x.dims(), 0, axis) * n, inner, [&](int64_t i) {
    return (i / n * extent + indices[static_cast<size_t>(i % n)]) * inner;
  });
  return {};
}

Status InferGatherElements(OpCall& call) {
  const Shape &s = call.shape(0), &indices = call.shape(1);
  if (s.has_rank() && indices.has_rank() && s.rank() != indices.rank())
    return InvalidModel(Cat("data has rank ", s.rank(), ", indices ", indices.rank()));
  if (s.has_rank()) {
    INFER_ASSIGN([[maybe_unused]] const int axis, NormalizeAxis(call.Int("axis"), s.rank()));
  }
  call.SetOut(0, call.dtype(0),
              indices.has_rank() || !s.has_rank() ? indices : UnknownOfRank(s.rank()));
  PropagateGather(call);
  return {};
}

Status RunGatherElements(OpRun& run) {
  const Tensor &x = run.in(0), &index = run.in(1);
  if (x.rank() != index.rank()) return InvalidModel("data and indices differ in rank");
  INFER_ASSIGN(const auto from, ElementOffsets(x, index, run.Int("axis")));
  Tensor& y = run.Out(0, x.dtype(), index.dims());
  MoveRuns(x, y, y.num_elements(), 1, [&](int64_t i) { return from[static_cast<size_t>(i)]; });
  return {};
}

Status InferGatherND(OpCall& call) {
  const Shape &s = call.shape(0), &indices = call.shape(1);
  const int64_t batch = call.Int("batch_dims");
  if (!s.has_rank() || !indices.has_rank() || indices.rank() < 1 || !indices[-1].is_static()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  const int64_t depth = indices[-1].value();
  if (batch < 0 || batch >= std::min(s.rank(), indices.rank()) || depth < 1 ||
      batch + depth > s.rank())
    return InvalidModel(Cat("indices ", indices.ToString(), " do not fit data ", s.ToString(),
                            " with batch_dims ", batch));
  std::vector<Dim> dims(indices.dims().begin(), indices.dims().end() - 1);
  dims.insert(dims.end(), s.dims().begin() + batch + depth, s.dims().end());
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  return {};
}

Status RunGatherND(OpRun& run) {
  const Tensor &x = run.in(0), &index = run.in(1);
  const int64_t wanted_batch = run.Int("batch_dims");
  const int64_t wanted_depth = index.rank() < 1 ? 0 : index.dim(-1);
  bool fits = wanted_batch >= 0 && wanted_depth >= 1 &&
              wanted_batch < std::min(index.rank(), x.rank()) &&
              wanted_depth <= x.rank() - wanted_batch;
  const int batch = fits ? static_cast<int>(wanted_batch) : 0;
  const int depth = fits ? static_cast<int>(wanted_depth) : 0;
  for (int k = 0; fits && k < batch; ++k) fits = x.dim(k) == index.dim(k);
  if (!fits)
    return InvalidModel(Cat("indices ", ToString(index.dims()), " do not fit data ",
                            ToString(x.dims()), " with batch_dims ", wanted_batch));
  Dims dims(index.dims().begin(), index.dims().end() - 1);
  dims.insert(dims.end(), x.dims().begin() + batch + depth, x.dims().end());
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, x.dtype(), std::move(dims)));
  const int64_t count = index.num_elements() / depth;
  const int64_t per_batch = Product(index.dims(), batch, index.rank() - 1);
  const Dims strides = Strides(x.dims());
  std::vector<int64_t> from(static_cast<size_t>(count), 0);
  const int64_t batch_stride = Product(x.dims(), batch, x.rank());
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = i / per_batch * batch_stride;
    for (int k = 0; k < depth; ++k) {
      const int axis = batch + k;
      const int64_t extent = x.dim(axis);
      const int64_t raw = index.IntAt(i * depth + k);
      if (raw < -extent || raw >= extent)
        return InvalidModel(Cat("index ", raw, " is out of range for an extent of ", extent));
      at += (raw < 0 ? raw + extent : raw) * strides[static_cast<size_t>(axis)];
    }
    from[static_cast<size_t>(i)] = at;
  }
  MoveRuns(x, *y, count, Product(x.dims(), batch + depth, x.rank()),
           [&](int64_t i) { return from[static_cast<size_t>(i)]; });
  return {};
}

Status InferCompress(OpCall& call) {
  const Shape& s = call.shape(0);
  if (!call.HasAttr("axis")) {
    call.SetOut(0, call.dtype(0), UnknownOfRank(1));
    return {};
  }
  if (!s.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), s.rank()));
  std::vector<Dim> dims = s.dims();
  dims[static_cast<size_t>(axis)] = Dim();
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  return {};
}

/// Without an axis the operand is flattened.
Status RunCompress(OpRun& run) {
  const bool flat = !run.call().HasAttr("axis");
  const Tensor x = flat ? run.in(0).Reshaped({run.in(0).num_elements()}) : run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(flat ? 0 : run.Int("axis"), x.rank()));
  const int64_t extent = x.dim(axis);
  std::vector<int64_t> kept;
  const auto condition = run.in(1).data<bool>();
  for (size_t i = 0; i < condition.size(); ++i) {
    if (!condition[i]) continue;
    if (static_cast<int64_t>(i) >= extent)
      return InvalidModel(Cat("condition selects ", i, " of an extent of ", extent));
    kept.push_back(static_cast<int64_t>(i));
  }
  const auto n = static_cast<int64_t>(kept.size());
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = n;
  Tensor& y = run.Out(0, x.dtype(), std::move(dims));
  if (y.num_elements() == 0) return {};
  const int64_t inner = Product(x.dims(), axis + 1, x.rank());
  MoveRuns(x, y, Product(x.dims(), 0, axis) * n, inner,
           [&](int64_t i) { return (i / n * extent + kept[static_cast<size_t>(i % n)]) * inner; });
  return {};
}

Status InferReverseSequence(OpCall& call) {
  const Shape& s = call.shape(0);
  if (s.has_rank() && s.rank() < 2) return InvalidModel("the operand has fewer than two axes");
  call.SetOut(0, call.in(0));
  return {};
}

Status RunReverseSequence(OpRun& run) {
  const Tensor& x = run.in(0);
  const int64_t batch = run.Int("batch_axis"), time = run.Int("time_axis");
  const bool named = (batch == 0 && time == 1) || (batch == 1 && time == 0);
  if (x.rank() < 2 || !named) return InvalidModel("batch_axis and time_axis are not 0 and 1");
  const std::vector<int64_t> lengths = run.in(1).ToInts();
  const int64_t steps = x.dim(static_cast<int>(time)), second = x.dim(1);
  if (static_cast<int64_t>(lengths.size()) != x.dim(static_cast<int>(batch)))
    return InvalidModel("sequence_lens does not have one entry per batch");
  for (int64_t n : lengths)
    if (n < 0 || n > steps) return InvalidModel(Cat("a sequence of length ", n, " of ", steps));
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  const int64_t inner = Product(x.dims(), 2, x.rank());
  MoveRuns(x, y, x.dim(0) * second, inner, [&](int64_t i) {
    int64_t at[2] = {i / second, i % second};
    const int64_t n = lengths[static_cast<size_t>(at[batch])];
    if (at[time] < n) at[time] = n - 1 - at[time];
    return (at[0] * second + at[1]) * inner;
  });
  return {};
}

void GatherAxes(const OpCall& call, AxisLinks& links) {
  const Shape &x = call.shape(0), &index = call.shape(1);
  if (!x.has_rank() || !index.has_rank()) return;
  const auto axis = NormalizeAxis(call.Int("axis"), x.rank());
  if (!axis.ok()) return;
  for (int a = 0; a < x.rank(); ++a)
    if (a != *axis) LinkSame(call, 0, a, 0, a < *axis ? a : a + index.rank() - 1, links);
  for (int a = 0; a < index.rank(); ++a) LinkSame(call, 1, a, 0, *axis + a, links);
}

/// An index reads its own position of all other axes.
void GatherElementsAxes(const OpCall& call, AxisLinks& links) {
  AllButAxis(call, links);
  LinkBroadcast(call, 1, links);
}

/// Of one index, or a list of them.
PermuteResult PermuteGather(const OpCall& call, const Perm& perm, PermutedCall to) {
  const Shape& index = call.shape(1);
  if (!index.has_rank() || index.rank() > 1) return std::nullopt;
  const auto axis = MapAxis(call, perm, to);
  if (!axis) return std::nullopt;
  if (index.rank() == 0) to.out_perm = WithoutAxes(perm, {*axis});
  return to;
}

/// A tuple reads within its own sample, the first batch_dims axes; what it does not name is read
/// whole.
void GatherNDAxes(const OpCall& call, AxisLinks& links) {
  const Shape &x = call.shape(0), &indices = call.shape(1);
  if (!x.has_rank() || !indices.has_rank() || indices.rank() < 1 || !indices[-1].is_static())
    return;
  const int64_t before = call.Int("batch_dims"), tuple = indices[-1].value();
  if (before < 0 || before > x.rank() || tuple > x.rank() - before) return;
  const auto batch = static_cast<int>(before), named = static_cast<int>(before + tuple);
  for (int i = 0; i + 1 < indices.rank(); ++i) LinkSame(call, 1, i, 0, i, links);
  for (int i = 0; i < batch; ++i) LinkSame(call, 0, i, 0, i, links);
  for (int i = named; i < x.rank(); ++i)
    LinkSame(call, 0, i, 0, indices.rank() - 1 + i - named, links);
}

void CompressAxes(const OpCall& call, AxisLinks& links) {
  if (call.HasAttr("axis")) AllButAxis(call, links);
}

/// All axes but that of time; each sample has a length of its own.
void ReverseSequenceAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) return;
  const auto time = NormalizeAxis(call.Int("time_axis"), s.rank());
  const auto batch = NormalizeAxis(call.Int("batch_axis"), s.rank());
  if (!time.ok() || !batch.ok()) return;
  LinkAllBut(call, {*time}, links);
  LinkSame(call, 1, 0, 0, *batch, links);
}

}  // namespace

std::span<const OpDef> GatherOps() {
  static const OpDef ops[] = {
      {
          .name = "Gather",
          .doc = "Slices of `data` along an axis, picked by index.",
          .traits = Trait::kMove | Trait::kLookup | Trait::kSliceLookup,
          .axes = GatherAxes,
          .permute = PermuteGather,
          .since = 1,
          .versions = {1, 11, 13},
          .inputs = {{"data", "T"}, {"indices", "Tind"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", kMovable}, {"Tind", kIndexTypes}},
          .tolerance = 0,
          .infer = InferGather,
          .reference = RunGather,
          .cost = GatherCost,
          .example = R"(graph g(x: f32[3,4]) -> (y) {
            i = const i64[2] {2, -3} y = Gather(x, i) {axis=1} })",
      },
      {
          .name = "GatherElements",
          .doc = "One element of `data` per index, displaced along one axis.",
          .traits = Trait::kMove | Trait::kLookup,
          .axes = GatherElementsAxes,
          .since = 11,
          .versions = {11, 13},
          .inputs = {{"data", "T"}, {"indices", "Tind"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", kMovable}, {"Tind", kIndexTypes}},
          .tolerance = 0,
          .infer = InferGatherElements,
          .reference = RunGatherElements,
          .cost = GatherCost,
          .example = R"(graph g(x: f32[2,2]) -> (y) {
            i = const i64[2,2] {0, 0, 1, -2} y = GatherElements(x, i) {axis=1} })",
      },
      {
          .name = "GatherND",
          .doc = "Slices of `data` picked by index tuples (the last axis of `indices`).",
          .traits = Trait::kMove | Trait::kLookup,
          .axes = GatherNDAxes,
          .since = 11,
          .versions = {11, 12, 13},
          .inputs = {{"data", "T"}, {"indices", "i64"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"batch_dims", AttrKind::kInt, int64_t{0}, false, 12}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferGatherND,
          .reference = RunGatherND,
          .cost = GatherCost,
          .example = R"(graph g(x: f32[2,3,4]) -> (y) {
            i = const i64[2,2] {0, 1, 1, -1} y = GatherND(x, i) })",
      },
      {
          .name = "Compress",
          .doc = "The slices along an axis (or elements) where the condition holds.",
          .traits = Trait::kMove | Trait::kSelection,
          .axes = CompressAxes,
          .since = 9,
          .versions = {9, 11, 28},
          .inputs = {{"input", "T"}, {"condition", "T1"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"axis", AttrKind::kInt}},
          .constraints = {{"T", kMovable}, {"T1", TypeSet(DType::kBool)}},
          .tolerance = 0,
          .infer = InferCompress,
          .reference = RunCompress,
          .example = "graph g(x: f32[3,2], c: bool[3]) -> (y) { y = Compress(x, c) {axis=0} }",
      },
      {
          .name = "ReverseSequence",
          .doc = "Reverses the first sequence_lens[b] steps of each batch entry.",
          .traits = Trait::kMove,
          .axes = ReverseSequenceAxes,
          .since = 10,
          .versions = {10, 28},
          .inputs = {{"input", "T"}, {"sequence_lens", "i64"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"batch_axis", AttrKind::kInt, int64_t{1}},
                    {"time_axis", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferReverseSequence,
          .reference = RunReverseSequence,
          .example = R"(graph g(x: f32[3,2]) -> (y) {
            n = const i64[2] {3, 2} y = ReverseSequence(x, n) })",
      },
  };
  return ops;
}

}  // namespace infer
