/// LSTM, GRU and RNN in f32 with their default activations. The products with X of all steps are
/// one product beforehand; the steps multiply packed recurrent weights (simd/loops.h) and run a
/// fused cell. Lanes take directions and blocks of samples; where there is only one, panels of a
/// step.
///
/// Letters: S steps, B batch, I input size, H hidden size, D directions, G gates per cell.
#include <algorithm>
#include <cstring>

#include "lib/ops/recurrent/recurrent_reference.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

using simd::kPanel;

/// Samples that walk through the steps together.
constexpr int64_t kBlock = 16;
/// Multiply-adds of one step from which on its panels are worth several lanes.
constexpr int64_t kWideStep = int64_t{1} << 20;

using Cell = RecurrentCell;

int64_t PanelsOf(int64_t columns) { return (columns + kPanel - 1) / kPanel; }

/// [n, k] transposed into panels of n; columns beyond n are 0.
void PackPanels(const float* from, int64_t n, int64_t k, float* to) {
  for (int64_t p = 0; p < PanelsOf(n); ++p)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < kPanel; ++j) {
        const int64_t column = p * kPanel + j;
        *to++ = column < n ? from[column * k + i] : 0.0f;
      }
}

/// Arguments of the launch, -1: not there.
struct Arguments {
  int x = -1, w = -1, r = -1, b = -1, lengths = -1, h0 = -1, c0 = -1, p = -1;
  int y = -1, y_h = -1, y_c = -1, scratch = -1;
};

struct Extents {
  int64_t steps = 0, batch = 0, input = 0, hidden = 0, dirs = 1, gates = 1;
  bool batch_first = false;
  int64_t row() const { return gates * hidden; }
  int64_t panels() const { return PanelsOf(row()); }
  int64_t ld() const { return panels() * kPanel; }
  int64_t blocks() const { return (batch + kBlock - 1) / kBlock; }
  int64_t InputRow(int64_t s, int64_t b) const {
    return batch_first ? b * steps + s : s * batch + b;
  }
  int64_t Output(int64_t s, int64_t d, int64_t b) const {
    return (batch_first ? (b * steps + s) * dirs + d : (s * dirs + d) * batch + b) * hidden;
  }
  int64_t State(int64_t d, int64_t b) const {
    return (batch_first ? b * dirs + d : d * batch + b) * hidden;
  }
};

/// Weights of all directions in panels.
struct Packed {
  std::vector<float> w, r;
};

class RecurrentLaunch final : public Launch {
 public:
  Cell cell = Cell::kLstm;
  bool reverse = false;              // of the only direction
  bool linear_before_reset = false;  // of a GRU
  Extents e;
  Arguments at;
  std::shared_ptr<const Packed> packed;  // nullptr: the weights come with every run

  /// R of a GRU that resets before it multiplies lies as two matrices.
  bool split() const { return cell == Cell::kGru && !linear_before_reset; }
  int64_t PackedW() const { return e.panels() * kPanel * e.input; }
  int64_t PackedR() const {
    return (split() ? PanelsOf(2 * e.hidden) + PanelsOf(e.hidden) : e.panels()) * kPanel * e.hidden;
  }
  void Pack(const float* w, const float* r, float* to_w, float* to_r) const {
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

  /// Per block of samples: h, c, what resets left of h, gates, and a second row of gates.
  int64_t BlockFloats() const { return kBlock * (3 * e.hidden + 2 * e.ld()); }
  int64_t ScratchFloats() const {
    return e.dirs * (e.steps * e.batch * e.ld() + 2 * e.ld() + e.blocks() * BlockFloats()) +
           (packed ? 0 : e.dirs * (PackedW() + PackedR()));
  }

  Status Run(std::byte* const* args, LaunchState*) const override {
    const auto* lengths = at.lengths < 0 ? nullptr : As<int32_t>(in(args, at.lengths));
    for (int64_t b = 0; lengths && b < e.batch; ++b)
      if (lengths[b] < 0 || lengths[b] > e.steps)
        return InvalidModel(
            Cat("sequence_lens[", b, "] is ", lengths[b], " of ", e.steps, " steps"));
    Buffers u;
    u.projected = As<float>(args[at.scratch]);
    u.bias = u.projected + e.dirs * e.steps * e.batch * e.ld();
    u.blocks = u.bias + e.dirs * 2 * e.ld();
    if (packed) {
      u.w = packed->w.data();
      u.r = packed->r.data();
    } else {
      float* w = u.blocks + e.dirs * e.blocks() * BlockFloats();
      float* r = w + e.dirs * PackedW();
      Pack(As<float>(in(args, at.w)), As<float>(in(args, at.r)), w, r);
      u.w = w;
      u.r = r;
    }
    SetBias(args, u.bias);
    for (int64_t d = 0; d < e.dirs; ++d) Project(args, u, d);
    ForRange(e.dirs * e.blocks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        RunBlock(args, u, lengths, i / e.blocks(), i % e.blocks());
    });
    return {};
  }

 private:
  struct Buffers {
    float *projected, *bias, *blocks;
    const float *w, *r;
  };

  static const std::byte* in(std::byte* const* args, int i) { return args[i]; }

  /// Per direction two rows: what is added to X W', and what is added to H R' (only of the last
  /// gate of a GRU, where it must be apart).
  void SetBias(std::byte* const* args, float* bias) const {
    std::fill_n(bias, e.dirs * 2 * e.ld(), 0.0f);
    if (at.b < 0) return;
    const float* b = As<float>(in(args, at.b));
    const int64_t n = e.row();
    for (int64_t d = 0; d < e.dirs; ++d)
      for (int64_t j = 0; j < n; ++j) {
        const float of_w = b[d * 2 * n + j], of_r = b[d * 2 * n + n + j];
        const bool apart = linear_before_reset && j >= 2 * e.hidden;
        bias[d * 2 * e.ld() + j] = apart ? of_w : of_w + of_r;
        bias[d * 2 * e.ld() + e.ld() + j] = apart ? of_r : 0.0f;
      }
  }

  void Project(std::byte* const* args, const Buffers& u, int64_t d) const {
    constexpr int64_t kRows = 64;  // a panel of weights comes from L2 for all but the first of them
    const float* x = As<float>(in(args, at.x));
    const int64_t rows = e.steps * e.batch, ld = e.ld();
    float* y = u.projected + d * rows * ld;
    const int64_t grain = std::max<int64_t>(1, (1 << 18) / (kRows * ld * e.input + 1));
    ForRange((rows + kRows - 1) / kRows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin * kRows; r < std::min(rows, end * kRows); r += kRows) {
        const int64_t n = std::min(kRows, rows - r);
        for (int64_t k = 0; k < n; ++k) std::copy_n(u.bias + d * 2 * ld, ld, y + (r + k) * ld);
        simd::TheLoops().multiply_panels(x + r * e.input, e.input, n, u.w + d * PackedW(), e.input,
                                         e.panels(), y + r * ld, ld);
      }
    });
  }

  /// c += a * panels; on several lanes where one step is large and nobody else uses them.
  void Multiply(const float* a, int64_t rows, const float* b, int64_t panels, float* c) const {
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

  /// All steps of one block of samples in one direction.
  void RunBlock(std::byte* const* args, const Buffers& u, const int32_t* lengths, int64_t d,
                int64_t block) const {
    const int64_t first = block * kBlock, rows = std::min(kBlock, e.batch - first);
    const int64_t n = e.hidden, ld = e.ld();
    float* h = u.blocks + (d * e.blocks() + block) * BlockFloats();
    float *c = h + kBlock * n, *reset = c + kBlock * n, *gates = reset + kBlock * n,
          *second = gates + kBlock * ld;
    const bool backwards = reverse || d == 1;
    for (int64_t b = 0; b < rows; ++b) {
      Load(args, at.h0, d, first + b, h + b * n);
      Load(args, at.c0, d, first + b, c + b * n);
    }
    const float* r = u.r + d * PackedR();
    const float* projected = u.projected + d * e.steps * e.batch * ld;
    const float* peepholes = at.p < 0 ? nullptr : As<float>(in(args, at.p)) + d * 3 * n;
    float* y = at.y < 0 ? nullptr : As<float>(args[at.y]);
    for (int64_t i = 0; i < e.steps; ++i) {
      for (int64_t b = 0; b < rows; ++b) {
        const int64_t length = lengths ? lengths[first + b] : e.steps;
        const int64_t s = i < length && backwards ? length - 1 - i : i;
        std::copy_n(projected + e.InputRow(s, first + b) * ld, ld, gates + b * ld);
      }
      Advance(u.bias + d * 2 * ld + ld, r, peepholes, rows, i, first, lengths,
              {h, c, reset, gates, second});
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

  struct State {
    float *h, *c, *reset, *gates, *second;
  };

  /// One step: gates hold X W' and the biases. Samples that have ended keep their states.
  void Advance(const float* late_bias, const float* r, const float* peepholes, int64_t rows,
               int64_t step, int64_t first, const int32_t* lengths, const State& s) const {
    const simd::Loops& loops = simd::TheLoops();
    const auto sigmoid = loops.unary[static_cast<int>(simd::Unary::kSigmoid)];
    const auto tanh = loops.unary[static_cast<int>(simd::Unary::kTanh)];
    const int64_t n = e.hidden, ld = e.ld();
    auto runs = [&](int64_t b) { return !lengths || step < lengths[first + b]; };
    if (cell != Cell::kGru) {
      Multiply(s.h, rows, r, e.panels(), s.gates);
      for (int64_t b = 0; b < rows; ++b) {
        if (!runs(b)) continue;
        if (cell == Cell::kLstm)
          loops.lstm_cell(s.gates + b * ld, peepholes, s.c + b * n, s.h + b * n, n);
        else
          tanh(s.gates + b * ld, s.h + b * n, n, 0, 0);
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
      sigmoid(g + n, s.reset + b * n, n, 0, 0);
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
    for (int64_t b = 0; b < rows; ++b)
      if (runs(b)) loops.gru_cell(s.gates + b * ld, s.gates + b * ld + 2 * n, s.h + b * n, n);
  }

  void Load(std::byte* const* args, int i, int64_t d, int64_t b, float* to) const {
    if (i < 0)
      std::fill_n(to, e.hidden, 0.0f);
    else
      std::copy_n(As<float>(in(args, i)) + e.State(d, b), e.hidden, to);
  }
};

Cell CellOf(const Node& n) {
  return n.Is("LSTM") ? Cell::kLstm : n.Is("GRU") ? Cell::kGru : Cell::kRnn;
}

std::string RefuseRecurrent(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  for (size_t i = 0; i < n.inputs().size(); ++i)
    if (n.input(i) && i != 4 &&
        (!n.input(i)->type().is_tensor() || n.input(i)->dtype() != DType::kF32))
      return Cat("operand '", n.input(i)->name(), "' is ", ToString(n.input(i)->type()));
  if (n.attrs().count("clip")) return "clip";
  if (n.AttrOr<int64_t>("input_forget", 0) != 0) return "input_forget";
  if (auto it = n.attrs().find("activations"); it != n.attrs().end()) {
    const std::vector<std::string> one = DefaultActivations(CellOf(n));
    const auto& names = std::get<std::vector<std::string>>(it->second);
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] != one[i % one.size()]) return Cat("activation ", names[i]);
  }
  return "";
}

class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(const StepCall& call) {
    const Node& n = call.main();
    launch_.cell = CellOf(n);
    launch_.reverse = n.Attr<std::string>("direction") == "reverse";
    launch_.linear_before_reset = n.AttrOr<int64_t>("linear_before_reset", 0) != 0;
    launch_.e.gates = launch_.cell == Cell::kLstm ? 4 : launch_.cell == Cell::kGru ? 3 : 1;
    launch_.e.batch_first = n.Attr<int64_t>("layout") != 0;
    auto operand = [&](size_t i) { return call.operand(n.input(i)); };
    launch_.at = {.x = operand(0),
                  .w = operand(1),
                  .r = operand(2),
                  .b = operand(3),
                  .lengths = operand(4),
                  .h0 = operand(5),
                  .c0 = operand(6),
                  .p = operand(7)};
    for (size_t o = 0; o < 3; ++o) {
      const Value* v = n.output(o);
      const auto& made = call.step.outputs;
      const auto it = v ? std::find(made.begin(), made.end(), call.plan.id(v)) : made.end();
      result_[o] = it == made.end() ? -1 : static_cast<int>(it - made.begin());
    }
    const Tensor *w = call.constant(n.input(1)), *r = call.constant(n.input(2));
    if (w && r) {
      RecurrentLaunch& l = launch_;
      l.e.dirs = r->dim(0);
      l.e.hidden = r->dim(2);
      l.e.input = w->dim(2);
      auto packed = std::make_shared<Packed>();
      packed->w.resize(static_cast<size_t>(l.e.dirs * l.PackedW()));
      packed->r.resize(static_cast<size_t>(l.e.dirs * l.PackedR()));
      l.Pack(w->data<float>().data(), r->data<float>().data(), packed->w.data(), packed->r.data());
      l.packed = std::move(packed);
    }
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    auto launch = std::make_shared<RecurrentLaunch>(launch_);
    Extents& e = launch->e;
    Arguments& at = launch->at;
    const Dims &x = in[static_cast<size_t>(at.x)].dims, &r = in[static_cast<size_t>(at.r)].dims;
    e.steps = x[e.batch_first ? 1 : 0];
    e.batch = x[e.batch_first ? 0 : 1];
    e.input = x[2];
    e.hidden = r[2];
    e.dirs = r[0];
    const int results = static_cast<int>(in.size());
    auto result = [&](int o) { return result_[o] < 0 ? -1 : results + result_[o]; };
    at.y = result(0);
    at.y_h = result(1);
    at.y_c = result(2);
    at.scratch = results + static_cast<int>(out.size());
    Prepared p;
    p.name = Cat("own:", simd::TheLoops().isa);
    p.scratch_bytes = launch->ScratchFloats() * 4;
    p.unused.assign(in.size(), false);
    if (launch->packed) {
      p.unused[static_cast<size_t>(at.w)] = p.unused[static_cast<size_t>(at.r)] = true;
      for (int i : {at.x, at.b, at.lengths, at.h0, at.c0, at.p})
        if (i >= 0) p.unused[static_cast<size_t>(i)] = false;
      p.weight_bytes =
          static_cast<int64_t>(launch->packed->w.size() + launch->packed->r.size()) * 4;
    }
    p.launch = std::move(launch);
    return p;
  }

 private:
  RecurrentLaunch launch_;  // without extents and results
  int result_[3] = {-1, -1, -1};
};

std::unique_ptr<Kernel> MakeRecurrent(const StepCall& call) {
  return std::make_unique<RecurrentKernel>(call);
}

}  // namespace

KernelList RecurrentKernels() {
  return {{"LSTM", "", "own", RefuseRecurrent, MakeRecurrent},
          {"GRU", "", "own", RefuseRecurrent, MakeRecurrent},
          {"RNN", "", "own", RefuseRecurrent, MakeRecurrent}};
}

}  // namespace infer
