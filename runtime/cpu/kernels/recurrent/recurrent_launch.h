#pragma once
/// The launch of layers of LSTM, GRU and RNN, in f32. The products with X of all steps are one
/// product beforehand; the steps multiply packed recurrent weights (simd/loops.h) and run a fused
/// cell. Lanes take directions and blocks of samples; where there is only one, panels of a step.
///
/// Letters: S steps, B batch, I input size, H hidden size, D directions, G gates per cell.
#include <memory>
#include <vector>

#include "lib/ops/recurrent/recurrent_reference.h"
#include "runtime/cpu/kernels/recurrent/byte_product.h"
#include "runtime/cpu/kernels/recurrent/gate_activation.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

class RecurrentLaunch final : public Launch {
 public:
  using Cell = RecurrentCell;
  /// Samples that walk through the steps together.
  static constexpr int64_t kBlock = 16;

  /// Positions among the arguments; -1: not there.
  struct Arguments {
    int x = -1, w = -1, r = -1, b = -1, lengths = -1, h0 = -1, c0 = -1, p = -1;
    int y = -1, y_h = -1, y_c = -1, scratch = -1;
  };

  struct Extents {
    int64_t steps = 0, batch = 0, input = 0, hidden = 0, dirs = 1, gates = 1;
    int64_t block = kBlock;
    bool batch_first = false;
    int64_t row() const { return gates * hidden; }
    int64_t panels() const { return PanelsOf(row()); }
    int64_t ld() const { return panels() * simd::kPanel; }
    int64_t blocks() const { return (batch + block - 1) / block; }
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

  /// Weights of all directions in panels, f32. Rows of panels begin at cache lines: loads across
  /// them take half as long again.
  struct Packed {
    Tensor w, r;
    /// Instead of those, by direction, where 8-bit weights meet codes as they are.
    std::vector<ByteProduct> byte_w, byte_r;
    int64_t bytes() const;
  };

  Cell cell = Cell::kLstm;
  /// Of an RNN whose activation is one of our loops.
  simd::Unary activation = simd::Unary::kTanh;
  /// Activations of all directions where they are others than the usual ones, or where `clip` or
  /// `input_forget` is set. Empty: the usual ones.
  std::vector<GateActivation> unusual;
  bool input_forget = false;         ///< of an LSTM: the forget gate is 1 less the input gate
  bool reverse = false;              ///< of the only direction
  bool linear_before_reset = false;  ///< of a GRU
  /// X, and before each step the states of all samples (one block), go into products as what
  /// DynamicQuantizeLinear makes of them: as codes, where there is a product of bytes, else as the
  /// numbers that DequantizeLinear makes of these.
  bool quantizes = false;
  Extents e;
  Arguments at;
  std::shared_ptr<const Packed> packed;  ///< nullptr: the weights come with every run

  static int64_t PanelsOf(int64_t columns) { return (columns + simd::kPanel - 1) / simd::kPanel; }
  /// R of a GRU that resets before it multiplies lies as two matrices.
  bool split() const { return cell == Cell::kGru && !linear_before_reset; }
  int64_t PackedW() const { return e.panels() * simd::kPanel * e.input; }
  int64_t PackedR() const {
    const int64_t panels = split() ? PanelsOf(2 * e.hidden) + PanelsOf(e.hidden) : e.panels();
    return panels * simd::kPanel * e.hidden;
  }
  /// w [D, G H, I] and r [D, G H, H] into panels.
  void Pack(const float* w, const float* r, float* to_w, float* to_r) const;

  bool by_bytes() const { return packed && !packed->byte_r.empty(); }
  /// Per block of samples: h, c, what resets left of h, gates, and a second row of gates; the codes
  /// of h, and what their product needs.
  int64_t BlockFloats() const {
    const int64_t floats = e.block * (3 * e.hidden + 2 * e.ld());
    if (!by_bytes()) return floats;
    return floats + e.block * ByteProduct::RowBytes(e.hidden) / 4 +
           ByteProduct::ScratchFloats(e.ld());
  }
  /// X rounded, or its codes and what their product needs.
  int64_t RoundedFloats() const {
    if (!quantizes) return 0;
    if (!by_bytes()) return e.steps * e.batch * e.input;
    return e.steps * e.batch * ByteProduct::RowBytes(e.input) / 4 +
           ByteProduct::ScratchFloats(e.ld());
  }
  int64_t ScratchFloats() const {
    return e.dirs * (e.steps * e.batch * e.ld() + 2 * e.ld() + e.blocks() * BlockFloats()) +
           RoundedFloats() + (packed ? 0 : e.dirs * (PackedW() + PackedR()));
  }

  Status Run(std::byte* const* args, LaunchState* state) const override;

 private:
  struct Buffers {
    float *projected, *bias, *blocks;
    const float *x, *w, *r;
  };
  struct State {
    float *h, *c, *reset, *gates, *second, *codes;
  };

  /// Per direction two rows: what is added to X W', and what is added to H R' (only of the last
  /// gate of a GRU, where it must be apart).
  void SetBias(std::byte* const* args, float* bias) const;
  void Project(const Buffers& u, int64_t d) const;
  /// The same of all directions where weights are bytes. `scratch`: RoundedFloats().
  void ProjectCodes(const Buffers& u, float* scratch) const;
  /// gates += H R' of `rows` samples, where weights are bytes.
  void MultiplyCodes(int64_t d, int64_t rows, int64_t step, const State& s) const;
  /// c += a * panels; on several lanes where one step is large and nobody else uses them.
  void Multiply(const float* a, int64_t rows, const float* b, int64_t panels, float* c) const;
  /// All steps of one block of samples in one direction.
  void RunBlock(std::byte* const* args, const Buffers& u, const int32_t* lengths, int64_t d,
                int64_t block) const;
  /// States of one sample behind its gates, with unusual activations. Overwrites the gates.
  void Activate(int64_t d, float* gates, const float* peepholes, float* c, float* h) const;
  /// One step: gates hold X W' and the biases. Samples that have ended keep their states.
  void Advance(const float* late_bias, const float* r, const float* peepholes, int64_t d,
               int64_t rows, int64_t step, int64_t first, const int32_t* lengths,
               const State& s) const;
  void Load(std::byte* const* args, int i, int64_t d, int64_t b, float* to) const;
};

}  // namespace infer
