/// Normalizations over samples and channels: batch, instance, group, Lp, local response. Those over
/// rows are in row_normalization.cc.
#include "lib/ops/common.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/norm/moments.h"
#include "lib/ops/norm/normalization_lifted.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

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
      x.rank() > 2 ? std::max<int64_t>(1, ElementsBetween(x.dims(), 2, x.dims().size())) : 1;
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
  const int64_t channels = x.dim(1), inner = ElementsBetween(x.dims(), 2, x.dims().size());
  if (groups_per_sample <= 0 || channels % groups_per_sample != 0)
    return InvalidModel(
        Cat(channels, " channels do not split into ", groups_per_sample, " groups"));
  INFER_TRY(CheckCount(run, 1, channels));
  INFER_TRY(CheckCount(run, 2, channels));
  const int64_t per_group = channels / groups_per_sample;
  const double epsilon = run.Float("epsilon");
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  if (x.num_elements() == 0) return {};  // no channels split into any number of groups
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

// ---- Lp, local response ----------------------------------------------------------------------

Status RunLpNorm(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), x.rank()));
  const int64_t n = x.dim(axis), p = run.Int("p");
  if (p != 1 && p != 2) return InvalidModel(Cat("LpNormalization: p=", p, ", wants 1 or 2"));
  const int64_t inner = ElementsBetween(x.dims(), static_cast<size_t>(axis) + 1, x.dims().size());
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
  const int64_t channels = x.dim(1), inner = ElementsBetween(x.dims(), 2, x.dims().size());
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
