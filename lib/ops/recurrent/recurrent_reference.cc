#include "lib/ops/recurrent/recurrent_reference.h"

#include <cmath>

#include "lib/ops/common.h"
#include "lib/ops/conv/conv_reference.h"
#include "lib/ops/elementwise/activation_reference.h"
#include "lib/ops/matmul/gemm_reference.h"
#include "lib/ops/quantized/quant_reference.h"

namespace infer {
namespace {

// ---- Activations -----------------------------------------------------------------------------

using Activation = RecurrentActivation;

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
  StepFn step = nullptr;
  int64_t gates = 0;
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
  const DynamicRange range = DynamicRangeOf(low, high);
  for (Sample& s : samples)
    for (double& v : s.h) v = static_cast<double>(range.Rounded(static_cast<float>(v)));
}

/// Steps beyond a sample's length give zeros and leave its state; a sample of length 0 has no last
/// value, so that Y_h and Y_c are zeros like Y (docs/compatibility.md); a reversed direction starts
/// at its last step. Lanes take samples, which are independent unless their states are quantized.
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
      Sample& sample = samples[static_cast<size_t>(b - begin)];
      if (lengths && sample.length == 0) sample.h = sample.c = zeros;
      StoreRounded(y_h, g.StateOffset(d, b), g.hidden, sample.h.data());
      StoreRounded(y_c, g.StateOffset(d, b), g.hidden, sample.c.data());
    }
  };
  kind.quantized_state ? go(0, g.batch) : ParallelFor(g.batch, 1, go);
}

Kind KindOf(RecurrentCell cell, bool quantized_state) {
  switch (cell) {
    case RecurrentCell::kRnn: return {StepRnn, 1, quantized_state};
    case RecurrentCell::kGru: return {StepGru, 3, quantized_state};
    case RecurrentCell::kLstm: return {StepLstm, 4, quantized_state};
  }
  return {};
}

}  // namespace

std::vector<std::string> DefaultActivations(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::kRnn: return {"Tanh"};
    case RecurrentCell::kGru: return {"Sigmoid", "Tanh"};
    case RecurrentCell::kLstm: return {"Sigmoid", "Tanh", "Tanh"};
  }
  return {};
}

/// activation_alpha and activation_beta hold values only for those that take them.
Result<std::vector<Activation>> ReadActivations(const OpCall& call, RecurrentCell cell) {
  const std::vector<std::string> defaults = DefaultActivations(cell);
  const AttrDef* direction = call.def().FindAttr("direction");
  const size_t directions = direction && call.Str("direction") == "bidirectional" ? 2 : 1;
  const AttrMap& attrs = call.attrs();
  auto floats = [&](std::string_view name) {
    return call.HasAttr(name) ? call.Attr<std::vector<float>>(name) : std::vector<float>();
  };
  const std::vector<float> alphas = floats("activation_alpha"), betas = floats("activation_beta");
  std::vector<std::string> names =
      attrs.count("activations") ? call.Attr<std::vector<std::string>>("activations") : defaults;
  const size_t per_direction = defaults.size();
  if (names.size() == per_direction)  // one direction's names serve both
    for (size_t i = 0; i < per_direction * (directions - 1); ++i) names.push_back(names[i]);
  if (names.size() < per_direction * directions)
    return InvalidModel(
        Cat("activations has ", names.size(), " names, wants ", per_direction * directions));
  names.resize(per_direction * directions);
  const double clip = call.HasAttr("clip") ? call.Float("clip") : INFINITY;
  std::vector<Activation> out;
  size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : names) {
    const ActivationDef* def = FindActivation(name);
    if (!def) return Unsupported(Cat("activation '", name, "' is not known"));
    Activation a{def->fn, def->alpha, def->beta, clip, def->name};
    if (def->parameters >= 1 && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    if (def->parameters >= 2 && next_beta < betas.size()) a.beta = betas[next_beta++];
    out.push_back(a);
  }
  return out;
}

Status CheckActivations(const OpCall& call, RecurrentCell cell) {
  return ReadActivations(call, cell).status();
}

Status RunRecurrent(OpRun& run, RecurrentCell cell, const Tensor& x, const Tensor& w,
                    const Tensor& r, bool quantized_state) {
  const Kind kind = KindOf(cell, quantized_state);
  const bool batch_first = run.call().def().FindAttr("layout") && run.Int("layout") != 0;
  const Recurrent g{.steps = x.dim(batch_first ? 1 : 0),
                    .batch = x.dim(batch_first ? 0 : 1),
                    .input = x.dim(2),
                    .hidden = r.dim(2),
                    .dirs = r.dim(0),
                    .gates = kind.gates,
                    .batch_first = batch_first};
  if (const Tensor* lengths = run.in_or_null(4))
    for (int64_t b = 0; b < g.batch; ++b)
      if (lengths->IntAt(b) < 0 || lengths->IntAt(b) > g.steps)
        return InvalidModel(
            Cat("sequence_lens[", b, "] is ", lengths->IntAt(b), " of ", g.steps, " steps"));
  const std::vector<std::string> defaults = DefaultActivations(cell);
  INFER_ASSIGN(const std::vector<Activation> activations, ReadActivations(run.call(), cell));
  const DType t = run.in(0).dtype();
  const Dims y_dims = batch_first ? Dims{g.batch, g.steps, g.dirs, g.hidden}
                                  : Dims{g.steps, g.dirs, g.batch, g.hidden};
  const Dims state =
      batch_first ? Dims{g.batch, g.dirs, g.hidden} : Dims{g.dirs, g.batch, g.hidden};
  Tensor y(t, y_dims), y_h(t, state), y_c(t, state);
  for (int64_t d = 0; d < g.dirs; ++d) {
    const Cell weights =
        ReadCell(run, g, r, d, activations.data() + static_cast<size_t>(d) * defaults.size());
    std::vector<double> projected = ProjectInput(g, x, w, d, weights.w_bias);
    const bool reverse = d == 1 || run.Str("direction") == "reverse";
    RunDirection(run, g, d, reverse, weights, kind, projected, y, y_h, y_c);
  }
  run.Set(0, std::move(y));
  run.Set(1, std::move(y_h));
  run.Set(2, std::move(y_c));
  return {};
}

}  // namespace infer
