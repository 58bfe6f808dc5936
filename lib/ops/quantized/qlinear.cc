/// The integer products of ai.onnx: ConvInteger, MatMulInteger, QLinearConv, QLinearMatMul.
///
/// Sums of products of 8-bit integers are exact in double. Those that are results wrap as int32
/// arithmetic does; those that are scaled do not: the standard lets a sum overflow, and no backend
/// here makes other numbers of it. They are scaled in f32, as integer kernels do: one factor
/// x_scale w_scale / y_scale per output, then round half to even.
#include "lib/ops/common.h"
#include "lib/ops/conv/conv_reference.h"
#include "lib/ops/matmul/matmul.h"
#include "lib/ops/op_def.h"
#include "lib/ops/quantized/quant_reference.h"

namespace infer {
namespace {

int32_t WrapToInt32(double sum) {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(sum)));
}

/// Where a convolution's operands stand among the inputs.
struct ConvOperands {
  size_t x, x_zero, w, w_zero;
};
constexpr ConvOperands kConvInteger{0, 2, 1, 3}, kQLinearConv{0, 2, 3, 5};

/// InvalidModel unless the parameter has one value, or one per output channel.
Status CheckPerChannel(const OpCall& call, size_t i, const Dim& channels) {
  if (!call.has_input(i) || !call.shape(i).has_rank()) return {};
  const Dim n = call.shape(i).num_elements();
  if (!n.is_static() || n.value() == 1) return {};
  if (call.shape(i).rank() == 1 && Meet(n, channels).ok()) return {};
  return InvalidModel(Cat("input '", call.def().inputs[i].name, "' is ", call.shape(i).ToString(),
                          ", wants one value or one per channel"));
}

Status InferConv(OpCall& call, const ConvOperands& at, DType out) {
  INFER_ASSIGN(Shape y,
               ConvOutputShape(call.def(), call.attrs(), call.shape(at.x), call.shape(at.w)));
  const Dim channels = y.has_rank() ? y[1] : Dim();
  INFER_TRY(CheckPerChannel(call, at.x_zero, Dim(1)));
  INFER_TRY(CheckPerChannel(call, at.w_zero, channels));
  call.SetOut(0, out, std::move(y));
  return {};
}

Status InferConvInteger(OpCall& call) { return InferConv(call, kConvInteger, DType::kI32); }

Status InferQLinearConv(OpCall& call) {
  const DType out = call.has_input(7) ? call.dtype(7) : call.dtype(0);
  INFER_TRY(InferConv(call, kQLinearConv, out));
  const Shape& y = call.out(0).shape;
  const Dim channels = y.has_rank() ? y[1] : Dim();
  for (size_t i : {1, 6, 7}) INFER_TRY(CheckPerChannel(call, i, Dim(1)));
  INFER_TRY(CheckPerChannel(call, 4, channels));
  if (call.has_input(8)) {
    auto bias = Meet(call.shape(8), Shape({channels}));
    if (!bias.ok()) return InvalidModel("B is " + call.shape(8).ToString());
  }
  return {};
}

Result<ConvGeometry> ConvolveCentered(
    OpRun& run, const ConvOperands& at, DType out,
    const std::function<void(Tensor&, int64_t channel, int64_t at, double sum)>& store) {
  const Tensor &x = run.in(at.x), &w = run.in(at.w);
  INFER_ASSIGN(ConvGeometry g,
               ReadConvGeometry(run.call().def(), run.call().attrs(), x.dims(), w.dims()));
  INFER_ASSIGN(const Tensor xc, Centered(x, run.in_or_null(at.x_zero), 0));
  INFER_ASSIGN(const Tensor wc, Centered(w, run.in_or_null(at.w_zero), 0));
  Tensor& y = run.Out(0, out, g.output_dims());
  const int64_t plane = NumElements(g.output);
  ConvolveReference(g, xc, wc,
                    [&](int64_t n, int64_t m, int64_t begin, int64_t count, const double* sums) {
                      for (int64_t i = 0; i < count; ++i)
                        store(y, m, (n * g.out_channels + m) * plane + begin + i, sums[i]);
                    });
  return g;
}

Status RunConvInteger(OpRun& run) {
  return ConvolveCentered(run, kConvInteger, DType::kI32,
                          [](Tensor& y, int64_t, int64_t at, double sum) {
                            y.mutable_data<int32_t>()[static_cast<size_t>(at)] = WrapToInt32(sum);
                          })
      .status();
}

double PerChannel(const Tensor& t, int64_t channel) {
  return t.At(t.num_elements() == 1 ? 0 : channel);
}

Status RunQLinearConv(OpRun& run) {
  const auto x_scale = static_cast<float>(run.in(1).At(0));
  const auto y_scale = static_cast<float>(run.in(6).At(0));
  const double y_zero = run.in(7).At(0);
  const Tensor& w_scale = run.in(4);
  const Tensor* bias = run.in_or_null(8);
  return ConvolveCentered(run, kQLinearConv, run.in(7).dtype(),
                          [&](Tensor& y, int64_t m, int64_t at, double sum) {
                            if (bias) sum += bias->At(m);
                            const float factor =
                                x_scale * static_cast<float>(PerChannel(w_scale, m)) / y_scale;
                            StoreQuantized(y, at, static_cast<float>(sum) * factor, y_zero);
                          })
      .status();
}

template <size_t kX, size_t kW>
Cost CostConv(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.in(kX).is_static() || !call.in(kW).is_static()) return c;
  const auto g = ReadConvGeometry(call.def(), call.attrs(), call.shape(kX).static_dims(),
                                  call.shape(kW).static_dims());
  if (g.ok()) c.flops = 2 * g->macs() + (call.has_input(8) ? NumElements(g->output_dims()) : 0);
  return c;
}

template <size_t kA, size_t kB>
Cost CostMatMul(const OpCall& call) {
  Cost c = TrafficOf(call);
  c.flops = MatMulFlops(call, kA, kB);
  return c;
}

Status InferMatMulInteger(OpCall& call) {
  INFER_ASSIGN(Shape y, MatMulShape(call.shape(0), call.shape(1)));
  call.SetOut(0, DType::kI32, std::move(y));
  return {};
}

Status InferQLinearMatMul(OpCall& call) {
  INFER_ASSIGN(Shape y, MatMulShape(call.shape(0), call.shape(3)));
  call.SetOut(0, call.dtype(7), std::move(y));
  return {};
}

/// Rows of A have parameters along its last but one axis, columns of B along the last.
int RowAxis(const Tensor& a) { return std::max(a.rank() - 2, 0); }
int ColumnAxis(const Tensor& b) { return std::max(b.rank() - 1, 0); }

Status RunMatMulInteger(OpRun& run) {
  const Tensor &a = run.in(0), &b = run.in(1);
  INFER_ASSIGN(const MatMulGeometry g, ReadMatMulGeometry(a.dims(), b.dims()));
  INFER_ASSIGN(const Tensor ac, Centered(a, run.in_or_null(2), RowAxis(a)));
  INFER_ASSIGN(const Tensor bc, Centered(b, run.in_or_null(3), ColumnAxis(b)));
  const auto y = run.Out(0, DType::kI32, g.output).mutable_data<int32_t>();
  MatMulReference(g, ac, bc,
                  [&](int64_t batch, int64_t row, int64_t col, int64_t count, const double* sums) {
                    int32_t* out = y.data() + (batch * g.m + row) * g.n + col;
                    std::transform(sums, sums + count, out, WrapToInt32);
                  });
  return {};
}

Status RunQLinearMatMul(OpRun& run) {
  const Tensor &a = run.in(0), &b = run.in(3);
  INFER_ASSIGN(const MatMulGeometry g, ReadMatMulGeometry(a.dims(), b.dims()));
  INFER_ASSIGN(const Tensor ac, Centered(a, &run.in(2), RowAxis(a)));
  INFER_ASSIGN(const Tensor bc, Centered(b, &run.in(5), ColumnAxis(b)));
  const int rank = static_cast<int>(g.output.size());
  auto reader = [&](size_t input, int axis) {
    const Tensor& t = run.in(input);
    return BroadcastReader::Make(t, QuantParamDims(t.dims(), rank, axis), g.output);
  };
  const int rows = std::max(rank - 2, 0), columns = std::max(rank - 1, 0);
  INFER_ASSIGN(const BroadcastReader a_scale, reader(1, rows));
  INFER_ASSIGN(const BroadcastReader b_scale, reader(4, columns));
  INFER_ASSIGN(const BroadcastReader y_scale, reader(6, rows));
  INFER_ASSIGN(const BroadcastReader y_zero, reader(7, rows));
  Tensor& y = run.Out(0, run.in(7).dtype(), g.output);
  MatMulReference(
      g, ac, bc, [&](int64_t batch, int64_t row, int64_t col, int64_t count, const double* sums) {
        const int64_t base = (batch * g.m + row) * g.n + col;
        for (int64_t i = 0; i < count; ++i) {
          const auto factor = static_cast<float>(a_scale.At(base + i)) *
                              static_cast<float>(b_scale.At(base + i)) /
                              static_cast<float>(y_scale.At(base + i));
          StoreQuantized(y, base + i, static_cast<float>(sums[i]) * factor, y_zero.At(base + i));
        }
      });
  return {};
}

const std::vector<AttrDef>& ConvAttrs() {
  static const std::vector<AttrDef> attrs = {{"auto_pad", AttrKind::kString, std::string("NOTSET")},
                                             {"dilations", AttrKind::kInts},
                                             {"group", AttrKind::kInt, int64_t{1}},
                                             {"kernel_shape", AttrKind::kInts},
                                             {"pads", AttrKind::kInts},
                                             {"strides", AttrKind::kInts}};
  return attrs;
}

/// Channels have scales and zero points of their own: only samples are apart.
void SampleAxis(const OpCall& call, AxisLinks& links) { LinkSame(call, 0, 0, 0, 0, links); }

/// Of a product of two operands, all axes of the first but the last one.
void RowsOfProduct(const OpCall& call, AxisLinks& links) {
  const Shape &a = call.shape(0), &y = call.out(0).shape;
  for (int i = 0; a.has_rank() && y.has_rank() && i + 1 < a.rank(); ++i)
    LinkSame(call, 0, i, 0, y.rank() - a.rank() + i, links);
}

}  // namespace

std::span<const OpDef> QLinearOps() {
  static const OpDef ops[] = {
      {
          .name = "ConvInteger",
          .doc = "Convolution of 8-bit integers into int32; zero points are taken away first.",
          .traits = Trait::kContraction | Trait::kQuantization,
          .axes = SampleAxis,
          .since = 10,
          .versions = {10},
          .inputs = {{"x", "T1"},
                     {"w", "T2"},
                     {"x_zero_point", "T1", Arity::kOptional},
                     {"w_zero_point", "T2", Arity::kOptional}},
          .outputs = {{"y", "T3"}},
          .attrs = ConvAttrs(),
          .constraints = {{"T1", kQuantized8}, {"T2", kQuantized8}, {"T3", TypeSet(DType::kI32)}},
          .tolerance = 0,
          .infer = InferConvInteger,
          .reference = RunConvInteger,
          .cost = CostConv<0, 1>,
          .example = R"(graph g(x: u8[1,2,5,6]) -> (y) {
            w = const i8[3,2,3,3] ~1
            z = const u8[] {7}
            y = ConvInteger(x, w, z) {pads=[1, 1, 1, 1]} })",
      },
      {
          .name = "MatMulInteger",
          .doc = "Product of matrices of 8-bit integers into int32; zero points are taken away.",
          .traits = Trait::kContraction | Trait::kQuantization,
          .axes = RowsOfProduct,
          .since = 10,
          .versions = {10},
          .inputs = {{"A", "T1"},
                     {"B", "T2"},
                     {"a_zero_point", "T1", Arity::kOptional},
                     {"b_zero_point", "T2", Arity::kOptional}},
          .outputs = {{"Y", "T3"}},
          .constraints = {{"T1", kQuantized8}, {"T2", kQuantized8}, {"T3", TypeSet(DType::kI32)}},
          .tolerance = 0,
          .infer = InferMatMulInteger,
          .reference = RunMatMulInteger,
          .cost = CostMatMul<0, 1>,
          .example = R"(graph g(x: u8[3,5]) -> (y) {
            w = const i8[5,4] ~1
            z = const u8[] {7}
            y = MatMulInteger(x, w, z) })",
      },
      {
          .name = "QLinearConv",
          .doc = "Convolution of quantized values into quantized values.",
          .traits = Trait::kContraction | Trait::kQuantization,
          .axes = SampleAxis,
          .since = 10,
          .versions = {10},
          .inputs = {{"x", "T1"},
                     {"x_scale", "f32"},
                     {"x_zero_point", "T1"},
                     {"w", "T2"},
                     {"w_scale", "f32"},
                     {"w_zero_point", "T2"},
                     {"y_scale", "f32"},
                     {"y_zero_point", "T3"},
                     {"B", "T4", Arity::kOptional}},
          .outputs = {{"y", "T3"}},
          .attrs = ConvAttrs(),
          .constraints = {{"T1", kQuantized8},
                          {"T2", kQuantized8},
                          {"T3", kQuantized8},
                          {"T4", TypeSet(DType::kI32)}},
          .tolerance = 0,
          .infer = InferQLinearConv,
          .reference = RunQLinearConv,
          .cost = CostConv<0, 3>,
          .example = R"(graph g(x: u8[1,2,5,6]) -> (y) {
            xs = const f32[] {0.02}
            xz = const u8[] {128}
            w = const i8[3,2,3,3] ~1
            ws = const f32[3] {0.01, 0.02, 0.03}
            wz = const i8[3] {0, 0, 0}
            ys = const f32[] {0.1}
            yz = const u8[] {100}
            y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz) {strides=[2, 1]} })",
      },
      {
          .name = "QLinearMatMul",
          .doc = "Product of quantized matrices into a quantized matrix.",
          .traits = Trait::kContraction | Trait::kQuantization,
          .axes = RowsOfProduct,
          .since = 10,
          .versions = {10, 21},
          .inputs = {{"a", "T1"},
                     {"a_scale", "TS"},
                     {"a_zero_point", "T1"},
                     {"b", "T2"},
                     {"b_scale", "TS"},
                     {"b_zero_point", "T2"},
                     {"y_scale", "TS"},
                     {"y_zero_point", "T3"}},
          .outputs = {{"y", "T3"}},
          .constraints = {{"TS", TypeSet(DType::kF32, DType::kF16, DType::kBF16)},
                          {"T1", kQuantized8 | kFloat8},
                          {"T2", kQuantized8 | kFloat8},
                          {"T3", kQuantized8 | kFloat8}},
          .tolerance = 0,
          .infer = InferQLinearMatMul,
          .reference = RunQLinearMatMul,
          .cost = CostMatMul<0, 3>,
          .example = R"(graph g(x: u8[3,5]) -> (y) {
            xs = const f32[] {0.02}
            xz = const u8[] {128}
            w = const i8[5,4] ~1
            ws = const f32[4] {0.01, 0.02, 0.03, 0.04}
            wz = const i8[4] {0, 0, 0, 0}
            ys = const f32[] {0.1}
            yz = const u8[] {100}
            y = QLinearMatMul(x, xs, xz, w, ws, wz, ys, yz) })",
      },
  };
  return ops;
}

}  // namespace infer
