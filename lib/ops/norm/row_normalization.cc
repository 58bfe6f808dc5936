/// Normalizations over rows: LayerNormalization and RMSNormalization.
#include "lib/ops/common.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/norm/moments.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// The shape of input 0, with extents that only the scale tells: it broadcasts to the rows.
Shape RowsShape(const OpCall& call) {
  const Shape &x = call.shape(0), &scale = call.shape(1);
  if (!x.has_rank() || !scale.has_rank() || scale.rank() > x.rank()) return x;
  std::vector<Dim> dims = x.dims();
  for (int i = 1; i <= scale.rank(); ++i) {
    Dim& d = dims[static_cast<size_t>(x.rank() - i)];
    const Dim& told = scale[scale.rank() - i];
    if (!d.is_static() && told.is_static() && told.value() > 1) d = told;
  }
  return Shape(std::move(dims));
}

/// A scale or bias that is not one for all rows: Unsupported where it broadcasts to `x`, else
/// InvalidModel.
Status RefuseOverRows(const OpCall& call, size_t i, const Shape& operand, const Shape& x,
                      int axis) {
  const std::string what =
      Cat(call.def().name, ": input ", i, " is ", operand.ToString(), ", the rows are ",
          Shape(std::vector<Dim>(x.dims().begin() + axis, x.dims().end())).ToString());
  const auto both = Broadcast(operand, x);
  const bool broadcasts = both.ok() && both->rank() == x.rank() && Meet(*both, x).ok();
  return broadcasts ? Unsupported(Cat(what, "; other numbers for each row are not supported"))
                    : InvalidModel(what);
}

/// Scale and bias broadcast over the rows, which begin at `axis` of `x`.
Status CheckOverRows(const OpCall& call, const Shape& x, int axis) {
  const auto fits = [&](const Shape& s) {
    for (int i = 1; i <= s.rank(); ++i) {
      const Dim& d = s[-i];
      if (d.is_static() && d.value() != 1 && (i > x.rank() - axis || !Meet(d, x[-i]).ok()))
        return false;
    }
    return true;
  };
  for (size_t i : {1, 2})
    if (call.has_input(i) && call.shape(i).has_rank() && !fits(call.shape(i)))
      return RefuseOverRows(call, i, call.shape(i), x, axis);
  return {};
}

Status InferLayerNorm(OpCall& call) {
  const Shape x = RowsShape(call);
  const DType t = call.dtype(0);
  call.SetOut(0, t, x);
  const DType statistics = t == DType::kF64 ? DType::kF64 : DType::kF32;
  for (size_t i : {size_t{1}, size_t{2}}) call.SetOut(i, statistics, Shape());
  if (!x.has_rank()) return {};
  INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), x.rank()));
  INFER_TRY(CheckOverRows(call, x, axis));
  std::vector<Dim> dims = x.dims();
  std::fill(dims.begin() + axis, dims.end(), Dim(1));
  for (size_t i : {size_t{1}, size_t{2}}) call.SetOut(i, statistics, Shape(dims));
  return {};
}

Status InferRmsNorm(OpCall& call) {
  const Shape x = RowsShape(call);
  if (x.has_rank()) {
    INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), x.rank()));
    INFER_TRY(CheckOverRows(call, x, axis));
  }
  call.SetOut(0, call.dtype(1), x);
  return {};
}

/// Rows of elements from `axis` on: y = (x - mean) / sqrt(var + eps) scale + bias, or with
/// mean = 0 and the mean square (RMS).
Status NormalizeRows(OpRun& run, bool centred) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), std::max(x.rank(), 1)));
  const auto at = static_cast<size_t>(axis);
  const int64_t rows = ElementsBetween(x.dims(), 0, at),
                n = ElementsBetween(x.dims(), at, x.dims().size());
  // Scale and bias broadcast over the row (they may be shorter than it).
  const Dims row_dims(x.dims().begin() + axis, x.dims().end());
  std::vector<double> scale(static_cast<size_t>(n), 1), bias(static_cast<size_t>(n), 0);
  for (size_t operand : {size_t{1}, size_t{2}}) {
    const Tensor* t = run.in_or_null(operand);
    if (!t) continue;
    auto shape = Broadcast(t->dims(), row_dims);
    if (!shape.ok() || NumElements(*shape) != n)
      return RefuseOverRows(run.call(), operand, Shape(t->dims()), Shape(x.dims()), axis);
    auto& target = operand == 1 ? scale : bias;
    const Dims operands[] = {t->dims()};
    const StridedLoop loop = StridedLoop::Broadcast(*shape, operands);
    loop.ForEachRow(0, n, [&](int64_t out, const int64_t* offsets, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        target[static_cast<size_t>(out + i)] = t->At(offsets[0] + i * loop.inner_stride(0));
    });
  }
  Dims statistics_dims = x.dims();
  std::fill(statistics_dims.begin() + axis, statistics_dims.end(), 1);
  const double epsilon = run.Float("epsilon");
  const DType statistics = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Tensor mean(statistics, statistics_dims), inverse(statistics, statistics_dims);
  // The result of RMSNormalization has the type of its scale.
  const DType type = centred ? x.dtype() : run.in(1).dtype();
  Tensor& y = run.Out(0, type == DType::kF64 ? type : DType::kF32, x.dims());
  const auto normalize = [&]<typename T, typename U>(T, U) {
    const T* in = x.data<T>().data();
    U* out = y.mutable_data<U>().data();
    ParallelFor(rows, std::max<int64_t>(1, kElementGrain / std::max<int64_t>(n, 1)),
                [&](int64_t b, int64_t e) {
                  for (int64_t r = b; r < e; ++r) {
                    Moments m = MomentsOf(in + r * n, n);
                    if (!centred) m = {0, m.variance + m.mean * m.mean};
                    const double k = 1 / std::sqrt(m.variance + epsilon);
                    mean.Set(r, m.mean);
                    inverse.Set(r, k);
                    for (int64_t i = 0; i < n; ++i)
                      out[r * n + i] =
                          static_cast<U>((static_cast<double>(in[r * n + i]) - m.mean) * k *
                                             scale[static_cast<size_t>(i)] +
                                         bias[static_cast<size_t>(i)]);
                  }
                });
  };
  INFER_TRY(DispatchF32F64(run, x.dtype(), [&](auto from) {
    y.dtype() == DType::kF64 ? normalize(from, double{}) : normalize(from, float{});
  }));
  run.Set(1, std::move(mean));
  run.Set(2, std::move(inverse));
  return {};
}

Status RunLayerNorm(OpRun& run) { return NormalizeRows(run, true); }
Status RunRmsNorm(OpRun& run) { return NormalizeRows(run, false); }

/// Rows are apart from each other; scale and bias lie along the row.
void RowNormAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) return;
  const auto axis = NormalizeAxis(call.Int("axis"), s.rank());
  for (int a = 0; axis.ok() && a < *axis; ++a) LinkSame(call, 0, a, 0, a, links);
  for (size_t i = 1; i < call.num_inputs(); ++i) LinkBroadcast(call, i, links);
}

}  // namespace

std::span<const OpDef> RowNormalizationOps() {
  static const OpDef ops[] = {
      {.name = "LayerNormalization",
       .doc = "Rows from `axis` on to mean 0 and deviation 1, then scaled and shifted.",
       .traits = Trait::kNormalization | Trait::kRowNormalization,
       .axes = RowNormAxes,
       .since = 17,
       // 1: what ONNX Runtime's exporters wrote into ai.onnx before opset 17 had it.
       .versions = {1, 17},
       .inputs = {{"X", "T"}, {"Scale", "T"}, {"B", "T", Arity::kOptional}},
       .outputs = {{"Y", "T"},
                   {"Mean", "U", Arity::kOptional},
                   {"InvStdDev", "U", Arity::kOptional}},
       .attrs = {{"axis", AttrKind::kInt, int64_t{-1}},
                 EpsilonAttr(),
                 {"stash_type", AttrKind::kInt, int64_t{1}}},
       .constraints = {{"T", kFloatsBF16}, {"U", TypeSet(DType::kF32, DType::kBF16, DType::kF64)}},
       .infer = InferLayerNorm,
       .reference = Wide<RunLayerNorm>,
       .cost = CostPerOutput<8>,
       .decompose = DecomposeRowNorm,
       .example = "graph g(x: f32[2,3,4]) -> (y) { s = const f32[4] ~1  b = const f32[4] ~2  "
                  "y = LayerNormalization(x, s, b) {epsilon=0.001} }"},
      {.name = "RMSNormalization",
       .doc = "Rows from `axis` on divided by their root mean square, then scaled.",
       .traits = Trait::kNormalization | Trait::kRowNormalization,
       .axes = RowNormAxes,
       .since = 23,
       .versions = {23},
       .inputs = {{"X", "T"}, {"scale", "V"}},
       .outputs = {{"Y", "V"}},
       .attrs = {{"axis", AttrKind::kInt, int64_t{-1}},
                 EpsilonAttr(),
                 {"stash_type", AttrKind::kInt, int64_t{1}}},
       .constraints = {{"T", kFloatsBF16}, {"V", kFloatsBF16}},
       .infer = InferRmsNorm,
       .reference = Wide<RunRmsNorm>,
       .cost = CostPerOutput<4>,
       .decompose = DecomposeRowNorm,
       .example = "graph g(x: f32[2,3,4]) -> (y) { s = const f32[4] ~1  "
                  "y = RMSNormalization(x, s) }"},
  };
  return ops;
}

}  // namespace infer
