#include "runtime/cpu/kernels/recurrent/recurrent_launch.h"

#include <algorithm>

#include "lib/ops/quantized/quant_reference.h"
#include "lib/support/strings.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

using simd::kPanel;

/// Multiply-adds of one step from which on its panels are worth several lanes.
constexpr int64_t kWideStep = int64_t{1} << 20;

/// [n, k] transposed into panels of n; columns beyond n are 0.
void PackPanels(const float* from, int64_t n, int64_t k, float* to) {
  for (int64_t p = 0; p < RecurrentLaunch::PanelsOf(n); ++p)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < kPanel; ++j) {
        const int64_t column = p * kPanel + j;
        *to++ = column < n ? from[column * k + i] : 0.0f;
      }
}

/// x[0 .. n) as 8 bits of one range and back, to `y`, which may be x.
void RoundToRange(const float* x, int64_t n, float* y) {
  constexpr int64_t kPiece = 1024;
  const DynamicRange range = RangeOf(x, n);
  const auto zero = static_cast<int32_t>(range.zero_point);
  const simd::Loops& loops = simd::TheLoops();
  uint8_t codes[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t m = std::min(kPiece, n - i);
    loops.quantize_u8(x + i, codes, m, range.scale, zero);
    loops.dequantize_u8(codes, y + i, m, range.scale, zero);
  }
}

}  // namespace

int64_t RecurrentLaunch::Packed::bytes() const {
  int64_t sum = byte_r.empty() ? (w.num_elements() + r.num_elements()) * 4 : 0;
  for (const std::vector<ByteProduct>* products : {&byte_w, &byte_r})
    for (const ByteProduct& p : *products) sum += p.weight_bytes();
  return sum;
}

void RecurrentLaunch::Pack(const float* w, const float* r, float* to_w, float* to_r) const {
  for (int64_t d = 0; d < e.dirs; ++d) {
    PackPanels(w + d * e.row() * e.input, e.row(), e.input, to_w + d * PackedW());
    const float* from = r + d * e.row() * e.hidden;
    float* to = to_r + d * PackedR();
    if (!split()) {
      PackPanels(from, e.row(), e.hidden, to);
      continue;
    }
    PackPanels(from, 2 * e.hidden, e.hidden, to);
    PackPanels(from + 2 * e.hidden * e.hidden, e.hidden, e.hidden,
               to + PanelsOf(2 * e.hidden) * kPanel * e.hidden);
  }
}

Status RecurrentLaunch::Run(std::byte* const* args, LaunchState*) const {
  const auto* lengths = at.lengths < 0 ? nullptr : As<int32_t>(args[at.lengths]);
  for (int64_t b = 0; lengths && b < e.batch; ++b)
    if (lengths[b] < 0 || lengths[b] > e.steps)
      return InvalidModel(Cat("sequence_lens[", b, "] is ", lengths[b], " of ", e.steps, " steps"));
  Buffers u;
  u.projected = As<float>(args[at.scratch]);
  u.bias = u.projected + e.dirs * e.steps * e.batch * e.ld();
  u.blocks = u.bias + e.dirs * 2 * e.ld();
  u.x = As<float>(args[at.x]);
  float* const rounded = u.blocks + e.dirs * e.blocks() * BlockFloats();
  if (quantizes && !by_bytes()) {
    RoundToRange(u.x, RoundedFloats(), rounded);
    u.x = rounded;
  }
  if (by_bytes()) {
    u.w = u.r = nullptr;
  } else if (packed) {
    u.w = packed->w.data<float>().data();
    u.r = packed->r.data<float>().data();
  } else {
    float* w = rounded + RoundedFloats();
    float* r = w + e.dirs * PackedW();
    Pack(As<float>(args[at.w]), As<float>(args[at.r]), w, r);
    u.w = w;
    u.r = r;
  }
  SetBias(args, u.bias);
  if (by_bytes()) ProjectCodes(u, rounded);
  for (int64_t d = 0; !by_bytes() && d < e.dirs; ++d) Project(u, d);
  ForRange(e.dirs * e.blocks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      RunBlock(args, u, lengths, i / e.blocks(), i % e.blocks());
  });
  return {};
}

void RecurrentLaunch::SetBias(std::byte* const* args, float* bias) const {
  std::fill_n(bias, e.dirs * 2 * e.ld(), 0.0f);
  if (at.b < 0) return;
  const float* b = As<float>(args[at.b]);
  const int64_t n = e.row();
  for (int64_t d = 0; d < e.dirs; ++d)
    for (int64_t j = 0; j < n; ++j) {
      const float of_w = b[d * 2 * n + j], of_r = b[d * 2 * n + n + j];
      const bool apart = linear_before_reset && j >= 2 * e.hidden;
      bias[d * 2 * e.ld() + j] = apart ? of_w : of_w + of_r;
      bias[d * 2 * e.ld() + e.ld() + j] = apart ? of_r : 0.0f;
    }
}

void RecurrentLaunch::Project(const Buffers& u, int64_t d) const {
  constexpr int64_t kRows = 64;  // a panel of weights comes from L2 for all but the first of them
  const int64_t rows = e.steps * e.batch, ld = e.ld();
  float* y = u.projected + d * rows * ld;
  const int64_t grain = std::max<int64_t>(1, (1 << 18) / (kRows * ld * e.input + 1));
  ForRange((rows + kRows - 1) / kRows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin * kRows; r < std::min(rows, end * kRows); r += kRows) {
      const int64_t n = std::min(kRows, rows - r);
      for (int64_t k = 0; k < n; ++k) std::copy_n(u.bias + d * 2 * ld, ld, y + (r + k) * ld);
      simd::TheLoops().multiply_panels(u.x + r * e.input, e.input, n, u.w + d * PackedW(), e.input,
                                       e.panels(), y + r * ld, ld);
    }
  });
}

void RecurrentLaunch::ProjectCodes(const Buffers& u, float* scratch) const {
  const int64_t rows = e.steps * e.batch, ld = e.ld();
  auto* const codes = reinterpret_cast<uint8_t*>(scratch + ByteProduct::ScratchFloats(ld));
  const DynamicRange range = RangeOf(u.x, rows * e.input);
  ByteProduct::Quantize(u.x, rows, e.input, range, codes);
  for (int64_t d = 0; d < e.dirs; ++d)
    packed->byte_w[static_cast<size_t>(d)].Run(codes, rows, range, u.bias + d * 2 * ld,
                                               u.projected + d * rows * ld, scratch, false);
}

void RecurrentLaunch::MultiplyCodes(int64_t d, int64_t rows, int64_t step, const State& s) const {
  const ByteProduct& r = packed->byte_r[static_cast<size_t>(d)];
  auto* const codes = reinterpret_cast<uint8_t*>(s.codes + ByteProduct::ScratchFloats(e.ld()));
  const DynamicRange range = RangeOf(s.h, rows * e.hidden);
  ByteProduct::Quantize(s.h, rows, e.hidden, range, codes);
  if (rows == 1 && r.is_symmetric())
    return r.Run(codes, 1, range, s.gates, s.gates, s.codes, step > 0);
  r.Run(codes, rows, range, nullptr, s.second, s.codes, step > 0);
  for (int64_t i = 0; i < rows * e.ld(); ++i) s.gates[i] += s.second[i];
}

void RecurrentLaunch::Multiply(const float* a, int64_t rows, const float* b, int64_t panels,
                               float* c) const {
  const int64_t k = e.hidden;
  const auto multiply = simd::TheLoops().multiply_panels;
  if (e.dirs * e.blocks() > 1 || rows * k * panels * kPanel < kWideStep)
    return multiply(a, k, rows, b, k, panels, c, e.ld());
  ForRange(panels, std::max<int64_t>(2, kWideStep / 4 / (rows * k * kPanel)),
           [&](int64_t begin, int64_t end) {
             multiply(a, k, rows, b + begin * k * kPanel, k, end - begin, c + begin * kPanel,
                      e.ld());
           });
}

void RecurrentLaunch::RunBlock(std::byte* const* args, const Buffers& u, const int32_t* lengths,
                               int64_t d, int64_t block) const {
  const int64_t first = block * e.block, rows = std::min(e.block, e.batch - first);
  const int64_t n = e.hidden, ld = e.ld();
  float* h = u.blocks + (d * e.blocks() + block) * BlockFloats();
  float *c = h + e.block * n, *reset = c + e.block * n, *gates = reset + e.block * n,
        *second = gates + e.block * ld, *codes = second + e.block * ld;
  const bool backwards = reverse || d == 1;
  for (int64_t b = 0; b < rows; ++b) {
    Load(args, at.h0, d, first + b, h + b * n);
    Load(args, at.c0, d, first + b, c + b * n);
  }
  const float* r = u.r + d * PackedR();
  const float* projected = u.projected + d * e.steps * e.batch * ld;
  const float* peepholes = at.p < 0 ? nullptr : As<float>(args[at.p]) + d * 3 * n;
  float* y = at.y < 0 ? nullptr : As<float>(args[at.y]);
  int64_t longest = lengths ? 0 : e.steps;
  for (int64_t b = 0; lengths && b < rows; ++b)
    longest = std::max<int64_t>(longest, lengths[first + b]);
  for (int64_t i = longest; y && i < e.steps; ++i)
    for (int64_t b = 0; b < rows; ++b) std::fill_n(y + e.Output(i, d, first + b), n, 0.0f);
  for (int64_t i = 0; i < longest; ++i) {
    for (int64_t b = 0; b < rows; ++b) {
      const int64_t length = lengths ? lengths[first + b] : e.steps;
      const int64_t s = i < length && backwards ? length - 1 - i : i;
      std::copy_n(projected + e.InputRow(s, first + b) * ld, ld, gates + b * ld);
    }
    if (quantizes && !by_bytes()) RoundToRange(h, rows * n, h);
    Advance(u.bias + d * 2 * ld + ld, r, peepholes, d, rows, i, first, lengths,
            {h, c, reset, gates, second, codes});
    for (int64_t b = 0; y && b < rows; ++b) {
      const int64_t length = lengths ? lengths[first + b] : e.steps;
      const int64_t s = i < length && backwards ? length - 1 - i : i;
      float* to = y + e.Output(s, d, first + b);
      if (i < length)
        std::copy_n(h + b * n, n, to);
      else
        std::fill_n(to, n, 0.0f);
    }
  }
  for (int64_t b = 0; b < rows; ++b) {
    if (lengths && lengths[first + b] == 0) {  // no last value: zeros like Y
      std::fill_n(h + b * n, n, 0.0f);
      std::fill_n(c + b * n, n, 0.0f);
    }
    if (at.y_h >= 0) std::copy_n(h + b * n, n, As<float>(args[at.y_h]) + e.State(d, first + b));
    if (at.y_c >= 0) std::copy_n(c + b * n, n, As<float>(args[at.y_c]) + e.State(d, first + b));
  }
}

void RecurrentLaunch::Advance(const float* late_bias, const float* r, const float* peepholes,
                              int64_t d, int64_t rows, int64_t step, int64_t first,
                              const int32_t* lengths, const State& s) const {
  const simd::Loops& loops = simd::TheLoops();
  const auto sigmoid = loops.unary[static_cast<int>(simd::Unary::kSigmoid)];
  const auto activate = loops.unary[static_cast<int>(activation)];
  const int64_t n = e.hidden, ld = e.ld();
  auto runs = [&](int64_t b) { return !lengths || step < lengths[first + b]; };
  if (cell != Cell::kGru) {
    if (by_bytes())
      MultiplyCodes(d, rows, step, s);
    else
      Multiply(s.h, rows, r, e.panels(), s.gates);
    for (int64_t b = 0; b < rows; ++b) {
      if (!runs(b)) continue;
      if (!unusual.empty())
        Activate(d, s.gates + b * ld, peepholes, s.c + b * n, s.h + b * n);
      else if (cell == Cell::kLstm)
        loops.lstm_cell(s.gates + b * ld, peepholes, s.c + b * n, s.h + b * n, n);
      else
        activate(s.gates + b * ld, s.h + b * n, n, 0, 0);
    }
    return;
  }
  // Gates z, r, h. `second` gets what R gives to the last one.
  for (int64_t b = 0; b < rows; ++b) std::copy_n(late_bias, ld, s.second + b * ld);
  if (linear_before_reset)
    Multiply(s.h, rows, r, e.panels(), s.second);
  else
    Multiply(s.h, rows, r, PanelsOf(2 * n), s.second);
  const int64_t last = linear_before_reset ? 2 * n : 0;  // where the last gate stands in `second`
  for (int64_t b = 0; b < rows; ++b) {
    float *g = s.gates + b * ld, *q = s.second + b * ld;
    for (int64_t j = 0; j < 2 * n; ++j) g[j] += q[j];
    float* const reset = s.reset + b * n;
    if (unusual.empty()) {
      sigmoid(g + n, reset, n, 0, 0);
    } else {
      std::copy_n(g + n, n, reset);
      unusual[static_cast<size_t>(2 * d)].Run(reset, n);
    }
    if (linear_before_reset)
      for (int64_t j = 0; j < n; ++j) g[2 * n + j] += s.reset[b * n + j] * q[last + j];
    else
      for (int64_t j = 0; j < n; ++j) s.reset[b * n + j] *= s.h[b * n + j];
  }
  if (!linear_before_reset) {
    for (int64_t b = 0; b < rows; ++b) std::fill_n(s.second + b * ld, ld, 0.0f);
    Multiply(s.reset, rows, r + PanelsOf(2 * n) * kPanel * n, PanelsOf(n), s.second);
    for (int64_t b = 0; b < rows; ++b)
      for (int64_t j = 0; j < n; ++j) s.gates[b * ld + 2 * n + j] += s.second[b * ld + j];
  }
  for (int64_t b = 0; b < rows; ++b) {
    if (!runs(b)) continue;
    if (unusual.empty())
      loops.gru_cell(s.gates + b * ld, s.gates + b * ld + 2 * n, s.h + b * n, n);
    else
      Activate(d, s.gates + b * ld, nullptr, nullptr, s.h + b * n);
  }
}

void RecurrentLaunch::Activate(int64_t d, float* gates, const float* peepholes, float* c,
                               float* h) const {
  const int64_t n = e.hidden;
  const size_t each = cell == Cell::kLstm ? 3 : cell == Cell::kGru ? 2 : 1;
  const GateActivation* const f = unusual.data() + static_cast<size_t>(d) * each;
  // A gate sees c through its peephole.
  const auto look = [&](int64_t gate) {
    const float* const p = peepholes + gate * n;
    for (int64_t j = 0; j < n; ++j) gates[gate * n + j] += p[j] * c[j];
  };
  if (cell == Cell::kRnn) {
    f[0].Run(gates, n);
    std::copy_n(gates, n, h);
    return;
  }
  if (cell == Cell::kGru) {
    const float* const z = gates;
    const float* const next = gates + 2 * n;
    f[0].Run(gates, n);
    f[1].Run(gates + 2 * n, n);
    for (int64_t j = 0; j < n; ++j) h[j] = (1.0f - z[j]) * next[j] + z[j] * h[j];
    return;
  }
  float *const in = gates, *const out = gates + n, *const keep = gates + 2 * n,
               *const next = gates + 3 * n;
  if (peepholes) look(0);
  if (peepholes && !input_forget) look(2);
  f[0].Run(in, n);
  f[1].Run(next, n);
  if (input_forget)
    for (int64_t j = 0; j < n; ++j) keep[j] = 1.0f - in[j];
  else
    f[0].Run(keep, n);
  for (int64_t j = 0; j < n; ++j) c[j] = keep[j] * c[j] + in[j] * next[j];
  if (peepholes) look(1);
  f[0].Run(out, n);
  std::copy_n(c, n, h);
  f[2].Run(h, n);
  for (int64_t j = 0; j < n; ++j) h[j] *= out[j];
}

void RecurrentLaunch::Load(std::byte* const* args, int i, int64_t d, int64_t b, float* to) const {
  if (i < 0)
    std::fill_n(to, e.hidden, 0.0f);
  else
    std::copy_n(As<float>(args[i]) + e.State(d, b), e.hidden, to);
}

}  // namespace infer
