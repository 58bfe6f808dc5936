/// MatMulNBits: products with constant weights of 2, 4 and 8 bits, decoded where they are
/// multiplied, with a bias and what follows in the same dispatch.
#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/functions.h"
#include "runtime/vulkan/kernels/kernels.h"

namespace infer::vulkan {
namespace {

enum BitsInput : size_t { kBitsA, kBitsB, kBitsScales, kBitsZeros, kBitsGroups, kBitsBias };
/// From here on sums are made of parts.
constexpr int64_t kLongBits = 1024;

std::string RefuseBits(const StepCall& call, const DeviceFacts&) {
  const Node& n = call.main();
  for (size_t i : {kBitsA, kBitsScales, kBitsBias})
    if (const Value* v = n.input(i); v && !IsF32(v))
      return Cat("operand '", v->name(), "' is ", ToString(v->type()));
  for (size_t i : {kBitsB, kBitsScales, kBitsZeros})
    if (n.input(i) && !call.constant(n.input(i)))
      return Cat("operand '", n.input(i)->name(), "' is not constant");
  if (n.input(kBitsGroups)) return "g_idx is given";
  if (const Value* z = n.input(kBitsZeros); z && z->dtype() != DType::kU8 && !IsF32(z))
    return "zero points are of another type";
  const int64_t bits = n.Attr<int64_t>("bits"), block = n.Attr<int64_t>("block_size");
  if (bits != 2 && bits != 4 && bits != 8) return Cat("bits is ", bits);
  if (block < 16 || block % 16 != 0) return Cat("block_size is ", block);
  const auto tail = TailOf(call, !n.input(kBitsBias));
  return tail.ok() ? "" : tail.status().message();
}

class BitsKernel final : public Kernel {
 public:
  BitsKernel(const StepCall& call, Facts facts)
      : facts_(std::move(facts)), tail_(*TailOf(call, !call.main().input(kBitsBias))) {
    const Node& n = call.main();
    for (size_t i = 0; i <= kBitsBias; ++i) at_.push_back(call.operand(n.input(i)));
    if (at_[kBitsBias] < 0) at_[kBitsBias] = tail_.bias;
    k_ = n.Attr<int64_t>("K");
    n_ = n.Attr<int64_t>("N");
    bits_ = n.Attr<int64_t>("bits");
    block_ = n.Attr<int64_t>("block_size");
    blocks_ = (k_ + block_ - 1) / block_;
    const Value* z = n.input(kBitsZeros);
    zeros_ = !z ? 0 : z->dtype() == DType::kU8 ? 1 : 2;
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const auto dims = [&](int i) -> const Dims& { return in[static_cast<size_t>(i)].dims; };
    if (dims(at_[kBitsA]).back() != k_) return Unsupported("extents do not fit");
    if (tail_.residual >= 0 && dims(tail_.residual) != out[0].dims)
      return Unsupported("the residual broadcasts");
    if (at_[kBitsBias] >= 0 && NumElements(dims(at_[kBitsBias])) != n_)
      return Unsupported("the bias broadcasts");
    const int64_t m = NumElements(dims(at_[kBitsA])) / k_;
    INFER_ASSIGN(const int64_t per_part,
                 RowsOfAPart(*facts_, n_, {code_bytes(), scale_bytes(), zero_bytes()}));
    LaunchBuilder b(facts_, in, out);
    std::string name;
    for (int64_t begin = 0; begin < n_; begin += per_part)
      name = AddPart(m, begin, std::min(per_part, n_ - begin), b);
    return b.Finish(Cat(name, per_part < n_ ? "_parts" : ""));
  }

 private:
  /// Of a row of weights.
  int64_t code_bytes() const { return blocks_ * block_ * bits_ / 8; }
  int64_t scale_bytes() const { return blocks_ * 4; }
  int64_t zero_bytes() const {
    return zeros_ == 1 ? (blocks_ * bits_ + 7) / 8 : zeros_ == 2 ? scale_bytes() : kPartAlignment;
  }

  /// `n` rows of the weights from `first` on, which are columns of the result. The shader's name.
  std::string AddPart(int64_t m, int64_t first, int64_t n, LaunchBuilder& b) const {
    const bool few = m <= 4;
    Tiling t = TilingOf(*facts_, m, n, k_, 1, false);
    if (few) {
      t = {};
      t.tiles_m = m;
      t.tiles_n = n;
    }
    b.Iterations(few ? k_ / 64 + kFewRounds : TileRounds(t.tile, k_));
    Push push;
    push.U(m).U(n).U(k_).U(t.tiles_m).U(t.tiles_n);
    push.U(k_).U(1).U(block_).U(blocks_);
    push.List({}, 2, 1).List({}, 2, 0).List({}, 2, 0);
    push.U(0).U(at_[kBitsBias] >= 0).F(1).F(1);
    if (!few) push.U(k_);
    push.U(0).U(n_).U(first);
    tail_.Add(push);
    std::vector<int32_t> constants = tail_.Constants();
    constants.push_back(at_[kBitsBias] >= 0);
    for (int64_t c : {few ? int64_t{1} : int64_t{k_ > kLongBits ? 1 : 0}, int64_t{0}, int64_t{0},
                      bits_, zeros_})
      constants.push_back(static_cast<int32_t>(c));
    const auto part = [&](int operand, int64_t row_bytes) {
      return b.Part(b.Read(operand), first * row_bytes, n * row_bytes);
    };
    const int a = at_[kBitsA];
    const auto zeros = zeros_ ? part(at_[kBitsZeros], zero_bytes()) : b.Read(a);
    const std::string shader = few ? "bits_gemv" : Cat("bits", t.suffix());
    b.Dispatch(
        shader, std::move(constants),
        {b.Read(a), part(at_[kBitsB], code_bytes()), b.ReadOr(at_[kBitsBias], a),
         b.ReadOr(tail_.residual, a), b.Write(), part(at_[kBitsScales], scale_bytes()), zeros},
        push, t.groups());
    return shader;
  }

  Facts facts_;
  Tail tail_;
  std::vector<int> at_;  // operands by BitsInput
  int64_t k_ = 0, n_ = 0, bits_ = 4, block_ = 0, blocks_ = 0, zeros_ = 0;
};

std::unique_ptr<Kernel> MakeBits(const StepCall& call, const Facts& facts) {
  return std::make_unique<BitsKernel>(call, facts);
}

}  // namespace

KernelList MatMulBitsKernels(const Facts& facts) {
  return {Def(facts, "MatMulNBits", "com.microsoft", "bits", RefuseBits, MakeBits)};
}

}  // namespace infer::vulkan
