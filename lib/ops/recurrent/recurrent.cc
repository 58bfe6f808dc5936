/// RNN, GRU and LSTM, and com.microsoft's LSTM of quantized products. Formulas and gate orders as
/// in the ONNX operator specification.
///
/// Letters: S steps, B batch, I input size, H hidden size, D directions, G gates per cell.
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/ops/op_def.h"
#include "lib/ops/quantized/quant_reference.h"
#include "lib/ops/recurrent/recurrent_reference.h"

namespace infer {
namespace {

// ---- Inference -------------------------------------------------------------------------------

constexpr int GatesOf(std::string_view op) {
  return op.ends_with("LSTM") ? 4 : op == "GRU" ? 3 : 1;
}

constexpr RecurrentCell CellOf(std::string_view op) {
  return op == "LSTM"  ? RecurrentCell::kLstm
         : op == "GRU" ? RecurrentCell::kGru
                       : RecurrentCell::kRnn;
}

Status CheckInput(const OpCall& call, size_t i, const std::vector<Dim>& want) {
  if (!call.has_input(i)) return {};
  auto met = Meet(call.shape(i), Shape(want));
  if (met.ok()) return {};
  return InvalidModel(Cat("input '", call.def().inputs[i].name, "' is ", call.shape(i).ToString(),
                          ", wants ", Shape(want).ToString()));
}

/// A bound below 0 has no range to clip to.
Status CheckClip(const OpCall& call) {
  if (!call.HasAttr("clip") || call.Float("clip") >= 0) return {};
  return InvalidModel(Cat("clip is ", call.Float("clip"), ", below 0"));
}

Status InferRecurrent(OpCall& call) {
  const std::string& direction = call.Str("direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return InvalidModel(Cat("direction '", direction, "' is not known"));
  INFER_TRY(CheckActivations(call, CellOf(call.def().name)));
  INFER_TRY(CheckClip(call));
  const Dim dirs(direction == "bidirectional" ? 2 : 1), gates(GatesOf(call.def().name));
  const bool batch_first = call.Int("layout") != 0;
  INFER_TRY(CheckInput(call, 0, {Dim(), Dim(), Dim()}));
  INFER_TRY(CheckInput(call, 1, {dirs, Dim(), Dim()}));
  INFER_TRY(CheckInput(call, 2, {dirs, Dim(), Dim()}));
  Dim steps, batch, hidden, input;
  if (call.shape(0).has_rank()) {
    steps = call.shape(0)[batch_first ? 1 : 0];
    batch = call.shape(0)[batch_first ? 0 : 1];
    input = call.shape(0)[2];
  }
  if (call.HasAttr("hidden_size")) hidden = Dim(call.Int("hidden_size"));
  if (hidden.is_static() && (hidden.value() < 1 || hidden.value() > (int64_t{1} << 31)))
    return InvalidModel(Cat("hidden_size is ", hidden.ToString()));
  if (call.shape(2).has_rank()) {
    INFER_ASSIGN(hidden, Meet(hidden, call.shape(2)[2]));
  }
  if (input.is_unknown() && call.shape(1).has_rank()) input = call.shape(1)[2];
  const Dim rows = hidden.is_unknown() ? Dim() : gates * hidden;
  INFER_TRY(CheckInput(call, 1, {dirs, rows, input}));
  INFER_TRY(CheckInput(call, 2, {dirs, rows, hidden}));
  INFER_TRY(CheckInput(call, 3, {dirs, rows.is_unknown() ? Dim() : Dim(2) * rows}));
  INFER_TRY(CheckInput(call, 4, {batch}));
  const std::vector<Dim> state =
      batch_first ? std::vector<Dim>{batch, dirs, hidden} : std::vector<Dim>{dirs, batch, hidden};
  INFER_TRY(CheckInput(call, 5, state));
  INFER_TRY(CheckInput(call, 6, state));
  INFER_TRY(CheckInput(call, 7, {dirs, hidden.is_unknown() ? Dim() : Dim(3) * hidden}));
  call.SetOut(
      0, call.dtype(0),
      batch_first ? Shape({batch, steps, dirs, hidden}) : Shape({steps, dirs, batch, hidden}));
  call.SetOut(1, call.dtype(0), Shape(state));
  call.SetOut(2, call.dtype(0), Shape(state));
  return {};
}

template <RecurrentCell kCell>
Status RunFloat(OpRun& run) {
  return RunRecurrent(run, kCell, Widen(run.in(0)), Widen(run.in(1)), run.in(2));
}

/// Per step, sample and direction: 2 G H (I + H) for the products, 2 G H for the biases, and
/// kElementwise per hidden unit for the gates (activations count as one).
template <int kElementwise>
Cost CostRecurrent(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.in(0).is_static() || !call.in(2).is_static()) return c;
  const Dims x = call.shape(0).static_dims(), r = call.shape(2).static_dims();
  const int64_t hidden = r[2], rows = r[1];
  c.flops =
      x[0] * x[1] * r[0] *
      (2 * rows * (x[2] + hidden) + (call.has_input(3) ? 2 * rows : 0) + kElementwise * hidden);
  return c;
}

// ---- DynamicQuantizeLSTM ---------------------------------------------------------------------

/// W and R are the standard's, transposed: [D, I, 4 H] and [D, H, 4 H]. Scales and zero points are
/// [D] or [D, 4 H].
Status InferQuantizedLstm(OpCall& call) {
  const std::string& direction = call.Str("direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return InvalidModel(Cat("direction '", direction, "' is not known"));
  INFER_TRY(CheckActivations(call, RecurrentCell::kLstm));
  INFER_TRY(CheckClip(call));
  const Dim dirs(direction == "bidirectional" ? 2 : 1);
  INFER_TRY(CheckInput(call, 0, {Dim(), Dim(), Dim()}));
  INFER_TRY(CheckInput(call, 1, {dirs, Dim(), Dim()}));
  INFER_TRY(CheckInput(call, 2, {dirs, Dim(), Dim()}));
  const bool known = call.shape(0).has_rank();
  const Dim steps = known ? call.shape(0)[0] : Dim(), batch = known ? call.shape(0)[1] : Dim();
  const Dim hidden = call.shape(2).has_rank() ? call.shape(2)[1] : Dim();
  const Dim rows = hidden.is_unknown() ? Dim() : Dim(4) * hidden;
  INFER_TRY(CheckInput(call, 1, {dirs, known ? call.shape(0)[2] : Dim(), rows}));
  INFER_TRY(CheckInput(call, 2, {dirs, hidden, rows}));
  INFER_TRY(CheckInput(call, 3, {dirs, rows.is_unknown() ? Dim() : Dim(2) * rows}));
  INFER_TRY(CheckInput(call, 4, {batch}));
  for (size_t state : {5, 6}) INFER_TRY(CheckInput(call, state, {dirs, batch, hidden}));
  INFER_TRY(CheckInput(call, 7, {dirs, hidden.is_unknown() ? Dim() : Dim(3) * hidden}));
  for (size_t i = 8; i < 12; ++i) {
    const bool per_row = call.shape(i).has_rank() && call.shape(i).rank() == 2;
    INFER_TRY(CheckInput(call, i, per_row ? std::vector<Dim>{dirs, rows} : std::vector<Dim>{dirs}));
  }
  call.SetOut(0, call.dtype(0), Shape({steps, dirs, batch, hidden}));
  for (size_t i : {1, 2}) call.SetOut(i, call.dtype(0), Shape({dirs, batch, hidden}));
  return {};
}

/// Weights of input i as f32 in the standard's layout, [D, 4 H, K].
Result<Tensor> DequantizedWeights(const OpRun& run, size_t i, size_t scale_input) {
  const Tensor &q = run.in(i), &scale = run.in(scale_input), &zero = run.in(scale_input + 1);
  const int64_t dirs = q.dim(0), depth = q.dim(1), rows = q.dim(2);
  const auto at = [&](const Tensor& t, int64_t d, int64_t row) {
    return t.At(t.rank() == 2 ? d * rows + row : d);
  };
  Tensor out(DType::kF32, {dirs, rows, depth});
  const auto values = out.mutable_data<float>();
  for (int64_t d = 0; d < dirs; ++d)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < depth; ++k)
        values[static_cast<size_t>((d * rows + row) * depth + k)] = static_cast<float>(
            (q.At((d * depth + k) * rows + row) - at(zero, d, row)) * at(scale, d, row));
  return out;
}

/// All of X goes into its product as 8 bits of one range; the state too, at each step.
Status RunQuantizedLstm(OpRun& run) {
  INFER_ASSIGN(const Tensor w, DequantizedWeights(run, 1, 8));
  INFER_ASSIGN(const Tensor r, DequantizedWeights(run, 2, 10));
  const auto in = run.in(0).data<float>();
  const auto [low, high] = std::minmax_element(in.begin(), in.end());
  const DynamicRange range = in.empty() ? DynamicRange() : DynamicRangeOf(*low, *high);
  Tensor x(DType::kF32, run.in(0).dims());
  std::transform(in.begin(), in.end(), x.mutable_data<float>().begin(),
                 [&](float v) { return range.Rounded(v); });
  return RunRecurrent(run, RecurrentCell::kLstm, x, w, r, /*quantized_state=*/true);
}

/// Version 1 had output_sequence; whether Y is there, its name says.
Status LiftRecurrent(NodeSpec node, int, LiftContext& out) {
  node.attrs.erase("output_sequence");
  out.Emit(std::move(node));
  return {};
}

OpDef MakeRecurrent(OpDef def, std::vector<AttrDef> attrs) {
  def.inputs.insert(def.inputs.begin(), {{"X", "T"},
                                         {"W", "T"},
                                         {"R", "T"},
                                         {"B", "T", Arity::kOptional},
                                         {"sequence_lens", "T1", Arity::kOptional},
                                         {"initial_h", "T", Arity::kOptional}});
  def.outputs.insert(def.outputs.begin(),
                     {{"Y", "T", Arity::kOptional}, {"Y_h", "T", Arity::kOptional}});
  def.attrs = {{"activation_alpha", AttrKind::kFloats},
               {"activation_beta", AttrKind::kFloats},
               {"activations", AttrKind::kStrings},
               {"clip", AttrKind::kFloat},
               {"direction", AttrKind::kString, std::string("forward")},
               {"hidden_size", AttrKind::kInt},
               {"layout", AttrKind::kInt, int64_t{0}, false, 14}};
  def.attrs.insert(def.attrs.end(), attrs.begin(), attrs.end());
  def.constraints = {{"T", kFloatsBF16}, {"T1", TypeSet(DType::kI32)}};
  def.since = 7;
  def.infer = InferRecurrent;
  def.lift = LiftRecurrent;
  return def;
}

/// Samples are apart; inputs meet the weights of the gates. States are mixed in every step.
void RecurrentAxes(const OpCall& call, AxisLinks& links) {
  LinkContracted(call, 0, 2, 1, 2, links);
  const bool batch_first = call.Int("layout") != 0;
  for (size_t i = 1; i <= 3; ++i)
    LinkSame(call, i, 0, 0, batch_first ? 2 : 1, links);  // directions
  const int state = batch_first ? 0 : 1;
  for (size_t out = 0; out < call.num_outputs(); ++out) {
    const int samples = out == 0 && !batch_first ? 2 : state;
    LinkSame(call, 0, state, out, samples, links);
    LinkSame(call, 4, 0, out, samples, links);  // lengths of the sequences
    for (const size_t initial : {5, 6})
      if (initial < call.num_inputs()) LinkSame(call, initial, state, out, samples, links);
  }
}

}  // namespace

std::span<const OpDef> RecurrentOps() {
  static const OpDef ops[] = {
      MakeRecurrent(
          {
              .name = "RNN",
              .doc = "Simple recurrent layer, one or both directions.",
              .traits = Trait::kRecurrent,
              .axes = RecurrentAxes,
              .versions = {1, 7, 14, 22},
              .reference = RunFloat<RecurrentCell::kRnn>,
              .cost = CostRecurrent<1>,
              .example = R"(graph g(x: f32[5,2,3]) -> (y, h) {
                w = const f32[1,4,3] ~1
                r = const f32[1,4,4] ~2
                y, h = RNN(x, w, r) {hidden_size=4} })",
          },
          {}),
      MakeRecurrent(
          {
              .name = "GRU",
              .doc = "Gated recurrent unit, one or both directions.",
              .traits = Trait::kRecurrent,
              .axes = RecurrentAxes,
              .versions = {1, 3, 7, 14, 22},
              .reference = RunFloat<RecurrentCell::kGru>,
              .cost = CostRecurrent<8>,
              .example = R"(graph g(x: f32[5,2,3]) -> (y, h) {
                w = const f32[2,12,3] ~1
                r = const f32[2,12,4] ~2
                b = const f32[2,24] ~3
                y, h = GRU(x, w, r, b) {hidden_size=4, direction="bidirectional"} })",
          },
          {{"linear_before_reset", AttrKind::kInt, int64_t{0}, false, 3}}),
      MakeRecurrent(
          {
              .name = "LSTM",
              .doc = "Long short-term memory, one or both directions.",
              .traits = Trait::kRecurrent,
              .axes = RecurrentAxes,
              .versions = {1, 7, 14, 22},
              .inputs = {{"initial_c", "T", Arity::kOptional}, {"P", "T", Arity::kOptional}},
              .outputs = {{"Y_c", "T", Arity::kOptional}},
              .reference = RunFloat<RecurrentCell::kLstm>,
              .cost = CostRecurrent<9>,
              .example = R"(graph g(x: f32[5,2,3]) -> (y, h, c) {
                w = const f32[1,16,3] ~1
                r = const f32[1,16,4] ~2
                y, h, c = LSTM(x, w, r) {hidden_size=4, direction="reverse"} })",
          },
          {{"input_forget", AttrKind::kInt, int64_t{0}}}),
      {
          .name = "DynamicQuantizeLSTM",
          .domain = "com.microsoft",
          .doc = "LSTM of 8-bit weights, whose input and state are quantized as they come.",
          .traits = Trait::kRecurrent | Trait::kQuantization,
          .inputs = {{"X", "T"},
                     {"W", "T2"},
                     {"R", "T2"},
                     {"B", "T", Arity::kOptional},
                     {"sequence_lens", "T1", Arity::kOptional},
                     {"initial_h", "T", Arity::kOptional},
                     {"initial_c", "T", Arity::kOptional},
                     {"P", "T", Arity::kOptional},
                     {"W_scale", "T"},
                     {"W_zero_point", "T2"},
                     {"R_scale", "T"},
                     {"R_zero_point", "T2"}},
          .outputs = {{"Y", "T", Arity::kOptional},
                      {"Y_h", "T", Arity::kOptional},
                      {"Y_c", "T", Arity::kOptional}},
          .attrs = {{"activation_alpha", AttrKind::kFloats},
                    {"activation_beta", AttrKind::kFloats},
                    {"activations", AttrKind::kStrings},
                    {"clip", AttrKind::kFloat},
                    {"direction", AttrKind::kString, std::string("forward")},
                    {"hidden_size", AttrKind::kInt},
                    {"input_forget", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", TypeSet(DType::kF32)},
                          {"T1", TypeSet(DType::kI32)},
                          {"T2", TypeSet(DType::kU8, DType::kI8)}},
          .infer = InferQuantizedLstm,
          .reference = RunQuantizedLstm,
          .example = R"(graph g(x: f32[5,2,3]) -> (y, h, c) {
            w = const i8[1,3,8] ~1
            r = const i8[1,2,8] ~2
            s = const f32[1] {0.01}
            z = const i8[1] {0}
            y, h, c = com.microsoft::DynamicQuantizeLSTM(x, w, r, _, _, _, _, _, s, z, s, z) {
              hidden_size=2} })",
      },
  };
  return ops;
}

}  // namespace infer
