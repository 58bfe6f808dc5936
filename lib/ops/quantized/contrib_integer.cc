/// Products and look-ups with quantized operands of com.microsoft: QGemm and GatherBlockQuantized,
/// and those that become standard operators on import: QuantizeLinear, DequantizeLinear,
/// MatMulIntegerToFloat, DynamicQuantizeMatMul.
#include "lib/ops/common.h"
#include "lib/ops/matmul/matmul.h"
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"
#include "lib/ops/quantized/quant_reference.h"

namespace infer {
namespace {

// ---- QGemm -----------------------------------------------------------------------------------

enum GemmInput : size_t { kA, kAScale, kAZero, kB, kBScale, kBZero, kC, kYScale, kYZero };

Status CheckGemmParameters(const OpCall& call, const Dim& columns) {
  for (size_t i : {kAScale, kAZero, kBScale, kBZero, kYScale, kYZero}) {
    if (!call.has_input(i) || !call.shape(i).has_rank()) continue;
    const Dim n = call.shape(i).num_elements();
    const bool per_column = (i == kBScale || i == kBZero) && call.shape(i).rank() == 1;
    if (Meet(n, Dim(1)).ok() || (per_column && Meet(n, columns).ok())) continue;
    return InvalidModel(Cat("input '", call.def().inputs[i].name, "' is ", call.shape(i).ToString(),
                            ", wants one value",
                            i == kBScale || i == kBZero ? " or one per column" : ""));
  }
  return {};
}

Shape MaybeSwapped(const Shape& s, bool swap) {
  return s.has_rank() && s.rank() == 2 && swap ? Shape({s[1], s[0]}) : s;
}

Status InferQGemm(OpCall& call) {
  for (size_t i : {kA, kB}) INFER_TRY(CheckRank(call, i, 2, 2));
  if (call.has_input(kYScale) != call.has_input(kYZero))
    return Unsupported("QGemm: y_scale and y_zero_point must be given together");
  INFER_ASSIGN(Shape y, MatMulShape(MaybeSwapped(call.shape(kA), call.Int("transA") != 0),
                                    MaybeSwapped(call.shape(kB), call.Int("transB") != 0)));
  INFER_TRY(CheckGemmParameters(call, y.has_rank() ? y[1] : Dim()));
  if (call.has_input(kC) && call.shape(kC).has_rank() && y.has_rank()) {
    auto both = Broadcast(call.shape(kC), y);
    if (!both.ok() || !Meet(*both, y).ok())
      return InvalidModel(
          Cat("C ", call.shape(kC).ToString(), " does not broadcast to ", y.ToString()));
  }
  call.SetOut(0, call.has_input(kYZero) ? call.dtype(kYZero) : DType::kF32, std::move(y));
  return {};
}

/// The sum (A - a_zero)(B - b_zero) + C times alpha a_scale b_scale [/ y_scale] in f32.
Status RunQGemm(OpRun& run) {
  const bool trans_a = run.Int("transA") != 0, trans_b = run.Int("transB") != 0;
  INFER_ASSIGN(Tensor a, Centered(run.in(kA), &run.in(kAZero), 0));
  INFER_ASSIGN(Tensor b, Centered(run.in(kB), &run.in(kBZero), trans_b ? 0 : 1));
  if (trans_a) a = Transposed(a, {1, 0});
  if (trans_b) b = Transposed(b, {1, 0});
  INFER_ASSIGN(const MatMulGeometry g, ReadMatMulGeometry(a.dims(), b.dims()));
  const Tensor* c = run.in_or_null(kC);
  INFER_ASSIGN(
      const BroadcastReader bias,
      BroadcastReader::Make(c ? *c : Tensor::Scalar<int32_t>(0), c ? c->dims() : Dims{}, g.output));
  const Tensor& b_scale = run.in(kBScale);
  std::vector<float> factors(static_cast<size_t>(g.n));
  for (int64_t j = 0; j < g.n; ++j) {
    float& f = factors[static_cast<size_t>(j)];
    f = run.Float("alpha") * static_cast<float>(run.in(kAScale).At(0)) *
        static_cast<float>(b_scale.At(b_scale.num_elements() == 1 ? 0 : j));
    if (run.has(kYScale)) f /= static_cast<float>(run.in(kYScale).At(0));
  }
  const Tensor* zero = run.in_or_null(kYZero);
  Tensor& y = run.Out(0, zero ? zero->dtype() : DType::kF32, g.output);
  MatMulReference(
      g, a, b, [&](int64_t, int64_t row, int64_t col, int64_t count, const double* sums) {
        for (int64_t i = 0; i < count; ++i) {
          const int64_t at = row * g.n + col + i;
          const double sum = sums[i] + bias.At(at);  // exact
          const float v = static_cast<float>(sum) * factors[static_cast<size_t>(col + i)];
          if (zero)
            StoreQuantized(y, at, v, zero->At(0));
          else
            y.Set(at, v);
        }
      });
  return {};
}

Cost CostQGemm(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.in(kA).is_static() || !call.out(0).is_static()) return c;
  const int64_t k = call.shape(kA)[call.Int("transA") != 0 ? 0 : 1].value();
  c.flops = StaticElements(call.out(0).shape) * (2 * k + (call.has_input(kC) ? 2 : 1));
  return c;
}

// ---- GatherBlockQuantized --------------------------------------------------------------------

/// How the codes of `data` lie.
struct Blocks {
  int gather = 0, quantize = 0;     // axes
  int64_t block = 0, per_byte = 1;  // codes in one element of `data`
};

Result<Blocks> ReadBlocks(const OpCall& call, int rank) {
  Blocks b;
  INFER_ASSIGN(b.gather, NormalizeAxis(call.Int("gather_axis"), rank));
  INFER_ASSIGN(b.quantize, NormalizeAxis(call.Int("quantize_axis"), rank));
  b.block = call.Int("block_size");
  const int64_t bits = call.Int("bits");
  if (b.block < 16 || (b.block & (b.block - 1)) != 0)
    return InvalidModel(Cat("block_size is ", b.block, ", wants a power of two from 16 on"));
  const bool bytes = call.dtype(0) == DType::kU8;
  if (bits != 4 && !(bytes && (bits == 2 || bits == 8)))
    return InvalidModel(Cat("bits is ", bits, " for ", Name(call.dtype(0)), " codes"));
  if (!bytes) return b;
  if (b.gather != 0 || b.quantize != rank - 1 || rank < 2)
    return InvalidModel(
        Cat("u8 codes want gather_axis 0 and the last axis as quantize_axis; they are ", b.gather,
            " and ", b.quantize));
  b.per_byte = 8 / bits;
  return b;
}

Status InferGatherBlocks(OpCall& call) {
  const Shape &data = call.shape(0), &indices = call.shape(1);
  const DType type = call.dtype(2);
  if (!data.has_rank()) {
    call.SetOut(0, type, Shape());
    return {};
  }
  INFER_ASSIGN(const Blocks b, ReadBlocks(call, data.rank()));
  // Extents of codes, of scales, and of bytes with zero points.
  std::vector<Dim> codes = data.dims(), scales = data.dims(), zeros = data.dims();
  const auto q = static_cast<size_t>(b.quantize);
  codes[q] = scales[q] = zeros[q] = Dim();
  if (data[b.quantize].is_static()) {
    const int64_t n = data[b.quantize].value() * b.per_byte, blocks = (n + b.block - 1) / b.block;
    codes[q] = Dim(n);
    scales[q] = Dim(blocks);
    zeros[q] = Dim((blocks + b.per_byte - 1) / b.per_byte);
  }
  for (size_t i : {2, 3}) {
    if (!call.has_input(i) || Meet(call.shape(i), Shape(i == 2 ? scales : zeros)).ok()) continue;
    return InvalidModel(Cat("input '", call.def().inputs[i].name, "' is ", call.shape(i).ToString(),
                            ", does not fit data ", data.ToString()));
  }
  if (!indices.has_rank()) {
    call.SetOut(0, type, Shape());
    return {};
  }
  codes.erase(codes.begin() + b.gather);
  codes.insert(codes.begin() + b.gather, indices.dims().begin(), indices.dims().end());
  call.SetOut(0, type, Shape(std::move(codes)));
  return {};
}

/// Code i of row `row`, where rows of packed codes start at a byte. Lowest bits come first.
double CodeAt(const Tensor& t, int64_t bytes_per_row, int64_t per_byte, int64_t row, int64_t i) {
  if (per_byte == 1) return t.At(row * bytes_per_row + i);
  const int64_t bits = 8 / per_byte, byte = t.IntAt(row * bytes_per_row + i / per_byte);
  return static_cast<double>((byte >> (i % per_byte * bits)) & ((1 << bits) - 1));
}

Status RunGatherBlocks(OpRun& run) {
  const Tensor &data = run.in(0), &scales = run.in(2);
  const Tensor* zeros = run.in_or_null(3);
  INFER_ASSIGN(const Blocks b, ReadBlocks(run.call(), data.rank()));
  const int64_t extent = data.dim(b.gather);
  INFER_ASSIGN(const auto indices, NormalizeIndices(run.in(1), extent));
  Dims codes = data.dims();
  codes[static_cast<size_t>(b.quantize)] *= b.per_byte;
  const int64_t inner = Product(codes, b.gather + 1, data.rank());
  const int64_t step =
      Product(codes, b.quantize + 1, data.rank());  // between neighbours in a block
  const int64_t row = codes[static_cast<size_t>(b.quantize)], blocks = scales.dim(b.quantize);
  Dims dims(codes.begin(), codes.begin() + b.gather);
  dims.insert(dims.end(), run.in(1).dims().begin(), run.in(1).dims().end());
  dims.insert(dims.end(), codes.begin() + b.gather + 1, codes.end());
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, scales.dtype(), std::move(dims)));
  const bool bytes = data.dtype() == DType::kU8;
  const double middle = bytes ? static_cast<double>(int64_t{1} << (run.Int("bits") - 1)) : 0;
  // Packed codes lie along the last axis, where `step` is 1.
  const int64_t data_row = bytes ? data.dim(-1) : 0, zero_row = bytes && zeros ? zeros->dim(-1) : 0;
  const auto n = static_cast<int64_t>(indices.size());
  for (int64_t r = 0; r < Product(codes, 0, b.gather) * n; ++r)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t at = (r / n * extent + indices[static_cast<size_t>(r % n)]) * inner + i;
      const int64_t outer = at / (row * step), along = at / step % row;
      const int64_t scale = (outer * blocks + along / b.block) * step + at % step;
      const double code = bytes ? CodeAt(data, data_row, b.per_byte, outer, along) : data.At(at);
      double zero = middle;
      if (zeros)
        zero =
            bytes ? CodeAt(*zeros, zero_row, b.per_byte, outer, along / b.block) : zeros->At(scale);
      y->Set(r * inner + i, static_cast<float>(code - zero) * static_cast<float>(scales.At(scale)));
    }
  return {};
}

Cost CostGatherBlocks(const OpCall& call) {
  Cost c = TrafficOf(call);
  const int64_t outputs = StaticElements(call.out(0).shape);
  c.flops = 2 * outputs;
  c.bytes_read = std::min(c.bytes_read, 2 * outputs);  // not the whole table
  return c;
}

// ---- Lifted ----------------------------------------------------------------------------------

bool IsKnownF16(const std::string& name, LiftContext& out) {
  const ValueType* t = out.Type(name);
  return t && t->is_tensor() && t->tensor().dtype == DType::kF16;
}

Status RefuseAttrs(const NodeSpec& node) {
  if (node.attrs.empty()) return {};
  return InvalidModel(Cat(node.op, ": no attribute '", node.attrs.begin()->first, "'"));
}

std::string InputOf(const NodeSpec& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : std::string();
}

/// The operator of the same name in ai.onnx, which has every form of it.
Status LiftToStandard(NodeSpec node, int, LiftContext& out) {
  for (const auto& [name, value] : node.attrs)
    if (name != "axis") return InvalidModel(Cat(node.op, ": no attribute '", name, "'"));
  node.domain = "";
  out.Emit(std::move(node));
  return {};
}

/// y = float(MatMulInteger(a, b)) * a_scale b_scale [+ bias].
void EmitScaledProduct(const NodeSpec& node, const std::string& a, const std::string& a_scale,
                       const std::string& a_zero, const std::string& b_scale,
                       const std::string& b_zero, const std::string& bias, LiftContext& out) {
  const std::string sum = out.Fresh("sum"), real = out.Fresh("real"), scale = out.Fresh("scale");
  std::vector<std::string> operands = {a, node.inputs[1], a_zero, b_zero};
  while (operands.back().empty()) operands.pop_back();
  out.Emit(MakeSpec("MatMulInteger", node, std::move(operands), {sum}));
  out.Emit(MakeSpec("Cast", node, {sum}, {real}, {{"to", static_cast<int64_t>(DType::kF32)}}));
  out.Emit(MakeSpec("Mul", node, {a_scale, b_scale}, {scale}));
  const std::string scaled = bias.empty() ? node.outputs[0] : out.Fresh("scaled");
  out.Emit(MakeSpec("Mul", node, {real, scale}, {scaled}));
  if (!bias.empty()) out.Emit(MakeSpec("Add", node, {scaled, bias}, {node.outputs[0]}));
}

Status LiftMatMulIntegerToFloat(NodeSpec node, int, LiftContext& out) {
  INFER_TRY(RefuseAttrs(node));
  if (IsKnownF16(node.inputs[2], out)) return Unsupported("f16 scales; f32 ones are known");
  EmitScaledProduct(node, node.inputs[0], node.inputs[2], InputOf(node, 4), node.inputs[3],
                    InputOf(node, 5), InputOf(node, 6), out);
  return {};
}

Status LiftDynamicQuantizeMatMul(NodeSpec node, int, LiftContext& out) {
  INFER_TRY(RefuseAttrs(node));
  const std::string a = out.Fresh("quantized"), scale = out.Fresh("a_scale"),
                    zero = out.Fresh("a_zero_point");
  out.Emit(MakeSpec("DynamicQuantizeLinear", node, {node.inputs[0]}, {a, scale, zero}));
  EmitScaledProduct(node, a, scale, zero, node.inputs[2], InputOf(node, 3), InputOf(node, 4), out);
  return {};
}

void QGemmAxes(const OpCall& call, AxisLinks& links) {
  LinkSame(call, 0, call.Int("transA") != 0 ? 1 : 0, 0, 0, links);
}

/// The indices lie where the axis was that they name.
void GatherBlockAxes(const OpCall& call, AxisLinks& links) {
  const Shape &data = call.shape(0), &index = call.shape(1);
  if (!data.has_rank() || !index.has_rank()) return;
  const auto axis = NormalizeAxis(call.Int("gather_axis"), data.rank());
  for (int i = 0; axis.ok() && i < index.rank(); ++i) LinkSame(call, 1, i, 0, *axis + i, links);
}

}  // namespace

std::span<const OpDef> ContribIntegerOps() {
  constexpr TypeSet kQuantized = TypeSet(DType::kI8, DType::kU8, DType::kI16, DType::kU16) | kInt4;
  constexpr TypeSet kReal{DType::kF32, DType::kF16};
  static const OpDef ops[] = {
      {
          .name = "QGemm",
          .domain = kMicrosoft,
          .doc = "Gemm of quantized matrices and an int32 C, into quantized values or f32.",
          .traits = Trait::kContraction | Trait::kQuantization,
          .axes = QGemmAxes,
          .inputs = {{"A", "TA"},
                     {"a_scale", "T"},
                     {"a_zero_point", "TA"},
                     {"B", "TB"},
                     {"b_scale", "T"},
                     {"b_zero_point", "TB"},
                     {"C", "TC", Arity::kOptional},
                     {"y_scale", "T", Arity::kOptional},
                     {"y_zero_point", "TYZ", Arity::kOptional}},
          .outputs = {{"Y", "TY"}},
          .attrs = {{"alpha", AttrKind::kFloat, 1.0f},
                    {"transA", AttrKind::kInt, int64_t{0}},
                    {"transB", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", TypeSet(DType::kF32)},
                          {"TA", kQuantized8},
                          {"TB", kQuantized8},
                          {"TC", TypeSet(DType::kI32)},
                          {"TYZ", kQuantized8},
                          {"TY", kQuantized8 | TypeSet(DType::kF32)}},
          .tolerance = 0,
          .infer = InferQGemm,
          .reference = RunQGemm,
          .cost = CostQGemm,
          .example = R"(graph g(x: u8[3,5]) -> (y) {
            s = const f32[] {0.02}
            xz = const u8[] {3}
            w = const i8[7,5] ~1
            ws = const f32[7] ~2
            wz = const i8[7] {0, 1, 0, 2, 0, 3, 0}
            c = const i32[7] {1, 2, 3, 4, 5, 6, 7}
            y = com.microsoft::QGemm(x, s, xz, w, ws, wz, c, s, xz) {transB=1} })",
      },
      {
          .name = "GatherBlockQuantized",
          .domain = kMicrosoft,
          .doc = "Gather from a table of 2-, 4- or 8-bit codes with a scale per block.",
          .traits = Trait::kMove | Trait::kQuantization,
          .axes = GatherBlockAxes,
          .inputs = {{"data", "T1"},
                     {"indices", "Tind"},
                     {"scales", "T2"},
                     {"zero_points", "T1", Arity::kOptional}},
          .outputs = {{"output", "T2"}},
          .attrs = {{"bits", AttrKind::kInt, int64_t{4}},
                    {"block_size", AttrKind::kInt, int64_t{128}},
                    {"gather_axis", AttrKind::kInt, int64_t{0}},
                    {"quantize_axis", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T1", kInt4 | TypeSet(DType::kU8)},
                          {"T2", TypeSet(DType::kF32, DType::kF16, DType::kBF16)},
                          {"Tind", kIndexTypes}},
          .infer = InferGatherBlocks,
          .reference = RunGatherBlocks,
          .cost = CostGatherBlocks,
          .example = R"(graph g(i: i64[2]) -> (y) {
            d = const u8[5,10] ~1
            s = const f32[5,2] ~2
            y = com.microsoft::GatherBlockQuantized(d, i, s) {block_size=16} })",
      },
      {
          .name = "QuantizeLinear",
          .domain = kMicrosoft,
          .doc = "QuantizeLinear of ai.onnx, which it becomes on import.",
          .traits = Trait::kQuantization,
          .inputs = {{"x", "T1"}, {"y_scale", "T1"}, {"y_zero_point", "T2", Arity::kOptional}},
          .outputs = {{"y", "T2"}},
          .attrs = {{"axis", AttrKind::kInt}},
          .constraints = {{"T1", kReal}, {"T2", kQuantized}},
          .lift = LiftToStandard,
      },
      {
          .name = "DequantizeLinear",
          .domain = kMicrosoft,
          .doc = "DequantizeLinear of ai.onnx, which it becomes on import.",
          .traits = Trait::kQuantization,
          .inputs = {{"x", "T1"}, {"x_scale", "T2"}, {"x_zero_point", "T1", Arity::kOptional}},
          .outputs = {{"y", "T2"}},
          .attrs = {{"axis", AttrKind::kInt}},
          .constraints = {{"T1", kQuantized | TypeSet(DType::kI32)}, {"T2", kReal}},
          .lift = LiftToStandard,
      },
      {
          .name = "MatMulIntegerToFloat",
          .domain = kMicrosoft,
          .doc = "MatMulInteger, scaled, and a bias; becomes its parts on import.",
          .traits = Trait::kContraction | Trait::kQuantization,
          .inputs = {{"A", "T1"},
                     {"B", "T2"},
                     {"a_scale", "T3"},
                     {"b_scale", "T3"},
                     {"a_zero_point", "T1", Arity::kOptional},
                     {"b_zero_point", "T2", Arity::kOptional},
                     {"bias", "T3", Arity::kOptional}},
          .outputs = {{"Y", "T3"}},
          .constraints = {{"T1", kQuantized8}, {"T2", kQuantized8}, {"T3", TypeSet(DType::kF32)}},
          .lift = LiftMatMulIntegerToFloat,
      },
      {
          .name = "DynamicQuantizeMatMul",
          .domain = kMicrosoft,
          .doc = "DynamicQuantizeLinear and MatMulInteger, scaled; becomes its parts on import.",
          .traits = Trait::kContraction | Trait::kQuantization,
          .inputs = {{"A", "T1"},
                     {"B", "T2"},
                     {"b_scale", "T1"},
                     {"b_zero_point", "T2", Arity::kOptional},
                     {"bias", "T1", Arity::kOptional}},
          .outputs = {{"Y", "T1"}},
          .constraints = {{"T1", TypeSet(DType::kF32)}, {"T2", kQuantized8}},
          .lift = LiftDynamicQuantizeMatMul,
      },
  };
  return ops;
}

}  // namespace infer
