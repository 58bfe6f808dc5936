/// RNN, GRU and LSTM. Formulas and gate orders as in the ONNX operator specification.
///
/// Letters: S steps, B batch, I input size, H hidden size, D directions, G gates per cell.
#include <cmath>

#include "lib/ops/activation_reference.h"
#include "lib/ops/common.h"
#include "lib/ops/conv_reference.h"
#include "lib/ops/gemm_reference.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

// ---- Activations -----------------------------------------------------------------------------

struct Activation {
  double (*fn)(double x, double alpha, double beta);
  double alpha, beta, clip;
  /// `clip` bounds what goes in; NaN stays.
  double operator()(double x) const {
    return fn(x > clip ? clip : x < -clip ? -clip : x, alpha, beta);
  }
};

/// The activations of all directions, in order. activation_alpha and activation_beta hold values
/// only for those that take them.
Result<std::vector<Activation>> ReadActivations(const OpRun& run, size_t directions,
                                                const std::vector<std::string>& defaults) {
  const AttrMap& attrs = run.call().attrs();
  auto floats = [&](std::string_view name) {
    return run.call().HasAttr(name) ? run.Attr<std::vector<float>>(name) : std::vector<float>();
  };
  const std::vector<float> alphas = floats("activation_alpha"), betas = floats("activation_beta");
  std::vector<std::string> names =
      attrs.count("activations") ? run.Attr<std::vector<std::string>>("activations") : defaults;
  const size_t per_direction = defaults.size();
  if (names.size() == per_direction)  // one direction's names serve both
    for (size_t i = 0; i < per_direction * (directions - 1); ++i) names.push_back(names[i]);
  if (names.size() < per_direction * directions)
    return InvalidModel(
        Cat("activations has ", names.size(), " names, wants ", per_direction * directions));
  names.resize(per_direction * directions);
  const double clip = run.call().HasAttr("clip") ? run.Float("clip") : INFINITY;
  std::vector<Activation> out;
  size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : names) {
    const ActivationDef* def = FindActivation(name);
    if (!def) return Unsupported(Cat("activation '", name, "' is not known"));
    Activation a{def->fn, def->alpha, def->beta, clip};
    if (def->parameters >= 1 && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    if (def->parameters >= 2 && next_beta < betas.size()) a.beta = betas[next_beta++];
    out.push_back(a);
  }
  return out;
}

// ---- Inference -------------------------------------------------------------------------------

constexpr int GatesOf(std::string_view op) { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }

Status CheckInput(const OpCall& call, size_t i, const std::vector<Dim>& want) {
  if (!call.has_input(i)) return {};
  auto met = Meet(call.shape(i), Shape(want));
  if (met.ok()) return {};
  return InvalidModel(Cat("input '", call.def().inputs[i].name, "' is ", call.shape(i).ToString(),
                          ", wants ", Shape(want).ToString()));
}

Status InferRecurrent(OpCall& call) {
  const std::string& direction = call.Str("direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return InvalidModel(Cat("direction '", direction, "' is not known"));
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

// ---- Cells -----------------------------------------------------------------------------------

/// Everything of one direction, widened to double.
struct Cell {
  int64_t hidden, gates;
  std::vector<double> recurrent;       // R transposed: [H, G H]
  std::vector<double> w_bias, r_bias;  // [G H]
  std::vector<double> peephole;        // [3 H] as i, o, f; zeros when absent
  const Activation* f;                 // two or three of them
  bool linear_before_reset = false, input_forget = false;
};

/// sums[j] += sum_k h[k] R[j, k] for rows [begin, end) of R.
void AddRecurrent(const Cell& cell, const double* h, int64_t begin, int64_t end, double* sums) {
  const int64_t rows = cell.gates * cell.hidden;
  for (int64_t k = 0; k < cell.hidden; ++k) {
    const double v = h[k], *r = cell.recurrent.data() + k * rows;
    for (int64_t j = begin; j < end; ++j) sums[j] += v * r[j];
  }
}

/// One step of one sample: `sums` holds X W' + Wb on entry ([G H]); h (and c) are updated.
using StepFn = void (*)(const Cell& cell, double* sums, double* h, double* c);

void AddBias(const Cell& cell, double* sums) {
  for (size_t j = 0; j < cell.r_bias.size(); ++j) sums[j] += cell.r_bias[j];
}

/// H = f(X W' + H R' + b)
void StepRnn(const Cell& cell, double* sums, double* h, double*) {
  AddBias(cell, sums);
  AddRecurrent(cell, h, 0, cell.hidden, sums);
  for (int64_t j = 0; j < cell.hidden; ++j) h[j] = cell.f[0](sums[j]);
}

/// Gates z, r, h:  z = f(.), r = f(.), H = (1 - z) g(X Wh' + (r H) Rh' + b) + z H, or with
/// linear_before_reset g(X Wh' + Wbh + r (H Rh' + Rbh)).
void StepGru(const Cell& cell, double* sums, double* h, double*) {
  const int64_t n = cell.hidden;
  const auto size = static_cast<size_t>(n);
  for (int64_t j = 0; j < 2 * n; ++j) sums[j] += cell.r_bias[static_cast<size_t>(j)];
  AddRecurrent(cell, h, 0, 2 * n, sums);
  std::vector<double> z(size), r(size), part(3 * size, 0.0);
  for (size_t j = 0; j < size; ++j) {
    z[j] = cell.f[0](sums[j]);
    r[j] = cell.f[0](sums[size + j]);
    part[2 * size + j] = cell.r_bias[2 * size + j];
  }
  if (cell.linear_before_reset) {
    AddRecurrent(cell, h, 2 * n, 3 * n, part.data());
    for (size_t j = 0; j < size; ++j) part[2 * size + j] *= r[j];
  } else {
    std::vector<double> reset(size);
    for (size_t j = 0; j < size; ++j) reset[j] = r[j] * h[j];
    AddRecurrent(cell, reset.data(), 2 * n, 3 * n, part.data());
  }
  for (size_t j = 0; j < size; ++j)
    h[j] = (1 - z[j]) * cell.f[1](sums[2 * size + j] + part[2 * size + j]) + z[j] * h[j];
}

/// Gates i, o, f, c:  C = f C + i g(.), H = o h(C); peepholes add P C before the activation (o: of
/// the new C). input_forget: f = 1 - i.
void StepLstm(const Cell& cell, double* sums, double* h, double* c) {
  const auto n = static_cast<size_t>(cell.hidden);
  AddBias(cell, sums);
  AddRecurrent(cell, h, 0, 4 * cell.hidden, sums);
  const double* p = cell.peephole.data();
  for (size_t j = 0; j < n; ++j) {
    const double i = cell.f[0](sums[j] + p[j] * c[j]);
    const double f = cell.input_forget ? 1 - i : cell.f[0](sums[2 * n + j] + p[2 * n + j] * c[j]);
    c[j] = f * c[j] + i * cell.f[1](sums[3 * n + j]);
    const double o = cell.f[0](sums[n + j] + p[n + j] * c[j]);
    h[j] = o * cell.f[2](c[j]);
  }
}

// ---- The loop over steps ---------------------------------------------------------------------

struct Recurrent {
  int64_t steps, batch, input, hidden, dirs, gates;
  bool batch_first;
  int64_t StepOffset(int64_t s, int64_t b) const {  // of X, in rows
    return batch_first ? b * steps + s : s * batch + b;
  }
  int64_t OutputOffset(int64_t s, int64_t d, int64_t b) const {
    return (batch_first ? (b * steps + s) * dirs + d : (s * dirs + d) * batch + b) * hidden;
  }
  int64_t StateOffset(int64_t d, int64_t b) const {
    return (batch_first ? b * dirs + d : d * batch + b) * hidden;
  }
};

std::vector<double> Doubles(const Tensor* t, int64_t begin, int64_t count) {
  std::vector<double> v(static_cast<size_t>(count), 0.0);
  for (int64_t i = 0; t && i < count; ++i) v[static_cast<size_t>(i)] = t->At(begin + i);
  return v;
}

Cell ReadCell(const OpRun& run, const Recurrent& g, int64_t d, const Activation* activations) {
  const int64_t rows = g.gates * g.hidden;
  Cell cell{g.hidden, g.gates, {}, {}, {}, {}, activations};
  const Tensor& r = run.in(2);
  cell.recurrent.resize(static_cast<size_t>(rows * g.hidden));
  for (int64_t j = 0; j < rows; ++j)
    for (int64_t k = 0; k < g.hidden; ++k)
      cell.recurrent[static_cast<size_t>(k * rows + j)] = r.At((d * rows + j) * g.hidden + k);
  cell.w_bias = Doubles(run.in_or_null(3), d * 2 * rows, rows);
  cell.r_bias = Doubles(run.in_or_null(3), d * 2 * rows + rows, rows);
  cell.peephole = Doubles(run.in_or_null(7), d * 3 * g.hidden, 3 * g.hidden);
  auto flag = [&](std::string_view name) {
    return run.call().def().FindAttr(name) && run.Int(name) != 0;
  };
  cell.linear_before_reset = flag("linear_before_reset");
  cell.input_forget = flag("input_forget");
  return cell;
}

/// X W' + Wb of all steps and samples of direction d: [rows of X, G H].
std::vector<double> ProjectInput(const Recurrent& g, const Tensor& x, const Tensor& w, int64_t d,
                                 const std::vector<double>& bias) {
  const int64_t rows = g.steps * g.batch, n = g.gates * g.hidden;
  std::vector<double> out(static_cast<size_t>(rows * n));
  auto multiply = [&]<typename T>(T) {
    auto zero = [](int64_t) { return int64_t{0}; };
    GemmReference(1, rows, n, g.input, PackStrided(x.data<T>().data(), g.input, 1, zero),
                  PackStrided(w.data<T>().data() + d * n * g.input, g.input, 1, zero),
                  [&](int64_t, int64_t row, int64_t col, int64_t count, const double* sums) {
                    for (int64_t j = 0; j < count; ++j)
                      out[static_cast<size_t>(row * n + col + j)] =
                          sums[j] + bias[static_cast<size_t>(col + j)];
                  });
  };
  x.dtype() == DType::kF64 ? multiply(double{}) : multiply(float{});
  return out;
}

/// Samples are independent, so lanes take samples. Steps beyond a sample's length give zeros and
/// leave its state; a reversed direction starts at its last step.
void RunDirection(const OpRun& run, const Recurrent& g, int64_t d, bool reverse, const Cell& cell,
                  StepFn step, std::vector<double>& projected, Tensor& y, Tensor& y_h,
                  Tensor& y_c) {
  const Tensor* lengths = run.in_or_null(4);
  ParallelFor(g.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      std::vector<double> h = Doubles(run.in_or_null(5), g.StateOffset(d, b), g.hidden);
      std::vector<double> c = Doubles(run.in_or_null(6), g.StateOffset(d, b), g.hidden);
      const std::vector<double> zeros(h.size(), 0.0);
      const int64_t length = lengths ? lengths->IntAt(b) : g.steps;
      for (int64_t i = 0; i < g.steps; ++i) {
        const int64_t s = i < length && reverse ? length - 1 - i : i;
        if (i < length)
          step(cell, projected.data() + g.StepOffset(s, b) * g.gates * g.hidden, h.data(),
               c.data());
        StoreRounded(y, g.OutputOffset(s, d, b), g.hidden, (i < length ? h : zeros).data());
      }
      StoreRounded(y_h, g.StateOffset(d, b), g.hidden, h.data());
      StoreRounded(y_c, g.StateOffset(d, b), g.hidden, c.data());
    }
  });
}

struct Kind {
  StepFn step;
  std::vector<std::string> activations;  // defaults of one direction
};

Status RunRecurrent(OpRun& run, const Kind& kind) {
  const Tensor x = Widen(run.in(0)), w = Widen(run.in(1));
  const bool batch_first = run.Int("layout") != 0;
  const Recurrent g{.steps = x.dim(batch_first ? 1 : 0),
                    .batch = x.dim(batch_first ? 0 : 1),
                    .input = x.dim(2),
                    .hidden = run.in(2).dim(2),
                    .dirs = run.in(2).dim(0),
                    .gates = GatesOf(run.call().def().name),
                    .batch_first = batch_first};
  if (const Tensor* lengths = run.in_or_null(4))
    for (int64_t b = 0; b < g.batch; ++b)
      if (lengths->IntAt(b) < 0 || lengths->IntAt(b) > g.steps)
        return InvalidModel(
            Cat("sequence_lens[", b, "] is ", lengths->IntAt(b), " of ", g.steps, " steps"));
  INFER_ASSIGN(const std::vector<Activation> activations,
               ReadActivations(run, static_cast<size_t>(g.dirs), kind.activations));
  const DType t = run.in(0).dtype();
  const Dims y_dims = batch_first ? Dims{g.batch, g.steps, g.dirs, g.hidden}
                                  : Dims{g.steps, g.dirs, g.batch, g.hidden};
  const Dims state =
      batch_first ? Dims{g.batch, g.dirs, g.hidden} : Dims{g.dirs, g.batch, g.hidden};
  Tensor y(t, y_dims), y_h(t, state), y_c(t, state);
  for (int64_t d = 0; d < g.dirs; ++d) {
    const Cell cell =
        ReadCell(run, g, d, activations.data() + static_cast<size_t>(d) * kind.activations.size());
    std::vector<double> projected = ProjectInput(g, x, w, d, cell.w_bias);
    const bool reverse = d == 1 || run.Str("direction") == "reverse";
    RunDirection(run, g, d, reverse, cell, kind.step, projected, y, y_h, y_c);
  }
  run.Set(0, std::move(y));
  run.Set(1, std::move(y_h));
  run.Set(2, std::move(y_c));
  return {};
}

Status RunRnn(OpRun& run) { return RunRecurrent(run, {StepRnn, {"Tanh"}}); }
Status RunGru(OpRun& run) { return RunRecurrent(run, {StepGru, {"Sigmoid", "Tanh"}}); }
Status RunLstm(OpRun& run) { return RunRecurrent(run, {StepLstm, {"Sigmoid", "Tanh", "Tanh"}}); }

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

}  // namespace

std::span<const OpDef> RecurrentOps() {
  static const OpDef ops[] = {
      MakeRecurrent(
          {
              .name = "RNN",
              .doc = "Simple recurrent layer, one or both directions.",
              .versions = {1, 7, 14, 22},
              .reference = RunRnn,
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
              .versions = {1, 3, 7, 14, 22},
              .reference = RunGru,
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
              .versions = {1, 7, 14, 22},
              .inputs = {{"initial_c", "T", Arity::kOptional}, {"P", "T", Arity::kOptional}},
              .outputs = {{"Y_c", "T", Arity::kOptional}},
              .reference = RunLstm,
              .cost = CostRecurrent<9>,
              .example = R"(graph g(x: f32[5,2,3]) -> (y, h, c) {
                w = const f32[1,16,3] ~1
                r = const f32[1,16,4] ~2
                y, h, c = LSTM(x, w, r) {hidden_size=4, direction="reverse"} })",
          },
          {{"input_forget", AttrKind::kInt, int64_t{0}}}),
  };
  return ops;
}

}  // namespace infer
