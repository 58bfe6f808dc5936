/// RNN, GRU and LSTM, and com.microsoft's LSTM of quantized products. Formulas and gate orders as in
/// the ONNX operator specification.
///
/// Letters: S steps, B batch, I input size, H hidden size, D directions, G gates per cell.
#include <cmath>

#include "lib/ops/activation_reference.h"
#include "lib/ops/common.h"
#include "lib/ops/conv_reference.h"
#include "lib/ops/gemm_reference.h"
#include "lib/ops/op_def.h"
#include "lib/ops/quant_reference.h"

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

constexpr int GatesOf(std::string_view op) {
  return op.ends_with("LSTM") ? 4 : op == "GRU" ? 3 : 1;
}

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

Cell ReadCell(const OpRun& run, const Recurrent& g, const Tensor& r, int64_t d,
              const Activation* activations) {
  const int64_t rows = g.gates * g.hidden;
  Cell cell{g.hidden, g.gates, {}, {}, {}, {}, activations};
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

struct Kind {
  StepFn step;
  std::vector<std::string> activations;  // defaults of one direction
  /// The state of all samples goes into the products with R as 8 bits, of one range for each step.
  bool quantized_state = false;
};

/// Where each sample is in its sequence.
struct Sample {
  std::vector<double> h, c;
  int64_t length;
};

/// The states as DynamicQuantizeLinear and DequantizeLinear leave them.
void QuantizeStates(std::span<Sample> samples) {
  double low = 0, high = 0;
  for (const Sample& s : samples)
    for (const double v : s.h) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
  const auto [scale, zero] = DynamicRangeOf(low, high);
  for (Sample& s : samples)
    for (double& v : s.h) {
      const float q = std::nearbyint(static_cast<float>(v) / scale) + zero;
      v = static_cast<double>((std::clamp(q, 0.f, 255.f) - zero) * scale);
    }
}

/// Steps beyond a sample's length give zeros and leave its state; a reversed direction starts at its
/// last step. Lanes take samples, which are independent unless their states are quantized.
void RunDirection(const OpRun& run, const Recurrent& g, int64_t d, bool reverse, const Cell& cell,
                  const Kind& kind, std::vector<double>& projected, Tensor& y, Tensor& y_h,
                  Tensor& y_c) {
  const Tensor* lengths = run.in_or_null(4);
  const std::vector<double> zeros(static_cast<size_t>(g.hidden), 0.0);
  const auto go = [&](int64_t begin, int64_t end) {
    std::vector<Sample> samples;
    for (int64_t b = begin; b < end; ++b)
      samples.push_back({Doubles(run.in_or_null(5), g.StateOffset(d, b), g.hidden),
                         Doubles(run.in_or_null(6), g.StateOffset(d, b), g.hidden),
                         lengths ? lengths->IntAt(b) : g.steps});
    for (int64_t i = 0; i < g.steps; ++i) {
      if (kind.quantized_state) QuantizeStates(samples);
      for (int64_t b = begin; b < end; ++b) {
        Sample& sample = samples[static_cast<size_t>(b - begin)];
        const bool within = i < sample.length;
        const int64_t s = within && reverse ? sample.length - 1 - i : i;
        if (within)
          kind.step(cell, projected.data() + g.StepOffset(s, b) * g.gates * g.hidden,
                    sample.h.data(), sample.c.data());
        StoreRounded(y, g.OutputOffset(s, d, b), g.hidden, (within ? sample.h : zeros).data());
      }
    }
    for (int64_t b = begin; b < end; ++b) {
      const Sample& sample = samples[static_cast<size_t>(b - begin)];
      StoreRounded(y_h, g.StateOffset(d, b), g.hidden, sample.h.data());
      StoreRounded(y_c, g.StateOffset(d, b), g.hidden, sample.c.data());
    }
  };
  kind.quantized_state ? go(0, g.batch) : ParallelFor(g.batch, 1, go);
}

/// `x`, `w` and `r` in f32 or f64, laid out as the standard says.
Status RunRecurrent(OpRun& run, const Kind& kind, const Tensor& x, const Tensor& w,
                    const Tensor& r) {
  const bool batch_first = run.call().def().FindAttr("layout") && run.Int("layout") != 0;
  const Recurrent g{.steps = x.dim(batch_first ? 1 : 0),
                    .batch = x.dim(batch_first ? 0 : 1),
                    .input = x.dim(2),
                    .hidden = r.dim(2),
                    .dirs = r.dim(0),
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
        ReadCell(run, g, r, d, activations.data() + static_cast<size_t>(d) * kind.activations.size());
    std::vector<double> projected = ProjectInput(g, x, w, d, cell.w_bias);
    const bool reverse = d == 1 || run.Str("direction") == "reverse";
    RunDirection(run, g, d, reverse, cell, kind, projected, y, y_h, y_c);
  }
  run.Set(0, std::move(y));
  run.Set(1, std::move(y_h));
  run.Set(2, std::move(y_c));
  return {};
}

Status RunFloat(OpRun& run, const Kind& kind) {
  return RunRecurrent(run, kind, Widen(run.in(0)), Widen(run.in(1)), run.in(2));
}

Status RunRnn(OpRun& run) { return RunFloat(run, {StepRnn, {"Tanh"}}); }
Status RunGru(OpRun& run) { return RunFloat(run, {StepGru, {"Sigmoid", "Tanh"}}); }
Status RunLstm(OpRun& run) { return RunFloat(run, {StepLstm, {"Sigmoid", "Tanh", "Tanh"}}); }

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
    INFER_TRY(CheckInput(
        call, i, per_row ? std::vector<Dim>{dirs, rows} : std::vector<Dim>{dirs}));
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
  std::vector<Sample> whole = {{Doubles(&run.in(0), 0, run.in(0).num_elements()), {}, 0}};
  QuantizeStates(whole);
  Tensor x(DType::kF32, run.in(0).dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) x.Set(i, whole[0].h[static_cast<size_t>(i)]);
  return RunRecurrent(run, {StepLstm, {"Sigmoid", "Tanh", "Tanh"}, true}, x, w, r);
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
      {
          .name = "DynamicQuantizeLSTM",
          .domain = "com.microsoft",
          .doc = "LSTM of 8-bit weights, whose input and state are quantized as they come.",
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
