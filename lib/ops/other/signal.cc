/// Signal processing: DFT and STFT.
#include "lib/ops/other/signal.h"

#include <cmath>
#include <complex>
#include <numbers>

#include "lib/ops/decompositions.h"

namespace infer {
namespace {

using Complex = std::complex<double>;

// ---- The transform ---------------------------------------------------------------------------

/// Cooley-Tukey for any length: n = p m splits into p transforms of length m, joined with n p
/// multiply-adds. The sign of the exponent is in the roots.
class Fourier {
 public:
  Fourier(int64_t n, bool inverse) : n_(n), roots_(static_cast<size_t>(n)) {
    const double sign = inverse ? 1 : -1;
    for (int64_t i = 0; i < n; ++i)
      roots_[static_cast<size_t>(i)] = std::polar(
          1.0, sign * 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n));
  }

  /// out[k] = sum_i root^(i k) in[i]
  std::vector<Complex> operator()(const std::vector<Complex>& in) const {
    std::vector<Complex> out(in.size());
    if (n_ > 0) Transform(in.data(), 1, n_, out.data());
    return out;
  }

 private:
  void Transform(const Complex* in, int64_t stride, int64_t n, Complex* out) const {
    if (n == 1) {
      *out = *in;
      return;
    }
    int64_t p = 2;
    while (n % p != 0) p = p * p > n ? n : p + 1;
    const int64_t m = n / p;
    std::vector<Complex> parts(static_cast<size_t>(n));
    for (int64_t r = 0; r < p; ++r) Transform(in + r * stride, stride * p, m, parts.data() + r * m);
    for (int64_t k = 0; k < n; ++k) {
      Complex sum = 0;
      for (int64_t r = 0; r < p; ++r)
        sum += roots_[static_cast<size_t>(r * k % n * stride)] *
               parts[static_cast<size_t>(r * m + k % m)];
      out[k] = sum;
    }
  }

  int64_t n_;
  std::vector<Complex> roots_;  // root^i; a part of length n has every (n_ / n)-th, i.e. `stride`
};

/// The usual count of a complex transform, 5 n log2 n.
int64_t FourierFlops(int64_t n, int64_t count) {
  return n < 2
             ? 0
             : static_cast<int64_t>(5 * static_cast<double>(n) * std::log2(static_cast<double>(n)) *
                                    static_cast<double>(count));
}

// ---- DFT -------------------------------------------------------------------------------------

Status InferDft(OpCall& call) {
  const bool inverse = call.Int("inverse") != 0, one_sided = call.Int("onesided") != 0;
  const Shape& x = call.shape(0);
  if (!x.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  if (x.rank() < 2) return InvalidModel("the input is " + x.ToString() + ", wants rank >= 2");
  const Dim axis = call.has_input(2) ? ScalarInput(call, 2) : Dim(-2);
  std::vector<Dim> y(static_cast<size_t>(x.rank()), Dim());
  if (axis.is_static()) {
    INFER_ASSIGN(const int a, NormalizeAxis(axis.value(), x.rank()));
    if (a == x.rank() - 1) return InvalidModel("the last axis holds real and imaginary parts");
    y = x.dims();
    Dim length = y[static_cast<size_t>(a)];
    if (call.has_input(1))
      length = ScalarInput(call, 1);
    else if (inverse && one_sided)
      length = length.is_unknown() ? Dim() : Dim(2) * (length - Dim(1));
    if (length.is_static() && length.value() < 1)
      return InvalidModel(Cat("dft_length is ", length.ToString()));
    y[static_cast<size_t>(a)] = one_sided && !inverse ? OneSided(length) : length;
  }
  if (x[-1].is_static() && x[-1].value() != 1 && x[-1].value() != 2)
    return InvalidModel("the input is " + x.ToString() + ", its last extent must be 1 or 2");
  y.back() = Dim(one_sided && inverse ? 1 : 2);
  call.SetOut(0, call.dtype(0), Shape(std::move(y)));
  return {};
}

Status RunDft(OpRun& run) {
  const Tensor& x = run.in(0);
  const bool inverse = run.Int("inverse") != 0, one_sided = run.Int("onesided") != 0;
  INFER_TRY(AreNumbers(run, {1, 2}));
  INFER_ASSIGN(const int axis, NormalizeAxis(run.has(2) ? run.in(2).IntAt(0) : -2, x.rank()));
  const int64_t given = x.dim(axis), parts = x.dim(-1);
  const bool from_half = inverse && one_sided;
  const int64_t n = run.has(1) ? run.in(1).IntAt(0) : from_half ? 2 * (given - 1) : given;
  if (n < 1) return InvalidModel(Cat("dft_length is ", n));
  Dims dims = x.dims();
  const int64_t shown = one_sided && !inverse ? n / 2 + 1 : n;
  dims[static_cast<size_t>(axis)] = shown;
  dims.back() = from_half ? 1 : 2;
  Tensor& y = run.Out(0, x.dtype(), dims);
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= x.dim(d);
  for (int d = axis + 1; d < x.rank() - 1; ++d) inner *= x.dim(d);
  const Fourier transform(n, inverse);
  const double factor = inverse ? 1 / static_cast<double>(n) : 1;
  ParallelFor(outer * inner, 1, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t o = line / inner, i = line % inner;
      std::vector<Complex> signal(static_cast<size_t>(n));
      for (int64_t k = 0; k < std::min(given, n); ++k) {
        const int64_t at = ((o * given + k) * inner + i) * parts;
        const Complex v(x.At(at), parts == 2 ? x.At(at + 1) : 0);
        if (from_half && k > n / 2) break;
        signal[static_cast<size_t>(k)] = v;
        // X[n - k] is the conjugate of X[k].
        if (from_half && k > 0 && k < n - k) signal[static_cast<size_t>(n - k)] = std::conj(v);
      }
      const std::vector<Complex> result = transform(signal);
      for (int64_t k = 0; k < shown; ++k) {
        const Complex v = factor * result[static_cast<size_t>(k)];
        const int64_t at = ((o * shown + k) * inner + i) * dims.back();
        y.Set(at, v.real());
        if (dims.back() == 2) y.Set(at + 1, v.imag());
      }
    }
  });
  return {};
}

Cost CostDft(const OpCall& call) {
  Cost c = TrafficOf(call);
  const Dim axis = call.has_input(2) ? ScalarInput(call, 2) : Dim(-2);
  if (!call.in(0).is_static() || !call.out(0).is_static() || !axis.is_static()) return c;
  const auto a = NormalizeAxis(axis.value(), call.shape(0).rank());
  if (!a.ok()) return c;
  const Dim length = call.has_input(1) ? ScalarInput(call, 1) : call.shape(0)[*a];
  if (!length.is_static() || call.shape(0)[*a].value() == 0) return c;
  const int64_t lines = StaticElements(call.shape(0)) / call.shape(0)[*a].value() /
                        std::max<int64_t>(call.shape(0)[-1].value(), 1);
  c.flops = FourierFlops(length.value(), lines);
  return c;
}

/// Version 17 had axis as an attribute, 1 by default.
Status LiftDft(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 20) {
    node.inputs.resize(3);
    node.inputs[2] = out.Constant(Tensor::Scalar<int64_t>(IntAttrOr(node, "axis", 1)));
    DropAttr(node, "axis");
  }
  out.Emit(std::move(node));
  return {};
}

/// Before opset 20 the axis was an attribute, whose default was another one.
Result<NodeSpec> LowerDft(NodeSpec node, int opset, LiftContext& out) {
  if (opset >= 20) return node;
  int64_t axis = -2;
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    const Tensor* t = out.ConstantValue(node.inputs[2]);
    if (!t) return Unsupported("opset 17 wants a constant axis");
    axis = t->IntAt(0);
  }
  node.inputs.resize(std::min<size_t>(node.inputs.size(), 2));
  if (node.inputs.size() == 2 && node.inputs[1].empty()) node.inputs.pop_back();
  node.attrs["axis"] = axis;
  return node;
}

// ---- STFT ------------------------------------------------------------------------------------

/// The signal is [N, L, 1] or [N, L, 2]; [N, L] is real, too: exporters of PyTorch write it, and
/// ONNX Runtime takes it.
Status InferStft(OpCall& call) {
  const Shape& x = call.shape(0);
  INFER_TRY(CheckRank(call, 0, 2, 3));
  if (x.has_rank() && x.rank() == 3 && x[2].is_static() && x[2].value() != 1 && x[2].value() != 2)
    return InvalidModel(Cat("the signal is ", x.ToString(), ", its last extent must be 1 or 2"));
  if (call.has_input(2)) INFER_TRY(CheckRank(call, 2, 1, 1));
  Dim length = call.has_input(3) ? ScalarInput(call, 3) : Dim();
  if (call.has_input(2) && call.shape(2).has_rank()) {
    auto met = Meet(length, call.shape(2)[0]);
    if (!met.ok()) return InvalidModel("window and frame_length differ");
    length = *met;
  }
  if (!call.has_input(2) && !call.has_input(3) && x.has_rank()) length = x[1];
  const Dim step = ScalarInput(call, 1);
  if ((step.is_static() && step.value() < 1) || (length.is_static() && length.value() < 1))
    return InvalidModel("frame_step and frame_length must be positive");
  Dim frames;
  if (x.has_rank() && step.is_static() && !length.is_unknown() && !x[1].is_unknown())
    frames = (x[1] - length).FloorDiv(step.value()) + Dim(1);
  if (frames.is_static() && frames.value() < 0) return InvalidModel("the signal is too short");
  call.SetOut(0, call.dtype(0),
              Shape({x.has_rank() ? x[0] : Dim(), frames,
                     call.Int("onesided") != 0 ? OneSided(length) : length, Dim(2)}));
  return {};
}

Status RunStft(OpRun& run) {
  const Tensor& x = run.in(0);
  const Tensor* window = run.in_or_null(2);
  INFER_TRY(AreNumbers(run, {1, 3}));
  const int64_t step = run.in(1).IntAt(0);
  const int64_t n = run.has(3) ? run.in(3).IntAt(0) : window ? window->dim(0) : x.dim(1);
  const int64_t frames = n > x.dim(1) ? 0 : (x.dim(1) - n) / step + 1;
  const int64_t parts = x.rank() == 2 ? 1 : x.dim(2);
  const int64_t shown = run.Int("onesided") != 0 ? n / 2 + 1 : n;
  if (parts == 2 && shown != n)
    return InvalidModel("a complex signal has no one-sided transform (set onesided=0)");
  Tensor& y = run.Out(0, x.dtype(), {x.dim(0), frames, shown, 2});
  const Fourier transform(n, false);
  ParallelFor(x.dim(0) * frames, 1, [&](int64_t begin, int64_t end) {
    for (int64_t f = begin; f < end; ++f) {
      const int64_t first = f / frames * x.dim(1) + f % frames * step;
      std::vector<Complex> signal(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = (first + i) * parts;
        signal[static_cast<size_t>(i)] =
            Complex(x.At(at), parts == 2 ? x.At(at + 1) : 0) * (window ? window->At(i) : 1.0);
      }
      const std::vector<Complex> result = transform(signal);
      for (int64_t k = 0; k < shown; ++k) {
        y.Set((f * shown + k) * 2, result[static_cast<size_t>(k)].real());
        y.Set((f * shown + k) * 2 + 1, result[static_cast<size_t>(k)].imag());
      }
    }
  });
  return {};
}

Cost CostStft(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.out(0).is_static()) return c;
  const Shape& y = call.out(0).shape;
  const int64_t bins = y[2].value();
  const int64_t n = call.Int("onesided") != 0 ? 2 * (bins - 1) : bins;
  c.flops = FourierFlops(n, y[0].value() * y[1].value());
  return c;
}

/// All axes but the transformed one and the last, of real and imaginary parts.
void DftAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  const Tensor* given = call.has_input(2) ? call.constant(2) : nullptr;
  if (!s.has_rank() || (call.has_input(2) && !given)) return;
  const auto axis = NormalizeAxis(given ? given->IntAt(0) : -2, s.rank());
  if (axis.ok()) LinkAllBut(call, {*axis, s.rank() - 1}, links);
}

void StftAxes(const OpCall& call, AxisLinks& links) { LinkSame(call, 0, 0, 0, 0, links); }

}  // namespace

Status AreNumbers(OpRun& run, std::initializer_list<size_t> operands) {
  for (const size_t i : operands)
    if (run.has(i) && run.in(i).num_elements() != 1)
      return InvalidModel(Cat("'", run.call().def().inputs[i].name, "' must be one number"));
  return {};
}

Dim ScalarInput(const OpCall& call, size_t i) {
  const auto e = call.elements(i);
  return e && e->size() == 1 ? (*e)[0] : Dim();
}

Dim OneSided(const Dim& n) { return n.is_unknown() ? Dim() : n.FloorDiv(2) + Dim(1); }

std::span<const OpDef> SignalOps() {
  static const OpDef ops[] = {
      {
          .name = "DFT",
          .doc = "Discrete Fourier transform along one axis; the last axis is (real, imaginary).",
          .traits = Trait::kSignal,
          .axes = DftAxes,
          .since = 20,
          .versions = {17, 20},
          .inputs = {{"input", "T1"},
                     {"dft_length", "T2", Arity::kOptional},
                     {"axis", "i64", Arity::kOptional, 20}},
          .outputs = {{"output", "T1"}},
          .attrs = {{"inverse", AttrKind::kInt, int64_t{0}},
                    {"onesided", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T1", kFloatsBF16}, {"T2", kIndexTypes}},
          .infer = InferDft,
          .reference = RunDft,
          .cost = CostDft,
          .lift = LiftDft,
          .lower = LowerDft,
          .example = R"(graph g(x: f32[2,12,1]) -> (y, z) {
            a = const i64[] {1}
            n = const i64[] {12}
            y = DFT(x, _, a) {onesided=1}
            z = DFT(y, n, a) {onesided=1, inverse=1} })",
      },
      {
          .name = "STFT",
          .doc = "Discrete Fourier transforms of a signal's overlapping, windowed frames.",
          .traits = Trait::kSignal,
          .axes = StftAxes,
          .since = 17,
          .versions = {17},
          .inputs = {{"signal", "T1"},
                     {"frame_step", "T2"},
                     {"window", "T1", Arity::kOptional},
                     {"frame_length", "T2", Arity::kOptional}},
          .outputs = {{"output", "T1"}},
          .attrs = {{"onesided", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T1", kFloatsBF16}, {"T2", kIndexTypes}},
          .infer = InferStft,
          .reference = RunStft,
          .cost = CostStft,
          .example = R"(graph g(x: f32[2,32,1]) -> (y) {
            s = const i64[] {4}
            n = const i64[] {8}
            w = HannWindow(n)
            y = STFT(x, s, w) })",
      },
  };
  return ops;
}

}  // namespace infer
