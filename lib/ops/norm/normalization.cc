/// Normalisations: batch, instance, group, layer, RMS, Lp, local response.
/// Statistics are in double; variances are two-pass.
#include "lib/ops/common.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/norm/normalization_lifted.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};

template <typename T>
Moments MomentsOf(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    squares += d * d;
  }
  return {mean, squares / static_cast<double>(n)};
}

int64_t Product(const Dims& dims, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t i = begin; i < end; ++i) n *= dims[i];
  return n;
}

/// InvalidModel unless operand `i` has exactly `n` elements.
Status CheckCount(const OpRun& run, size_t i, int64_t n) {
  if (run.in(i).num_elements() == n) return {};
  return InvalidModel(Cat(run.call().def().name, ": input ", i, " is ", ToString(run.in(i).type()),
                          ", wants ", n, " elements"));
}

// ---- BatchNormalization ----------------------------------------------------------------------

Status InferBatchNorm(OpCall& call) {
  if (call.Int("training_mode") != 0)
    return Unsupported("BatchNormalization: training_mode=1 is training, not inference");
  INFER_TRY(CheckRank(call, 0, 1));
  const Shape& x = call.shape(0);
  for (size_t i = 1; i < 5; ++i)
    if (x.has_rank() && x.rank() > 1 && call.shape(i).has_rank()) {
      if (call.shape(i).rank() != 1)
        return InvalidModel(
            Cat("BatchNormalization: input ", i, " has rank ", call.shape(i).rank(), ", wants 1"));
      INFER_TRY(Meet(x[1], call.shape(i)[0]).status());
    }
  return InferSame(call);
}

Status RunBatchNorm(OpRun& run) {
  const Tensor& x = run.in(0);
  if (run.Int("training_mode") != 0) return Unsupported("BatchNormalization: training_mode=1");
  const int64_t channels = x.rank() > 1 ? x.dim(1) : 1;
  for (size_t i = 1; i < 5; ++i) INFER_TRY(CheckCount(run, i, channels));
  // Of at least one element: an empty tensor has no planes.
  const int64_t inner =
      x.rank() > 2 ? std::max<int64_t>(1, Product(x.dims(), 2, x.dims().size())) : 1;
  const double epsilon = run.Float("epsilon");
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchF32F64(run, x.dtype(), [&]<typename T>(T) {
    const T* in = x.data<T>().data();
    T* out = y.mutable_data<T>().data();
    const int64_t planes = x.num_elements() / inner;
    ParallelFor(planes, std::max<int64_t>(1, kElementGrain / inner), [&](int64_t b, int64_t e) {
      for (int64_t p = b; p < e; ++p) {
        const int64_t c = p % channels;
        const double k = run.in(1).At(c) / std::sqrt(run.in(4).At(c) + epsilon);
        const double shift = run.in(2).At(c) - run.in(3).At(c) * k;
        for (int64_t i = p * inner; i < (p + 1) * inner; ++i)
          out[i] = static_cast<T>(static_cast<double>(in[i]) * k + shift);
      }
    });
  });
}

// ---- Instance and group ----------------------------------------------------------------------

/// Normalises each of `groups` runs of `run_length` elements, then y = x scale[c] + bias[c].
Status NormalizeGroups(OpRun& run, int64_t groups_per_sample) {
  const Tensor& x = run.in(0);
  if (x.rank() < 2) return InvalidModel("normalisation over channels: rank below 2");
  const int64_t channels = x.dim(1), inner = Product(x.dims(), 2, x.dims().size());
  if (groups_per_sample <= 0 || channels % groups_per_sample != 0)
    return InvalidModel(
        Cat(channels, " channels do not split into ", groups_per_sample, " groups"));
  INFER_TRY(CheckCount(run, 1, channels));
  INFER_TRY(CheckCount(run, 2, channels));
  const int64_t per_group = channels / groups_per_sample;
  const double epsilon = run.Float("epsilon");
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchF32F64(run, x.dtype(), [&]<typename T>(T) {
    const T* in = x.data<T>().data();
    T* out = y.mutable_data<T>().data();
    ParallelFor(x.dim(0) * groups_per_sample, 1, [&](int64_t b, int64_t e) {
      for (int64_t g = b; g < e; ++g) {
        const int64_t base = g * per_group * inner;
        const Moments m = MomentsOf(in + base, per_group * inner);
        const double k = 1 / std::sqrt(m.variance + epsilon);
        for (int64_t j = 0; j < per_group; ++j) {
          const int64_t c = g % groups_per_sample * per_group + j;
          const double scale = run.in(1).At(c), bias = run.in(2).At(c);
          for (int64_t i = base + j * inner; i < base + (j + 1) * inner; ++i)
            out[i] = static_cast<T>((static_cast<double>(in[i]) - m.mean) * k * scale + bias);
        }
      }
    });
  });
}

/// Scale and bias have an element per channel.
Status CheckPerChannel(const OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 2));
  const Shape& x = call.shape(0);
  for (size_t i : {1, 2}) {
    if (!x.has_rank() || !call.shape(i).has_rank()) continue;
    if (!Meet(call.shape(i).num_elements(), x[1]).ok())
      return InvalidModel(Cat(call.def().name, ": input ", i, " is ", call.shape(i).ToString(),
                              ", wants ", x[1].ToString(), " elements"));
  }
  return {};
}

Status InferInstanceNorm(OpCall& call) {
  INFER_TRY(CheckPerChannel(call));
  return InferSame(call);
}

Status RunInstanceNorm(OpRun& run) {
  return NormalizeGroups(run, run.in(0).rank() > 1 ? run.in(0).dim(1) : 0);
}
Status InferGroupNorm(OpCall& call) {
  const int64_t groups = call.Int("num_groups");
  const Shape& s = call.shape(0);
  const bool splits = !s.has_rank() || s.rank() < 2 || !s[1].is_static() || groups < 1 ||
                      s[1].value() % groups == 0;
  if (groups < 1 || !splits)
    return InvalidModel(Cat("the channels do not split into ", groups, " groups"));
  INFER_TRY(CheckPerChannel(call));
  return InferSame(call);
}

Status RunGroupNorm(OpRun& run) { return NormalizeGroups(run, run.Int("num_groups")); }

/// Opset 18 had scale and bias per group; 21 has them per channel.
Status LiftGroupNorm(NodeSpec node, int opset, LiftContext& out) {
  if (opset >= 21) {
    out.Emit(std::move(node));
    return {};
  }
  const ValueType* type = out.Type(node.inputs[0]);
  const int64_t groups = IntAttrOr(node, "num_groups", 1);
  const bool known = type && type->is_tensor() && type->tensor().shape.has_rank() &&
                     type->tensor().shape.rank() > 1 && type->tensor().shape[1].is_static();
  if (!known || groups <= 0)
    return Unsupported(Cat("GroupNormalization '", node.name,
                           "': opset 18 with an unknown number of channels; export with opset 21"));
  const int64_t repeat = type->tensor().shape[1].value() / groups;
  for (size_t i : {size_t{1}, size_t{2}}) {
    const std::string column = out.Fresh("group_column"), wide = out.Fresh("group_wide"),
                      flat = out.Fresh("group_flat");
    const std::string axis = out.Constant(Tensor::Int64s({1}));
    const std::string shape = out.Constant(Tensor::Int64s({groups, repeat}));
    const std::string all = out.Constant(Tensor::Int64s({-1}));
    out.Emit(MakeSpec("Unsqueeze", node, {node.inputs[i], axis}, {column}));
    out.Emit(MakeSpec("Expand", node, {column, shape}, {wide}));
    out.Emit(MakeSpec("Reshape", node, {wide, all}, {flat}));
    node.inputs[i] = flat;
  }
  out.Emit(std::move(node));
  return {};
}

// ---- Layer and RMS ---------------------------------------------------------------------------

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
      return InvalidModel(
          Cat(call.def().name, ": input ", i, " is ", call.shape(i).ToString(), ", the rows are ",
              Shape(std::vector<Dim>(x.dims().begin() + axis, x.dims().end())).ToString()));
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
  const int64_t rows = Product(x.dims(), 0, at), n = Product(x.dims(), at, x.dims().size());
  // Scale and bias broadcast over the row (they may be shorter than it).
  const Dims row_dims(x.dims().begin() + axis, x.dims().end());
  std::vector<double> scale(static_cast<size_t>(n), 1), bias(static_cast<size_t>(n), 0);
  for (size_t operand : {size_t{1}, size_t{2}}) {
    const Tensor* t = run.in_or_null(operand);
    if (!t) continue;
    auto shape = Broadcast(t->dims(), row_dims);
    if (!shape.ok() || NumElements(*shape) != n)
      return InvalidModel(Cat(run.call().def().name, ": input ", operand, " is ",
                              ToString(t->type()), ", the rows are ", ToString(row_dims)));
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

// ---- Lp, local response ----------------------------------------------------------------------

Status RunLpNorm(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), x.rank()));
  const int64_t n = x.dim(axis), p = run.Int("p");
  if (p != 1 && p != 2) return InvalidModel(Cat("LpNormalization: p=", p, ", wants 1 or 2"));
  const int64_t inner = Product(x.dims(), static_cast<size_t>(axis) + 1, x.dims().size());
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchF32F64(run, x.dtype(), [&]<typename T>(T) {
    const T* in = x.data<T>().data();
    T* out = y.mutable_data<T>().data();
    for (int64_t line = 0; n > 0 && line < x.num_elements() / n; ++line) {
      const int64_t at = line / inner * n * inner + line % inner;
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double v = static_cast<double>(in[at + i * inner]);
        sum += p == 1 ? std::abs(v) : v * v;
      }
      const double norm = p == 1 ? sum : std::sqrt(sum);
      for (int64_t i = 0; i < n; ++i)
        out[at + i * inner] =
            norm == 0 ? T{0} : static_cast<T>(static_cast<double>(in[at + i * inner]) / norm);
    }
  });
}

/// y[n,c] = x / (bias + alpha/size sum of squares over channels c - floor((size-1)/2) ...
/// c + ceil((size-1)/2))^beta (Krizhevsky et al. 2012, section 3.3).
Status RunLrn(OpRun& run) {
  const Tensor& x = run.in(0);
  if (x.rank() < 2) return InvalidModel("LRN: rank below 2");
  const int64_t channels = x.dim(1), inner = Product(x.dims(), 2, x.dims().size());
  const int64_t size = run.Int("size"), before = (size - 1) / 2, after = size - 1 - before;
  const double alpha = run.Float("alpha"), beta = run.Float("beta"), bias = run.Float("bias");
  if (size < 1) return InvalidModel("LRN: size below 1");
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchF32F64(run, x.dtype(), [&]<typename T>(T) {
    const T* in = x.data<T>().data();
    T* out = y.mutable_data<T>().data();
    ParallelFor(x.dim(0) * channels, 1, [&](int64_t b, int64_t e) {
      for (int64_t p = b; p < e; ++p) {
        const int64_t sample = p / channels * channels, c = p % channels;
        const int64_t lo = std::max<int64_t>(0, c - before), hi = std::min(channels - 1, c + after);
        for (int64_t i = 0; i < inner; ++i) {
          double sum = 0;
          for (int64_t k = lo; k <= hi; ++k) {
            const double v = static_cast<double>(in[(sample + k) * inner + i]);
            sum += v * v;
          }
          const double scale = std::pow(bias + alpha / static_cast<double>(size) * sum, beta);
          out[p * inner + i] = static_cast<T>(static_cast<double>(in[p * inner + i]) / scale);
        }
      }
    });
  });
}

constexpr float kDefaultEpsilon = 1e-5f;
AttrDef EpsilonAttr() { return {"epsilon", AttrKind::kFloat, kDefaultEpsilon}; }

/// Operands from 1 on have one element per channel.
void LinkChannels(const OpCall& call, AxisLinks& links) {
  for (size_t i = 1; i < call.num_inputs(); ++i) LinkSame(call, i, 0, 0, 1, links);
}

void BatchNormAxes(const OpCall& call, AxisLinks& links) {
  if (call.Int("training_mode") != 0)  // statistics of the batch
    LinkSame(call, 0, 1, 0, 1, links);
  else
    LinkAllBut(call, {}, links);
  LinkChannels(call, links);
}

void InstanceNormAxes(const OpCall& call, AxisLinks& links) {
  SampleAndChannelAxes(call, links);
  LinkChannels(call, links);
}

void GroupNormAxes(const OpCall& call, AxisLinks& links) {
  LinkSame(call, 0, 0, 0, 0, links);
  LinkChannels(call, links);
  const Shape& s = call.shape(0);
  const int64_t groups = call.Int("num_groups");
  if (!s.has_rank() || s.rank() < 2 || !s[1].is_static() || groups < 1 || s[1].value() % groups)
    return;
  const LabelledAxis channels{.axis = 1, .inner = s[1].value() / groups};
  links.push_back({.labels = groups, .from = channels, .to = channels});
}

/// Rows are apart from each other; scale and bias lie along the row.
void RowNormAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) return;
  const auto axis = NormalizeAxis(call.Int("axis"), s.rank());
  for (int a = 0; axis.ok() && a < *axis; ++a) LinkSame(call, 0, a, 0, a, links);
  for (size_t i = 1; i < call.num_inputs(); ++i) LinkBroadcast(call, i, links);
}

/// Neighbours among the channels are mixed.
void LrnAxes(const OpCall& call, AxisLinks& links) { LinkAllBut(call, {1}, links); }

}  // namespace

std::span<const OpDef> NormalizationOps() {
  static const OpDef ops[] = {
      {.name = "BatchNormalization",
       .doc = "y = (x - mean[c]) / sqrt(var[c] + epsilon) scale[c] + B[c].",
       .traits = Trait::kNormalization,
       .axes = BatchNormAxes,
       .since = 9,
       .versions = {1, 6, 7, 9, 14, 15},
       .inputs =
           {{"X", "T"}, {"scale", "T1"}, {"B", "T1"}, {"input_mean", "T2"}, {"input_var", "T2"}},
       .outputs = {{"Y", "T"},
                   {"running_mean", "T2", Arity::kOptional},
                   {"running_var", "T2", Arity::kOptional}},
       .attrs = {EpsilonAttr(),
                 {"momentum", AttrKind::kFloat, 0.9f},
                 {"training_mode", AttrKind::kInt, int64_t{0}, false, 14}},
       .constraints = {{"T", kFloatsBF16}, {"T1", kFloatsBF16}, {"T2", kFloatsBF16}},
       .infer = InferBatchNorm,
       .reference = Wide<RunBatchNorm>,
       .cost = CostPerOutput<2>,
       .lift = LiftBatchNorm,
       .example = "graph g(x: f32[2,3,4]) -> (y) { s = const f32[3] ~1  b = const f32[3] ~2  "
                  "m = const f32[3] ~3  v = const f32[3] {1, 2, 0.5}  "
                  "y = BatchNormalization(x, s, b, m, v) }"},
      {.name = "InstanceNormalization",
       .doc = "Each channel of each sample to mean B[c] and deviation scale[c].",
       .traits = Trait::kNormalization,
       .axes = InstanceNormAxes,
       .since = 6,
       .versions = {1, 6, 22},
       .inputs = {{"input", "T"}, {"scale", "T"}, {"B", "T"}},
       .outputs = {{"output", "T"}},
       .attrs = {EpsilonAttr()},
       .constraints = {{"T", kFloatsBF16}},
       .infer = InferInstanceNorm,
       .reference = Wide<RunInstanceNorm>,
       .cost = CostPerOutput<7>,
       .lift = LiftConsumedInputs,
       .example = "graph g(x: f32[2,3,4]) -> (y) { s = const f32[3] ~1  b = const f32[3] ~2  "
                  "y = InstanceNormalization(x, s, b) }"},
      {.name = "GroupNormalization",
       .doc = "Groups of channels of each sample normalised, then scaled and shifted by channel.",
       .traits = Trait::kNormalization,
       .axes = GroupNormAxes,
       .since = 21,
       .versions = {18, 21},
       .inputs = {{"X", "T"}, {"scale", "T"}, {"bias", "T"}},
       .outputs = {{"Y", "T"}},
       .attrs = {EpsilonAttr(),
                 {"num_groups", AttrKind::kInt, {}, true},
                 {"stash_type", AttrKind::kInt, int64_t{1}, false, 21}},
       .constraints = {{"T", kFloatsBF16}},
       .infer = InferGroupNorm,
       .reference = Wide<RunGroupNorm>,
       .cost = CostPerOutput<7>,
       .lift = LiftGroupNorm,
       .decompose = DecomposeGroupNorm,
       .example = "graph g(x: f32[2,4,3]) -> (y) { s = const f32[4] ~1  b = const f32[4] ~2  "
                  "y = GroupNormalization(x, s, b) {num_groups=2} }"},
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
      {.name = "LpNormalization",
       .doc = "Lines along an axis divided by their L1 or L2 norm.",
       .traits = Trait::kNormalization,
       .axes = AllButAxis,
       .since = 1,
       .versions = {1, 22},
       .inputs = {{"input", "T"}},
       .outputs = {{"output", "T"}},
       .attrs = {{"axis", AttrKind::kInt, int64_t{-1}}, {"p", AttrKind::kInt, int64_t{2}}},
       .constraints = {{"T", kFloatsBF16}},
       .infer = InferSame,
       .reference = Wide<RunLpNorm>,
       .cost = CostPerOutput<3>,
       .example = "graph g(x: f32[2,3]) -> (y) { y = LpNormalization(x) {p=1} }"},
      {.name = "LRN",
       .doc = "Local response normalisation across channels.",
       .traits = Trait::kNormalization,
       .axes = LrnAxes,
       .since = 1,
       .versions = {1, 13},
       .inputs = {{"X", "T"}},
       .outputs = {{"Y", "T"}},
       .attrs = {{"alpha", AttrKind::kFloat, 1e-4f},
                 {"beta", AttrKind::kFloat, 0.75f},
                 {"bias", AttrKind::kFloat, 1.f},
                 {"size", AttrKind::kInt, {}, true}},
       .constraints = {{"T", kFloatsBF16}},
       .infer = InferSame,
       .reference = Wide<RunLrn>,
       .cost = CostPerOutput<10>,
       .example = "graph g(x: f32[1,4,3]) -> (y) { y = LRN(x) {size=3} }"},
  };
  return ops;
}

}  // namespace infer
