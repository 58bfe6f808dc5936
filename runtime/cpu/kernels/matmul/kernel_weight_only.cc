/// MatMulNBits: products with constant weights of 2, 4 and 8 bits, bias and epilogue folded.
/// accuracy_level 4 multiplies in integers (level 2 of CompileOptions), all else in f32.
#include <algorithm>
#include <optional>
#include <vector>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/epilogue.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/matmul/weight_only.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

enum Input : size_t { kA, kB, kScales, kZeros, kGroups, kBias };

std::string RefuseWeightOnly(const StepCall& call) {
  const Node& n = call.main();
  for (const Value* v : {n.input(kA), n.input(kScales), n.input(kBias)})
    if (v && !IsF32(v)) return Cat("operand '", v->name(), "' is ", ToString(v->type()));
  for (size_t i : {kB, kScales, kZeros})
    if (n.input(i) && !call.constant(n.input(i)))
      return Cat("operand '", n.input(i)->name(), "' is not constant");
  if (n.input(kGroups)) return "g_idx is given";
  if (n.input(kZeros) && n.input(kZeros)->dtype() != DType::kU8 && !IsF32(n.input(kZeros)))
    return "zero points are of another type";
  const int64_t bits = n.Attr<int64_t>("bits"), block = n.Attr<int64_t>("block_size");
  if (bits != 2 && bits != 4 && bits != 8) return Cat("bits is ", bits);
  if (block < 16 || block > 256 || block % 16 != 0) return Cat("block_size is ", block);
  auto e = DecodeEpilogue(call, !n.input(kBias));
  if (!e.ok()) return e.status().message();
  const auto appended = Appended::Of(call, *e);
  if (!appended.ok()) return appended.status().message();
  return appended->residual_last ? "the residual follows the activation" : "";
}

/// Codes of 2 bits as codes of 4: the middle, 2, becomes 8, and every zero point moves with it.
struct WidenedCodes {
  static constexpr uint8_t kMove = 6;
  std::vector<uint8_t> codes, byte_zeros;
  std::vector<float> float_zeros;

  WidenedCodes(PackedCodes& from, int64_t blocks) {
    codes.reserve(from.codes.size() * 2);
    for (const uint8_t byte : from.codes)
      for (const int low : {0, 4})
        codes.push_back(static_cast<uint8_t>(((byte >> low & 3) + kMove) |
                                             ((byte >> (low + 2) & 3) + kMove) << 4));
    const int64_t bytes = BlocksOf(blocks * 2, 8);
    byte_zeros.assign(
        from.byte_zeros.empty() ? 0 : static_cast<size_t>(from.columns * BlocksOf(blocks * 4, 8)),
        0);
    for (int64_t c = 0; c < from.columns && !byte_zeros.empty(); ++c)
      for (int64_t b = 0; b < blocks; ++b) {
        const int zero = from.byte_zeros[static_cast<size_t>(c * bytes + b / 4)] >> (b % 4 * 2) & 3;
        byte_zeros[static_cast<size_t>(c * BlocksOf(blocks * 4, 8) + b / 2)] |=
            static_cast<uint8_t>((zero + kMove) << (b % 2 * 4));
      }
    for (const float z : from.float_zeros) float_zeros.push_back(z + kMove);
    from.codes = codes;
    from.byte_zeros = byte_zeros;
    from.float_zeros = float_zeros;
    from.bits = 4;
  }
};

class WeightOnlyKernel final : public Kernel {
 public:
  explicit WeightOnlyKernel(const StepCall& call) {
    const Node& n = call.main();
    const Epilogue epilogue = *DecodeEpilogue(call, !n.input(kBias));
    a_ = call.operand(n.input(kA));
    for (size_t i : {kB, kScales, kZeros}) constants_.push_back(call.operand(n.input(i)));
    bias_ = n.input(kBias) ? call.operand(n.input(kBias)) : epilogue.bias;
    p_.table = &simd::TheWeightOnly();
    p_.appended = *Appended::Of(call, epilogue);
    p_.integers = call.options.level >= 2 && n.Attr<int64_t>("accuracy_level") == 4;
    p_.depth = n.Attr<int64_t>("K");
    p_.columns = n.Attr<int64_t>("N");
    p_.shape.block = n.Attr<int64_t>("block_size");
    p_.shape.blocks = BlocksOf(p_.depth, p_.shape.block);
    p_.shape.bits = bits_ = static_cast<int>(n.Attr<int64_t>("bits"));
    p_.shape.zeros = n.input(kZeros) != nullptr;
    PackedCodes from{.columns = p_.columns, .bits = p_.shape.bits};
    from.codes = call.constant(n.input(kB))->data<uint8_t>();
    from.scales = call.constant(n.input(kScales))->data<float>();
    if (const Value* z = n.input(kZeros)) {
      if (z->dtype() == DType::kU8)
        from.byte_zeros = call.constant(z)->data<uint8_t>();
      else
        from.float_zeros = call.constant(z)->data<float>();
    }
    std::optional<WidenedCodes> widened;
    if (from.bits == 2) widened.emplace(from, p_.shape.blocks);
    p_.shape.bits = from.bits;
    weights_ = PackWeights(from, p_.shape, *call.plan.packed);
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Dims& a = in[static_cast<size_t>(a_)].dims;
    if (a.back() != p_.depth) return Unsupported("extents do not fit");
    WeightOnlyProduct product = p_;
    product.rows = NumElements(a) / a.back();
    if (product.appended.residual >= 0 &&
        in[static_cast<size_t>(product.appended.residual)].dims != out[0].dims)
      return Unsupported("the residual is broadcast");
    if (bias_ >= 0 && NumElements(in[static_cast<size_t>(bias_)].dims) != product.columns)
      return Unsupported("the bias is broadcast");
    Prepared p;
    p.name =
        Cat("own:", product.integers ? "int8 x " : "f32 x ", "int", bits_, ":", product.table->isa);
    p.scratch_bytes = product.scratch_bytes();
    p.weight_bytes = static_cast<int64_t>(weights_->size());
    p.accumulate = product.appended.residual;
    p.unused.assign(in.size(), false);
    for (int i : constants_)
      if (i >= 0) p.unused[static_cast<size_t>(i)] = true;
    const int at = a_, bias = bias_;
    const size_t y = in.size();
    p.launch = LaunchOf([product, at, bias, y, weights = weights_](std::byte* const* args) {
      product.Run(As<float>(static_cast<const std::byte*>(args[at])), weights->data(),
                  bias >= 0 ? As<float>(static_cast<const std::byte*>(args[bias])) : nullptr,
                  As<float>(args[y]), args[y + 1]);
    });
    return p;
  }

 private:
  WeightOnlyProduct p_;  ///< without rows
  int bits_ = 0;         ///< of the file; those of 2 are packed as 4
  int a_ = -1, bias_ = -1;
  std::vector<int> constants_;
  std::shared_ptr<const Buffer> weights_;
};

std::unique_ptr<Kernel> MakeWeightOnly(const StepCall& call) {
  return std::make_unique<WeightOnlyKernel>(call);
}

}  // namespace

KernelList WeightOnlyKernels() {
  return {{"MatMulNBits", "com.microsoft", "weight-only", RefuseWeightOnly, MakeWeightOnly}};
}

}  // namespace infer
