/// Fused and weight-only products of com.microsoft: FusedConv, FusedGemm, FusedMatMul, MatMulNBits.
#include <numeric>

#include "lib/ops/common.h"
#include "lib/ops/conv/conv_geometry.h"
#include "lib/ops/conv/conv_reference.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/elementwise/activation_reference.h"
#include "lib/ops/fused/nbits.h"
#include "lib/ops/matmul/matmul.h"
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"
#include "lib/ops/quantized/quant_reference.h"

namespace infer {

// The families of the plain operators that FusedConv and FusedGemm contain (see registry.cc).
std::span<const OpDef> ConvOps();
std::span<const OpDef> MatMulOps();

namespace {

const OpDef& Find(std::span<const OpDef> family, std::string_view name) {
  for (const OpDef& d : family)
    if (d.name == name) return d;
  INFER_CHECK(false);
  return family[0];
}

/// The attributes of `call` that `def` has too.
AttrMap Shared(const OpCall& call, const OpDef& def) {
  AttrMap out;
  for (const auto& [name, value] : call.attrs())
    if (def.FindAttr(name)) out[name] = value;
  return out;
}

Status ApplyActivation(Tensor& y, std::string_view name, std::optional<float> alpha,
                       std::optional<float> beta) {
  const ActivationDef* def = FindActivation(name);
  if (!def) return Unsupported(Cat("activation '", name, "' is not known"));
  const double a = alpha ? *alpha : def->alpha, b = beta ? *beta : def->beta;
  for (int64_t i = 0; i < y.num_elements(); ++i) y.Set(i, def->fn(y.At(i), a, b));
  return {};
}

// ---- FusedConv, FusedGemm --------------------------------------------------------------------

/// Types follow from the operator without activation, with the same first three inputs.
Status InferPlain(OpCall& call, const OpDef& plain) {
  const AttrMap attrs = Shared(call, plain);
  const size_t inputs = std::min<size_t>(call.num_inputs(), 3);
  OpCall inner(plain, attrs, inputs, 1);
  for (size_t i = 0; i < inputs; ++i)
    if (call.has_input(i)) inner.BindInput(i, &call.type(i), call.constant(i));
  INFER_TRY(plain.infer(inner));
  call.SetOut(0, inner.out_type(0));
  return {};
}

Result<Tensor> RunPlain(OpRun& run, std::span<const OpDef> family, const OpDef& plain) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < std::min<size_t>(run.num_inputs(), 3); ++i)
    inputs.push_back(run.has(i) ? run.in(i) : Tensor());
  return RunReference(family, plain.name, Shared(run.call(), plain), inputs);
}

Status InferFusedConv(OpCall& call) {
  INFER_TRY(InferPlain(call, Find(ConvOps(), "Conv")));
  if (call.has_input(3) && !Meet(call.shape(3), call.out(0).shape).ok())
    return InvalidModel(
        Cat("Z is ", call.shape(3).ToString(), ", the result ", call.out(0).shape.ToString()));
  return {};
}

/// activation(Conv(X, W, B) + Z), rounded after each step when the type is f16.
Status RunFusedConv(OpRun& run) {
  INFER_ASSIGN(Tensor y, RunPlain(run, ConvOps(), Find(ConvOps(), "Conv")));
  if (const Tensor* z = run.in_or_null(3))
    for (int64_t i = 0; i < y.num_elements(); ++i) y.Set(i, y.At(i) + z->At(i));
  if (run.call().HasAttr("activation")) {
    std::vector<float> p;
    if (run.call().HasAttr("activation_params"))
      p = run.Attr<std::vector<float>>("activation_params");
    INFER_TRY(ApplyActivation(y, run.Str("activation"), p.empty() ? std::optional<float>() : p[0],
                              p.size() < 2 ? std::optional<float>() : p[1]));
  }
  run.Set(0, std::move(y));
  return {};
}

Status InferFusedGemm(OpCall& call) { return InferPlain(call, Find(MatMulOps(), "Gemm")); }

Status RunFusedGemm(OpRun& run) {
  INFER_ASSIGN(Tensor y, RunPlain(run, MatMulOps(), Find(MatMulOps(), "Gemm")));
  if (run.call().HasAttr("activation")) {
    auto parameter = [&](std::string_view name) {
      return run.call().HasAttr(name) ? std::optional<float>(run.Float(name)) : std::nullopt;
    };
    INFER_TRY(ApplyActivation(y, run.Str("activation"), parameter("activation_alpha"),
                              parameter("activation_beta")));
  }
  run.Set(0, std::move(y));
  return {};
}

/// The plain operator's FLOPs and one per output for each of Z and the activation.
template <bool kConv>
Cost CostFused(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.out(0).is_static()) return c;
  const int64_t outputs = StaticElements(call.out(0).shape);
  int64_t per_output = call.HasAttr("activation") + (call.has_input(2) ? 1 : 0);
  if constexpr (kConv) {
    if (!call.in(0).is_static() || !call.in(1).is_static()) return c;
    const auto g = ReadConvGeometry(call.def(), call.attrs(), call.shape(0).static_dims(),
                                    call.shape(1).static_dims());
    if (g.ok()) c.flops = 2 * g->macs();
    per_output += call.has_input(3) ? 1 : 0;
  } else {
    if (!call.in(0).is_static()) return c;
    c.flops = 2 * outputs * call.shape(0)[call.Int("transA") != 0 ? 0 : 1].value();
  }
  c.flops += outputs * per_output;
  return c;
}

// ---- FusedMatMul -----------------------------------------------------------------------------

Shape OperandShape(const OpCall& call, size_t i) {
  const Shape& s = call.shape(i);
  if (!s.has_rank()) return s;
  std::vector<Dim> dims;
  for (int a : FusedMatMulAxes(call, s.rank(), i)) dims.push_back(s[a]);
  return Shape(std::move(dims));
}

Status InferFusedMatMul(OpCall& call) {
  INFER_ASSIGN(Shape y, MatMulShape(OperandShape(call, 0), OperandShape(call, 1)));
  call.SetOut(0, call.dtype(0), std::move(y));
  return {};
}

Status RunFusedMatMul(OpRun& run) {
  const Tensor a = Transposed(run.in(0), FusedMatMulAxes(run.call(), run.in(0).rank(), 0));
  const Tensor b = Transposed(run.in(1), FusedMatMulAxes(run.call(), run.in(1).rank(), 1));
  INFER_ASSIGN(const MatMulGeometry g, ReadMatMulGeometry(a.dims(), b.dims()));
  Tensor& y = run.Out(0, a.dtype(), g.output);
  const double alpha = run.Float("alpha");
  MatMulReference(g, a, b,
                  [&](int64_t batch, int64_t row, int64_t col, int64_t count, const double* sums) {
                    std::vector<double> v(sums, sums + count);
                    for (double& s : v) s *= alpha;
                    StoreRounded(y, (batch * g.m + row) * g.n + col, count, v.data());
                  });
  return {};
}

Cost CostFusedMatMul(const OpCall& call) {
  Cost c = TrafficOf(call);
  const Shape a = OperandShape(call, 0);
  if (!a.has_rank() || !a.is_static() || !call.out(0).is_static()) return c;
  c.flops = StaticElements(call.out(0).shape) * (2 * a[-1].value() + (call.Float("alpha") != 1));
  return c;
}

// ---- MatMulNBits -----------------------------------------------------------------------------

Status WantElements(const OpCall& call, size_t i, int64_t want) {
  if (!call.has_input(i) || !call.shape(i).has_rank() || !call.shape(i).is_static()) return {};
  if (call.shape(i).num_elements() == Dim(want)) return {};
  return InvalidModel(Cat("input '", call.def().inputs[i].name, "' is ", call.shape(i).ToString(),
                          ", wants ", want, " elements"));
}

Status InferMatMulNBits(OpCall& call) {
  INFER_ASSIGN(const NBits w, ReadNBits(call));
  INFER_TRY(WantElements(call, 1, w.n * w.blocks() * w.block_bytes()));
  INFER_TRY(WantElements(call, 2, w.n * w.blocks()));
  if (call.has_input(3))
    INFER_TRY(WantElements(call, 3,
                           call.dtype(3) == DType::kU8 ? w.n * w.zero_bytes() : w.n * w.blocks()));
  INFER_TRY(WantElements(call, 5, w.n));
  INFER_ASSIGN(Shape y, MatMulShape(call.shape(0), Shape(Dims{w.k, w.n})));
  call.SetOut(0, call.dtype(0), std::move(y));
  return {};
}

Status RunMatMulNBits(OpRun& run) {
  INFER_ASSIGN(const NBits w, ReadNBits(run.call()));
  const NBitsTensors packed{&run.in(1), &run.in(2), run.in_or_null(3), run.in_or_null(4)};
  const Tensor& a = run.in(0);
  const Tensor* bias = run.in_or_null(5);
  INFER_ASSIGN(const MatMulGeometry g, ReadMatMulGeometry(a.dims(), {w.k, w.n}));
  Tensor& y = run.Out(0, a.dtype(), g.output);
  const Tensor wide = Widen(a);
  // Some columns of y at a time: weights of 4 bits are eight times as large as numbers.
  constexpr int64_t kAtOnce = int64_t{1} << 20;
  const int64_t band = std::max<int64_t>(1, kAtOnce / w.k);
  for (int64_t first = 0; first < w.n; first += band) {
    const int64_t columns = std::min(band, w.n - first);
    INFER_ASSIGN(const Tensor weights, UnpackNBits(w, packed, first, columns));
    INFER_ASSIGN(const MatMulGeometry part, ReadMatMulGeometry(a.dims(), {w.k, columns}));
    MatMulReference(
        part, wide, Transposed(weights, {1, 0}),
        [&](int64_t batch, int64_t row, int64_t col, int64_t count, const double* sums) {
          std::vector<double> v(sums, sums + count);
          for (int64_t j = 0; bias && j < count; ++j)
            v[static_cast<size_t>(j)] += bias->At(first + col + j);
          StoreRounded(y, (batch * g.m + row) * g.n + first + col, count, v.data());
        });
  }
  return {};
}

/// 2 K per output, and one for the bias; what turns codes into weights is not counted.
Cost CostMatMulNBits(const OpCall& call) {
  Cost c = TrafficOf(call);
  c.flops = StaticElements(call.out(0).shape) * (2 * call.Int("K") + (call.has_input(5) ? 1 : 0));
  return c;
}

/// Samples of the operand and of what is added to the result.
void FusedConvAxes(const OpCall& call, AxisLinks& links) {
  LinkSame(call, 0, 0, 0, 0, links);
  LinkSame(call, 3, 0, 0, 0, links);
}

void FusedGemmAxes(const OpCall& call, AxisLinks& links) {
  LinkSame(call, 0, call.Int("transA") != 0 ? 1 : 0, 0, 0, links);
  LinkBroadcast(call, 2, links);
}

/// Axes of matrices, and the rows of A. The helper tells where an operand has them.
void RowsOfFusedMatMul(const OpCall& call, AxisLinks& links) {
  const Shape &a = call.shape(0), &b = call.shape(1), &y = call.out(0).shape;
  if (!a.has_rank() || !b.has_rank() || !y.has_rank() || a.rank() < 2 || b.rank() < 2) return;
  for (const size_t in : {0, 1}) {
    const int rank = call.shape(in).rank();
    const std::vector<int> at = FusedMatMulAxes(call, rank, in);
    for (int i = 0; i + 2 < rank; ++i)
      LinkSame(call, in, at[static_cast<size_t>(i)], 0, y.rank() - rank + i, links);
    if (in == 0) LinkSame(call, 0, at[static_cast<size_t>(rank - 2)], 0, y.rank() - 2, links);
  }
}

}  // namespace

std::vector<int> FusedMatMulAxes(int rank, bool trans, bool trans_batch) {
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (rank < 2) return axes;
  if (trans_batch) std::rotate(axes.begin(), axes.begin() + 1, axes.end() - 1);
  if (trans) std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return axes;
}

std::vector<int> FusedMatMulAxes(const OpCall& call, int rank, size_t operand) {
  return FusedMatMulAxes(rank, call.Int(operand == 0 ? "transA" : "transB") != 0,
                         call.Int(operand == 0 ? "transBatchA" : "transBatchB") != 0);
}

std::span<const OpDef> ContribFusedOps() {
  static const OpDef ops[] = {
      {
          .name = "FusedConv",
          .domain = kMicrosoft,
          .doc = "Conv, an addition and an activation.",
          .traits = Trait::kContraction,
          .axes = FusedConvAxes,
          .inputs =
              {{"X", "T"}, {"W", "T"}, {"B", "T", Arity::kOptional}, {"Z", "T", Arity::kOptional}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"activation", AttrKind::kString},
                    {"activation_params", AttrKind::kFloats},
                    {"auto_pad", AttrKind::kString, std::string("NOTSET")},
                    {"dilations", AttrKind::kInts},
                    {"group", AttrKind::kInt, int64_t{1}},
                    {"kernel_shape", AttrKind::kInts},
                    {"pads", AttrKind::kInts},
                    {"strides", AttrKind::kInts}},
          .constraints = {{"T", kFloats}},
          .infer = InferFusedConv,
          .reference = RunFusedConv,
          .cost = CostFused<true>,
          .decompose = DecomposeFusedConv,
          .example = R"(graph g(x: f32[1,2,5,6], z: f32[1,3,3,4]) -> (y) {
            w = const f32[3,2,3,3] ~1
            b = const f32[3] ~2
            y = com.microsoft::FusedConv(x, w, b, z) {activation="LeakyRelu",
                                                      activation_params=[0.1]} })",
      },
      {
          .name = "FusedGemm",
          .domain = kMicrosoft,
          .doc = "Gemm and an activation.",
          .traits = Trait::kContraction,
          .axes = FusedGemmAxes,
          .inputs = {{"A", "T"}, {"B", "T"}, {"C", "T", Arity::kOptional}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"activation", AttrKind::kString},
                    {"activation_alpha", AttrKind::kFloat},
                    {"activation_beta", AttrKind::kFloat},
                    {"activation_gamma", AttrKind::kFloat},
                    {"alpha", AttrKind::kFloat, 1.0f},
                    {"beta", AttrKind::kFloat, 1.0f},
                    {"transA", AttrKind::kInt, int64_t{0}},
                    {"transB", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T",
                           kFloats | TypeSet(DType::kI32, DType::kI64, DType::kU32, DType::kU64)}},
          .infer = InferFusedGemm,
          .reference = RunFusedGemm,
          .cost = CostFused<false>,
          .decompose = DecomposeFusedGemm,
          .example = R"(graph g(x: f32[3,5]) -> (y) {
            w = const f32[7,5] ~1
            c = const f32[7] ~2
            y = com.microsoft::FusedGemm(x, w, c) {transB=1, activation="Relu"} })",
      },
      {
          .name = "FusedMatMul",
          .domain = kMicrosoft,
          .doc = "alpha times the product of perhaps transposed operands.",
          .traits = Trait::kContraction,
          .axes = RowsOfFusedMatMul,
          .inputs = {{"A", "T"}, {"B", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"alpha", AttrKind::kFloat, 1.0f},
                    {"transA", AttrKind::kInt, int64_t{0}},
                    {"transB", AttrKind::kInt, int64_t{0}},
                    {"transBatchA", AttrKind::kInt, int64_t{0}},
                    {"transBatchB", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferFusedMatMul,
          .reference = RunFusedMatMul,
          .cost = CostFusedMatMul,
          .decompose = DecomposeFusedMatMul,
          .example = R"(graph g(x: f32[2,3,5]) -> (y) {
            w = const f32[2,7,5] ~1
            y = com.microsoft::FusedMatMul(x, w) {transB=1, alpha=0.5} })",
      },
      {
          .name = "MatMulNBits",
          .domain = kMicrosoft,
          .doc = "Product with weights of 2, 4 or 8 bits, scaled per block of a row.",
          .traits = Trait::kContraction,
          .axes = AllButLastAxis,
          .inputs = {{"A", "T1"},
                     {"B", "T2"},
                     {"scales", "T1"},
                     {"zero_points", "T3", Arity::kOptional},
                     {"g_idx", "T4", Arity::kOptional},
                     {"bias", "T1", Arity::kOptional}},
          .outputs = {{"Y", "T1"}},
          .attrs = {{"K", AttrKind::kInt, {}, true},
                    {"N", AttrKind::kInt, {}, true},
                    {"accuracy_level", AttrKind::kInt, int64_t{0}},
                    {"bits", AttrKind::kInt, int64_t{4}},
                    {"block_size", AttrKind::kInt, {}, true},
                    {"weight_prepacked", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T1", TypeSet(DType::kF32, DType::kF16, DType::kBF16)},
                          {"T2", TypeSet(DType::kU8)},
                          {"T3", TypeSet(DType::kU8, DType::kF32, DType::kF16, DType::kBF16)},
                          {"T4", TypeSet(DType::kI32)}},
          .infer = InferMatMulNBits,
          .reference = RunMatMulNBits,
          .cost = CostMatMulNBits,
          .example = R"(graph g(x: f32[2,20]) -> (y) {
            w = const u8[3,2,8] ~1
            s = const f32[6] ~2
            y = com.microsoft::MatMulNBits(x, w, s) {N=3, K=20, block_size=16} })",
      },
  };
  return ops;
}

}  // namespace infer
