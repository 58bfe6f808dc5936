#include "runtime/cpu/compile/blocked_weights.h"

#include <algorithm>
#include <map>
#include <optional>

#include "lib/ir/replacement.h"
#include "lib/ir/roles.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"

namespace infer {
namespace {

bool Is(const Value* v, DType type) { return v && v->type().is_tensor() && v->dtype() == type; }

/// A DequantizeLinear of constants whose codes are a matrix.
struct Dequantized {
  const Node* node = nullptr;
  const Tensor *codes = nullptr, *scales = nullptr, *zeros = nullptr;
  int bits = 0;
  int axis = 0;       ///< along which a scale is shared by `block` codes
  int64_t block = 0;  ///< 0: by all
};

/// How weights [rows, depth] lie in it: depth along axis 0 or 1.
std::optional<Dequantized> DequantizedOf(const Value* v) {
  const Node* const n = DequantizeBefore(v);
  if (!n || !Is(v, DType::kF32)) return std::nullopt;
  for (const Value* in : n->inputs())
    if (in && !in->is_constant()) return std::nullopt;
  Dequantized d;
  d.node = n;
  d.codes = n->input(0)->constant();
  d.scales = n->input(1)->constant();
  d.zeros = n->input(2) ? n->input(2)->constant() : nullptr;
  const DType t = d.codes->dtype();
  d.bits = t == DType::kI4 || t == DType::kU4 ? 4 : t == DType::kI8 || t == DType::kU8 ? 8 : 0;
  if (d.bits == 0 || d.codes->rank() != 2 || d.scales->dtype() != DType::kF32) return std::nullopt;
  if (d.zeros && (d.zeros->dtype() != t || d.zeros->num_elements() != d.scales->num_elements()))
    return std::nullopt;
  int64_t axis = n->Attr<int64_t>("axis");
  if (axis < 0) axis += 2;
  const int64_t block = n->Attr<int64_t>("block_size");
  if (axis < 0 || axis > 1 || d.codes->num_elements() == 0) return std::nullopt;
  if (block == 0) {
    // One scale, or one for each index of `axis`: shared along the other.
    const int64_t count = d.scales->num_elements();
    if (d.bits != 4 ||
        (count != 1 && (d.scales->rank() != 1 || count != d.codes->dim(static_cast<int>(axis)))))
      return std::nullopt;
    d.axis = static_cast<int>(1 - axis);
    return d;
  }
  const int other = static_cast<int>(1 - axis);
  if (block < 16 || block > 256 || (block & (block - 1)) != 0 || d.scales->rank() != 2 ||
      d.scales->dim(other) != d.codes->dim(other) ||
      d.scales->dim(static_cast<int>(axis)) !=
          BlocksOf(d.codes->dim(static_cast<int>(axis)), block))
    return std::nullopt;
  d.axis = static_cast<int>(axis);
  d.block = block;
  return d;
}

/// Code i as 0 ... 2^bits - 1, signed ones moved up by half of that.
class Codes {
 public:
  explicit Codes(const Tensor& t)
      : bytes_(reinterpret_cast<const uint8_t*>(t.raw())),
        packed_(BitWidth(t.dtype()) == 4),
        flip_(!IsSignedInteger(t.dtype()) ? 0
              : packed_                   ? 8
                                          : 128) {}
  unsigned operator[](int64_t i) const {
    const unsigned code = packed_ ? bytes_[i / 2] >> (i % 2 * 4) & 15u : bytes_[i];
    return code ^ flip_;
  }

 private:
  const uint8_t* bytes_;
  bool packed_;
  unsigned flip_;
};

/// As MatMulNBits and GatherBlockQuantized hold them.
struct Blocks {
  Tensor codes, scales, zeros;  ///< zeros undefined: the middle
  int64_t rows = 0, depth = 0, block = 0;
  int bits = 0;
};

/// `padded`: rows of whole blocks, as MatMulNBits has them.
Blocks Rearranged(const Dequantized& d, bool padded) {
  Blocks out;
  const bool turned = d.axis == 0;  // [depth, rows]
  out.depth = d.codes->dim(d.axis);
  out.rows = d.codes->dim(1 - d.axis);
  out.bits = d.bits;
  out.block = d.block;
  if (d.block == 0) {
    // Any block will do; of those with the least padding the largest.
    out.block = 16;
    for (int64_t b = 32; b <= 256; b *= 2)
      if (BlocksOf(out.depth, b) * b <= BlocksOf(out.depth, out.block) * out.block) out.block = b;
  }
  const int64_t blocks = BlocksOf(out.depth, out.block), per_byte = 8 / d.bits;
  const int64_t width = padded ? blocks * out.block : BlocksOf(out.depth, per_byte) * per_byte;
  const Dims dims =
      padded ? Dims{out.rows, blocks, out.block / per_byte} : Dims{out.rows, width / per_byte};
  out.codes = Tensor::Zeros(DType::kU8, dims);
  out.scales = Tensor(DType::kF32, {out.rows, blocks});
  const int64_t zero_bytes = BlocksOf(blocks, per_byte);
  // Without zero points signed codes have the middle, unsigned ones 0.
  const bool middle = !d.zeros && IsSignedInteger(d.codes->dtype());
  if (!middle) out.zeros = Tensor::Zeros(DType::kU8, {out.rows, zero_bytes});
  const Codes codes(*d.codes);
  const std::optional<Codes> zeros = d.zeros ? std::optional<Codes>(*d.zeros) : std::nullopt;
  const auto scales = d.scales->data<float>();
  const auto to = out.codes.mutable_data<uint8_t>();
  const auto scale = out.scales.mutable_data<float>();
  uint8_t* const zero = middle ? nullptr : out.zeros.mutable_data<uint8_t>().data();
  const auto scale_at = [&](int64_t r, int64_t b) {
    if (d.block != 0) return turned ? b * out.rows + r : r * blocks + b;
    return scales.size() == 1 ? int64_t{0} : r;
  };
  // Rows in tiles, so that what is read along them stays in a few lines.
  constexpr int64_t kTile = 64;
  ParallelFor(BlocksOf(out.rows, kTile), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t last = std::min((t + 1) * kTile, out.rows);
      for (int64_t k = 0; k < out.depth; ++k)
        for (int64_t r = t * kTile; r < last; ++r)
          to[static_cast<size_t>((r * width + k) / per_byte)] |= static_cast<uint8_t>(
              codes[turned ? k * out.rows + r : r * out.depth + k] << (k % per_byte * d.bits));
      for (int64_t r = t * kTile; r < last; ++r)
        for (int64_t b = 0; b < blocks; ++b) {
          const int64_t at = scale_at(r, b);
          scale[static_cast<size_t>(r * blocks + b)] = scales[static_cast<size_t>(at)];
          if (zero && zeros)
            zero[r * zero_bytes + b / per_byte] |=
                static_cast<uint8_t>((*zeros)[at] << (b % per_byte * d.bits));
        }
    }
  });
  return out;
}

class Taker {
 public:
  explicit Taker(Graph& g) : g_(g), editor_(g) {}

  Result<int> Run() {
    std::vector<Node*> nodes;
    for (const auto& n : g_.nodes())
      if (IsMatrixProduct(*n) || n->Is(Trait::kSliceLookup)) nodes.push_back(n.get());
    for (Node* n : nodes)
      if (n->Is(Trait::kSliceLookup))
        INFER_TRY(LookUp(*n));
      else
        INFER_TRY(Multiply(*n));
    if (taken_ > 0) editor_.Sweep();
    return taken_;
  }

 private:
  struct Constants {
    Value *codes = nullptr, *scales = nullptr, *zeros = nullptr;
    int64_t rows = 0, depth = 0, block = 0;
    int bits = 0;
  };

  /// One conversion for all readers of one kind.
  const Constants& ConstantsOf(const Dequantized& d, bool padded) {
    const auto [it, is_new] = made_.try_emplace({d.node, padded});
    Constants& c = it->second;
    if (!is_new) return c;
    Blocks b = Rearranged(d, padded);
    const std::string& name = d.node->output()->name();
    c.codes = editor_.AddConstant(std::move(b.codes), name + "_codes");
    c.scales = editor_.AddConstant(std::move(b.scales), name + "_scales");
    if (b.zeros.defined()) c.zeros = editor_.AddConstant(std::move(b.zeros), name + "_zeros");
    c.rows = b.rows;
    c.depth = b.depth;
    c.block = b.block;
    c.bits = b.bits;
    return c;
  }

  Status Multiply(Node& n) {
    if (!Is(n.input(0), DType::kF32) || !Is(n.output(), DType::kF32)) return {};
    if (!n.input(0)->shape().has_rank() || n.input(0)->shape().rank() < 2) return {};
    // What is quantized on both sides is for integer products.
    if (DequantizeBefore(n.input(0))) return {};
    const WeightLayout layout = *WeightLayoutOf(n);
    if (layout.alpha != 1 || layout.data_transposed || (n.input(2) && layout.beta != 1)) return {};
    const Value* w = n.input(1);
    bool rows_first = layout.rows_are_outputs();
    if (w->producer() && TurnsMatrix(*w->producer())) {
      w = w->producer()->input(0);
      rows_first = !rows_first;
    }
    const auto d = DequantizedOf(w);
    if (!d || d->axis != (rows_first ? 1 : 0)) return {};
    const Constants& c = ConstantsOf(*d, true);
    Value* bias = n.input(2);
    Value* later = nullptr;
    if (bias &&
        !(bias->shape().has_rank() && bias->shape().rank() == 1 && bias->shape()[0] == Dim(c.rows)))
      later = std::exchange(bias, nullptr);
    std::vector<Value*> operands{n.input(0), c.codes, c.scales};
    if (c.zeros || bias) operands.push_back(c.zeros);
    if (bias) operands.insert(operands.end(), {nullptr, bias});
    editor_.InsertBefore(n);
    INFER_ASSIGN(
        Value * y,
        editor_.Add(
            "MatMulNBits", std::move(operands),
            {{"K", c.depth}, {"N", c.rows}, {"bits", int64_t{c.bits}}, {"block_size", c.block}},
            kMicrosoft, NamesOf(n)));
    if (later) {
      INFER_ASSIGN(y, editor_.Add("Add", {y, later}, {}, "", NamesOf(n)));
    }
    return Replace(n, n.Is(Trait::kSliceLookup) ? 0 : 1, y);
  }

  Status LookUp(Node& n) {
    if (!n.input(0) || !n.input(0)->producer()) return {};
    if (const auto axis = n.Attr<int64_t>("axis"); axis != 0 && axis != -2) return {};
    const auto d = DequantizedOf(n.input(0));
    if (!d || d->axis != 1 || d->codes->dim(1) * d->bits % 8 != 0) return {};
    const Constants& c = ConstantsOf(*d, false);
    std::vector<Value*> operands{c.codes, n.input(1), c.scales};
    if (c.zeros) operands.push_back(c.zeros);
    editor_.InsertBefore(n);
    INFER_ASSIGN(Value * y, editor_.Add("GatherBlockQuantized", std::move(operands),
                                        {{"bits", int64_t{c.bits}},
                                         {"block_size", c.block},
                                         {"gather_axis", int64_t{0}},
                                         {"quantize_axis", int64_t{1}}},
                                        kMicrosoft, NamesOf(n)));
    return Replace(n, n.Is(Trait::kSliceLookup) ? 0 : 1, y);
  }

  /// `n`, which read the codes through its operand `at`; where it was their last reader they go
  /// with it, so that not all of them lie beside their copies.
  Status Replace(Node& n, size_t at, Value* made) {
    const Value* weights = n.input(at);  // a node makes it of the codes
    INFER_TRY(ReplaceNode(editor_, n, made));
    ++taken_;
    while (weights && weights->is_dead()) {
      Node& unread = *weights->producer();
      const Value* const before = unread.input(0);
      weights = before->producer() ? before : nullptr;  // a constant goes with its last reader
      editor_.Erase(unread);
    }
    return {};
  }

  Graph& g_;
  GraphEditor editor_;
  std::map<std::pair<const Node*, bool>, Constants> made_;
  int taken_ = 0;
};

}  // namespace

Result<int> TakeBlockedWeights(Graph& g) {
  // Copies of constants are made; only graphs that have something to take pay for a look.
  if (std::none_of(g.nodes().begin(), g.nodes().end(),
                   [](const auto& n) { return n->Is(Trait::kDequantize); }))
    return 0;
  return Taker(g).Run();
}

}  // namespace infer
