/// The QLinear operators of com.microsoft that are a plain operator on quantized values.
///
/// One table says which plain operator each contains, where its quantized operands stand, how they
/// become real numbers and how the result is rounded; inference, kernel and cost follow from it.
/// Numbers are f32 throughout and round as ONNX Runtime's kernels for x86 do, because the operators
/// have no other definition: Round::kAfterZeroPoint rounds v + zero point half to even, so that a
/// tie depends on whether the zero point is odd; kBeforeZeroPoint is QuantizeLinear.
#include "lib/ops/common.h"
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"
#include "lib/ops/quantized/quant_reference.h"

namespace infer {

// The families of the plain operators (see registry.cc).
std::span<const OpDef> ActivationOps();
std::span<const OpDef> BinaryOps();
std::span<const OpDef> CompareOps();
std::span<const OpDef> ConcatSplitOps();
std::span<const OpDef> PoolOps();
std::span<const OpDef> SoftmaxOps();

namespace {

/// How quantized operands become the plain operator's.
enum class Reals : uint8_t {
  kScaled,   // scale (q - zero); the result is divided by the output's scale
  kRatio,    // (scale / output's scale) (q - zero): the result needs no scale
  kCentred,  // q - zero; the result is multiplied by the operands' scales over the output's
};
enum class Round : uint8_t { kBeforeZeroPoint, kAfterZeroPoint };

struct Row {
  std::string_view name, plain;
  std::span<const OpDef> (*family)();
  size_t y;                      // where the output's scale stands; its zero point follows
  std::vector<size_t> operands;  // the plain operator's; a scale and a zero point follow each
  Reals reals;
  Round round;
  bool first_is_plain = false;  // operand 0 is not quantized
  bool variadic = false;        // operands go on in steps of three
};

const Row& RowOf(std::string_view name) {
  static const Row rows[] = {
      {"QLinearAdd", "Add", BinaryOps, 6, {0, 3}, Reals::kRatio, Round::kAfterZeroPoint},
      {"QLinearMul", "Mul", BinaryOps, 6, {0, 3}, Reals::kCentred, Round::kAfterZeroPoint},
      {"QLinearSigmoid", "Sigmoid", ActivationOps, 3, {0}, Reals::kScaled, Round::kBeforeZeroPoint},
      {"QLinearLeakyRelu",
       "LeakyRelu",
       ActivationOps,
       3,
       {0},
       Reals::kScaled,
       Round::kBeforeZeroPoint},
      {"QLinearSoftmax", "Softmax", SoftmaxOps, 3, {0}, Reals::kScaled, Round::kBeforeZeroPoint},
      {"QLinearAveragePool",
       "AveragePool",
       PoolOps,
       3,
       {0},
       Reals::kScaled,
       Round::kAfterZeroPoint},
      {"QLinearGlobalAveragePool",
       "GlobalAveragePool",
       PoolOps,
       3,
       {0},
       Reals::kCentred,
       Round::kBeforeZeroPoint},
      {.name = "QLinearConcat",
       .plain = "Concat",
       .family = ConcatSplitOps,
       .y = 0,
       .operands = {2},
       .reals = Reals::kScaled,
       .round = Round::kBeforeZeroPoint,
       .variadic = true},
      {.name = "QLinearWhere",
       .plain = "Where",
       .family = CompareOps,
       .y = 7,
       .operands = {0, 1, 4},
       .reals = Reals::kScaled,
       .round = Round::kBeforeZeroPoint,
       .first_is_plain = true},
  };
  for (const Row& r : rows)
    if (r.name == name) return r;
  INFER_CHECK(false);
  return rows[0];
}

const OpDef& PlainOf(const Row& row) {
  for (const OpDef& d : row.family())
    if (d.name == row.plain) return d;
  INFER_CHECK(false);
  return row.family()[0];
}

std::vector<size_t> OperandsOf(const Row& row, size_t num_inputs) {
  std::vector<size_t> at = row.operands;
  if (row.variadic)
    while (at.back() + 3 < num_inputs) at.push_back(at.back() + 3);
  return at;
}

bool IsQuantized(const Row& row, size_t k) { return k > 0 || !row.first_is_plain; }

/// The attributes of `call` that `plain` has too.
AttrMap SharedAttrs(const OpCall& call, const OpDef& plain) {
  AttrMap out;
  for (const auto& [name, value] : call.attrs())
    if (plain.FindAttr(name)) out[name] = value;
  return out;
}

bool ChannelsLast(const OpCall& call) {
  return call.def().FindAttr("channels_last") && call.Int("channels_last") != 0;
}

/// Softmax of opset 12 and older runs over axis and all behind it.
bool FlattensAxes(const OpCall& call) {
  return call.def().FindAttr("opset") && call.Int("opset") < 13;
}

/// The axis order of [N, spatial..., C] seen as [N, C, spatial...], or the way back.
std::vector<int> ChannelOrder(int rank, bool to_first) {
  std::vector<int> order(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) order[static_cast<size_t>(i)] = i;
  if (rank < 3) return order;
  if (to_first)
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  else
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

Shape PermutedShape(const Shape& s, bool to_first) {
  if (!s.has_rank()) return s;
  std::vector<Dim> dims;
  for (int a : ChannelOrder(s.rank(), to_first)) dims.push_back(s[a]);
  return Shape(std::move(dims));
}

// ---- Inference -------------------------------------------------------------------------------

/// InvalidModel unless the parameter has one value.
Status CheckScalar(const OpCall& call, size_t i) {
  if (!call.has_input(i) || !call.shape(i).has_rank()) return {};
  if (Meet(call.shape(i).num_elements(), Dim(1)).ok()) return {};
  return InvalidModel(
      Cat(call.def().name, ": input ", i, " is ", call.shape(i).ToString(), ", wants one value"));
}

/// Operand k at input `at`: quantized to 8 bits, with one scale (f32) and one zero point of its
/// type.
Status CheckQuantized(const OpCall& call, size_t at, DType type) {
  for (size_t i : {at + 1, at + 2}) INFER_TRY(CheckScalar(call, i));
  if (!call.has_input(at) || !call.has_input(at + 1))
    return InvalidModel(
        Cat(call.def().name, ": wants a tensor, a scale and a zero point from input ", at, " on"));
  const auto fits = [&](size_t i, DType want) {
    const DType t = call.has_input(i) ? call.dtype(i) : DType::kUndefined;
    return t == want || t == DType::kUndefined || want == DType::kUndefined;
  };
  if (fits(at, type) && fits(at + 1, DType::kF32) && fits(at + 2, type)) return {};
  return InvalidModel(Cat(call.def().name, ": inputs from ", at, " on are no ", Name(type),
                          " tensor with an f32 scale and a zero point"));
}

/// The plain operator's call, with f32 in place of quantized operands.
struct PlainCall {
  AttrMap attrs;
  std::vector<ValueType> types;
  OpCall call;

  PlainCall(const OpCall& outer, const Row& row, const std::vector<size_t>& operands)
      : attrs(SharedAttrs(outer, PlainOf(row))),
        types(operands.size()),
        call(PlainOf(row), attrs, operands.size(), 1) {
    for (size_t k = 0; k < operands.size(); ++k) {
      const TensorType& t = outer.in(operands[k]);
      types[k] = TensorType{IsQuantized(row, k) ? DType::kF32 : t.dtype,
                            ChannelsLast(outer) ? PermutedShape(t.shape, true) : t.shape};
      call.BindInput(k, &types[k]);
    }
  }
};

Status InferQLinear(OpCall& call) {
  const Row& row = RowOf(call.def().name);
  if (row.variadic && (call.num_inputs() < 5 || (call.num_inputs() - 2) % 3 != 0))
    return InvalidModel(Cat(call.def().name, ": has ", call.num_inputs(),
                            " inputs, wants a scale, a zero point and triples"));
  const std::vector<size_t> operands = OperandsOf(row, call.num_inputs());
  for (size_t i : {row.y, row.y + 1}) INFER_TRY(CheckScalar(call, i));
  const DType type = row.variadic ? call.dtype(row.y + 1) : call.dtype(operands.back());
  for (size_t k = 0; k < operands.size(); ++k)
    if (IsQuantized(row, k)) INFER_TRY(CheckQuantized(call, operands[k], type));
  PlainCall plain(call, row, operands);
  INFER_TRY(plain.call.def().infer(plain.call));
  const Shape& y = plain.call.out(0).shape;
  call.SetOut(0, type, ChannelsLast(call) ? PermutedShape(y, false) : y);
  return {};
}

/// The plain operator's FLOPs, and two per output for scale and zero point.
Cost CostQLinear(const OpCall& call) {
  const Row& row = RowOf(call.def().name);
  Cost c = TrafficOf(call);
  PlainCall plain(call, row, OperandsOf(row, call.num_inputs()));
  if (!plain.call.def().infer(plain.call).ok() || !plain.call.out(0).is_static()) return c;
  c.flops = CostOf(plain.call).flops + 2 * StaticElements(plain.call.out(0).shape);
  return c;
}

// ---- Kernel ----------------------------------------------------------------------------------

float ScaleAt(const OpRun& run, size_t i) { return static_cast<float>(run.in(i).At(0)); }

/// Rounds `v`, adds `zero` and saturates.
void StoreAll(const Tensor& v, float divisor, float factor, Round round, double zero, Tensor& y) {
  const auto in = v.data<float>();
  for (int64_t i = 0; i < v.num_elements(); ++i) {
    const float scaled = in[static_cast<size_t>(i)] / divisor * factor;
    if (round == Round::kBeforeZeroPoint)
      StoreQuantized(y, i, scaled, zero);
    else
      StoreQuantized(y, i, scaled + static_cast<float>(zero), 0);
  }
}

Result<Tensor> RunPlain(const OpRun& run, const Row& row, std::vector<Tensor> inputs) {
  const OpDef& plain = PlainOf(row);
  AttrMap attrs = SharedAttrs(run.call(), plain);
  if (ChannelsLast(run.call()))
    inputs[0] = Transposed(inputs[0], ChannelOrder(inputs[0].rank(), true));
  const Dims whole = inputs[0].dims();
  if (FlattensAxes(run.call()) && inputs[0].rank() > 0) {
    INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), inputs[0].rank()));
    const int64_t outer = NumElements(Dims(whole.begin(), whole.begin() + axis));
    inputs[0] = inputs[0].Reshaped({outer, NumElements(Dims(whole.begin() + axis, whole.end()))});
    attrs["axis"] = int64_t{1};
  }
  INFER_ASSIGN(Tensor y, RunReference(row.family(), row.plain, attrs, inputs));
  if (FlattensAxes(run.call())) y = y.Reshaped(whole);
  return ChannelsLast(run.call()) ? Transposed(y, ChannelOrder(y.rank(), false)) : y;
}

Status RunQLinear(OpRun& run) {
  const Row& row = RowOf(run.call().def().name);
  const float y_scale = ScaleAt(run, row.y);
  const std::vector<size_t> operands = OperandsOf(row, run.num_inputs());
  std::vector<Tensor> inputs;
  float factor = 1;
  for (size_t k = 0; k < operands.size(); ++k) {
    const size_t at = operands[k];
    if (!IsQuantized(row, k)) {
      inputs.push_back(run.in(at));
      continue;
    }
    const float scale = ScaleAt(run, at + 1);
    factor *= scale;
    INFER_ASSIGN(Tensor x, Centered(run.in(at), run.in_or_null(at + 2), 0));
    const float by = row.reals == Reals::kScaled  ? scale
                     : row.reals == Reals::kRatio ? scale / y_scale
                                                  : 1;
    for (float& v : x.mutable_data<float>()) v *= by;
    inputs.push_back(std::move(x));
  }
  INFER_ASSIGN(const Tensor real, RunPlain(run, row, std::move(inputs)));
  const DType type = row.variadic ? run.in(row.y + 1).dtype() : run.in(operands.back()).dtype();
  const double zero = run.has(row.y + 1) ? run.in(row.y + 1).At(0) : 0;
  Tensor& y = run.Out(0, type, real.dims());
  StoreAll(real, row.reals == Reals::kScaled ? y_scale : 1,
           row.reals == Reals::kCentred ? factor / y_scale : 1, row.round, zero, y);
  return {};
}

/// Samples, axis 0 in every layout, are apart where the plain operator keeps them so.
void SampleAxes(const OpCall& call, AxisLinks& links) {
  const Row& row = RowOf(call.def().name);
  const std::vector<size_t> operands = OperandsOf(row, call.num_inputs());
  PlainCall plain(call, row, operands);
  if (!plain.call.def().infer(plain.call).ok()) return;
  for (AxisLink l : AxesOf(plain.call)) {
    if (l.kind != AxisLink::Kind::kSame || l.from.axis != 0 || l.to.axis != 0) continue;
    l.from.value = operands[l.from.value];
    links.push_back(l);
  }
}

// ---- Definitions -----------------------------------------------------------------------------

using Params = std::vector<ParamDef>;

OpDef QLinearOp(std::string_view name, std::string_view doc, Params inputs, ParamDef output,
                std::vector<AttrDef> attrs, std::string_view example) {
  return {.name = name,
          .domain = kMicrosoft,
          .doc = doc,
          .traits = Trait::kQuantization,
          .axes = SampleAxes,
          .inputs = std::move(inputs),
          .outputs = {output},
          .attrs = std::move(attrs),
          .constraints = {{"T", kQuantized8}},
          .tolerance = 0,
          .infer = InferQLinear,
          .reference = RunQLinear,
          .cost = CostQLinear,
          .example = example};
}

Params UnaryParams() {
  return {{"X", "T"},
          {"X_scale", "f32"},
          {"X_zero_point", "T", Arity::kOptional},
          {"Y_scale", "f32"},
          {"Y_zero_point", "T", Arity::kOptional}};
}

Params BinaryParams() {
  return {{"A", "T"},
          {"A_scale", "f32"},
          {"A_zero_point", "T", Arity::kOptional},
          {"B", "T"},
          {"B_scale", "f32"},
          {"B_zero_point", "T", Arity::kOptional},
          {"C_scale", "f32"},
          {"C_zero_point", "T", Arity::kOptional}};
}

Params PoolParams(Arity zero) {
  return {{"X", "T"},
          {"x_scale", "f32"},
          {"x_zero_point", "T", zero},
          {"y_scale", "f32"},
          {"y_zero_point", "T", zero}};
}

#define INFER_QLINEAR_SCALES                      \
  "xs = const f32[] {0.02}  xz = const u8[] {3} " \
  "ys = const f32[] {0.03}  yz = const u8[] {5} "

}  // namespace

std::span<const OpDef> ContribQLinearOps() {
  const AttrDef channels_last = {"channels_last", AttrKind::kInt, int64_t{0}};
  static const OpDef ops[] = {
      QLinearOp("QLinearAdd", "The sum of quantized tensors.", BinaryParams(), {"C", "T"}, {},
                "graph g(a: u8[2,3], b: u8[3]) -> (y) { " INFER_QLINEAR_SCALES
                "y = com.microsoft::QLinearAdd(a, xs, xz, b, xs, xz, ys, yz) }"),
      QLinearOp("QLinearMul", "The product of quantized tensors.", BinaryParams(), {"C", "T"}, {},
                "graph g(a: u8[2,3], b: u8[3]) -> (y) { " INFER_QLINEAR_SCALES
                "y = com.microsoft::QLinearMul(a, xs, xz, b, xs, xz, ys, yz) }"),
      QLinearOp("QLinearSigmoid", "Sigmoid of a quantized tensor.", UnaryParams(), {"Y", "T"}, {},
                "graph g(x: u8[2,3]) -> (y) { " INFER_QLINEAR_SCALES
                "y = com.microsoft::QLinearSigmoid(x, xs, xz, ys, yz) }"),
      QLinearOp("QLinearLeakyRelu", "LeakyRelu of a quantized tensor.", UnaryParams(), {"Y", "T"},
                {{"alpha", AttrKind::kFloat, 0.01f}},
                "graph g(x: u8[2,3]) -> (y) { " INFER_QLINEAR_SCALES
                "y = com.microsoft::QLinearLeakyRelu(x, xs, xz, ys, yz) {alpha=0.1} }"),
      QLinearOp("QLinearSoftmax", "Softmax of a quantized tensor, as Softmax of an opset has it.",
                {{"X", "T"},
                 {"X_scale", "f32"},
                 {"x_zero_point", "T", Arity::kOptional},
                 {"y_scale", "f32"},
                 {"y_zero_point", "T"}},
                {"Y", "T"},
                {{"axis", AttrKind::kInt, int64_t{-1}}, {"opset", AttrKind::kInt, {}, true}},
                "graph g(x: u8[2,3]) -> (y) { " INFER_QLINEAR_SCALES
                "y = com.microsoft::QLinearSoftmax(x, xs, xz, ys, yz) {opset=13} }"),
      QLinearOp("QLinearAveragePool", "The mean of every window of a quantized tensor.",
                PoolParams(Arity::kOptional), {"Y", "T"},
                {{"auto_pad", AttrKind::kString, std::string("NOTSET")},
                 {"ceil_mode", AttrKind::kInt, int64_t{0}},
                 channels_last,
                 {"count_include_pad", AttrKind::kInt, int64_t{0}},
                 {"kernel_shape", AttrKind::kInts, {}, true},
                 {"pads", AttrKind::kInts},
                 {"strides", AttrKind::kInts}},
                "graph g(x: u8[1,2,8,9]) -> (y) { " INFER_QLINEAR_SCALES
                "y = com.microsoft::QLinearAveragePool(x, xs, xz, ys, yz) {kernel_shape=[3, 3]} }"),
      QLinearOp("QLinearGlobalAveragePool", "The mean of every channel of a quantized tensor.",
                PoolParams(Arity::kOne), {"Y", "T"}, {channels_last},
                "graph g(x: u8[1,4,5,2]) -> (y) { " INFER_QLINEAR_SCALES
                "y = com.microsoft::QLinearGlobalAveragePool(x, xs, xz, ys, yz) "
                "{channels_last=1} }"),
      {.name = "QLinearConcat",
       .domain = kMicrosoft,
       .doc = "Concat of quantized tensors, each with a scale and a zero point.",
       .traits = Trait::kQuantization,
       .axes = SampleAxes,
       .inputs = {{"Y_scale", "f32"},
                  {"Y_zero_point", "T8"},
                  {"inputs", "TV", Arity::kVariadic, 1, true}},
       .outputs = {{"Y", "T8"}},
       .attrs = {{"axis", AttrKind::kInt, {}, true}},
       .constraints = {{"T8", kQuantized8}, {"TV", kQuantized8 | TypeSet(DType::kF32)}},
       .tolerance = 0,
       .infer = InferQLinear,
       .reference = RunQLinear,
       .cost = CostQLinear,
       .example = "graph g(a: u8[2,3], b: u8[2,1]) -> (y) { " INFER_QLINEAR_SCALES
                  "y = com.microsoft::QLinearConcat(ys, yz, a, xs, xz, b, ys, yz) {axis=1} }"},
      {.name = "QLinearWhere",
       .domain = kMicrosoft,
       .doc = "Where of quantized tensors.",
       .traits = Trait::kQuantization,
       .axes = SampleAxes,
       .inputs = {{"condition", "B"},
                  {"X", "T"},
                  {"x_scale", "f32"},
                  {"x_zero_point", "T"},
                  {"Y", "T"},
                  {"y_scale", "f32"},
                  {"y_zero_point", "T"},
                  {"z_scale", "f32"},
                  {"z_zero_point", "T"}},
       .outputs = {{"Z", "T"}},
       .constraints = {{"B", TypeSet(DType::kBool)}, {"T", kQuantized8}},
       .tolerance = 0,
       .infer = InferQLinear,
       .reference = RunQLinear,
       .cost = CostQLinear,
       .example = "graph g(c: bool[2,3], a: u8[2,3], b: u8[3]) -> (y) { " INFER_QLINEAR_SCALES
                  "y = com.microsoft::QLinearWhere(c, a, xs, xz, b, ys, yz, ys, yz) }"},
  };
  return ops;
}

}  // namespace infer
