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

/// The constants of the operator, and the panels that stand for them all.
struct WeightOnlyConstants {
  std::shared_ptr<WeightSource> codes, scales, zeros;  ///< zeros: nullptr where there are none
  std::shared_ptr<PackedMemory> memory;
  int bits = 0;  ///< of the codes in the file; those of 2 are packed as 4

  bool has_float_zeros() const { return zeros && zeros->dtype() == DType::kF32; }
  /// Codes of 2 bits move their zero points, which floats may round.
  bool give_back() const { return bits != 2; }

  Result<WeightSource::Form> Panels(const simd::WeightPanel& shape, int64_t columns) const {
    const std::string key = Cat("panels:", shape.block, ",", shape.blocks, ",", shape.bits, ",",
                                shape.zeros, ",", reinterpret_cast<uintptr_t>(scales.get()), ",",
                                reinterpret_cast<uintptr_t>(zeros.get()));
    if (auto known = codes->Find(key)) return known;
    // Before the codes' source is locked.
    INFER_ASSIGN(const Tensor of_blocks, scales->Elements());
    Tensor points;
    if (zeros) {
      INFER_ASSIGN(points, zeros->Elements());
    }
    PackedCodes from{.columns = columns, .bits = bits};
    from.scales = of_blocks.data<float>();
    if (has_float_zeros())
      from.float_zeros = points.data<float>();
    else if (zeros)
      from.byte_zeros = points.data<uint8_t>();
    const auto pack = [&](const Tensor& elements) -> Result<WeightSource::Form> {
      from.codes = elements.data<uint8_t>();
      std::optional<WidenedCodes> widened;
      if (bits == 2) widened.emplace(from, shape.blocks);
      return PackWeights(from, shape, *memory);
    };
    if (!give_back()) return codes->Get(key, pack);
    INFER_ASSIGN(auto form,
                 codes->Get(key, pack, Back(shape, columns, *codes, [](auto& to, auto& t) {
                              to.codes = t.template mutable_data<uint8_t>();
                            })));
    scales->HeldBy(form, Back(shape, columns, *scales, [](auto& to, auto& t) {
                     to.scales = t.template mutable_data<float>();
                   }));
    if (has_float_zeros())
      zeros->HeldBy(form, Back(shape, columns, *zeros, [](auto& to, auto& t) {
                      to.float_zeros = t.template mutable_data<float>();
                    }));
    else if (zeros)
      zeros->HeldBy(form, Back(shape, columns, *zeros, [](auto& to, auto& t) {
                      to.byte_zeros = t.template mutable_data<uint8_t>();
                    }));
    return form;
  }

 private:
  /// `set` names which part of the panels is wanted.
  template <typename F>
  static WeightSource::UnpackFn Back(const simd::WeightPanel& shape, int64_t columns,
                                     const WeightSource& source, const F& set) {
    return [=, dtype = source.dtype(), dims = source.dims()](const Buffer& form) {
      Tensor elements = Tensor::Zeros(dtype, dims);
      UnpackedCodes to;
      set(to, elements);
      UnpackWeights(form.data(), shape, columns, to);
      return Result<Tensor>(std::move(elements));
    };
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
    w_.bits = static_cast<int>(n.Attr<int64_t>("bits"));
    p_.shape.bits = std::max(w_.bits, 4);
    p_.shape.zeros = n.input(kZeros) != nullptr;
    w_.codes = call.source(n.input(kB));
    w_.scales = call.source(n.input(kScales));
    if (n.input(kZeros)) w_.zeros = call.source(n.input(kZeros));
    w_.memory = call.plan.packed;
  }

  bool packs(int operand) const override {
    return w_.give_back() &&
           std::find(constants_.begin(), constants_.end(), operand) != constants_.end();
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
    INFER_ASSIGN(const auto weights, w_.Panels(product.shape, product.columns));
    Prepared p;
    p.name = Cat("own:", product.integers ? "int8 x " : "f32 x ", "int", w_.bits, ":",
                 product.table->isa);
    p.scratch_bytes = product.scratch_bytes();
    p.weight_bytes = static_cast<int64_t>(weights->size());
    p.accumulate = product.appended.residual;
    p.unused.assign(in.size(), false);
    for (int i : constants_)
      if (i >= 0) p.unused[static_cast<size_t>(i)] = true;
    const int at = a_, bias = bias_;
    const size_t y = in.size();
    p.launch = LaunchOf([product, at, bias, y, weights](std::byte* const* args) {
      product.Run(As<float>(static_cast<const std::byte*>(args[at])), weights->data(),
                  bias >= 0 ? As<float>(static_cast<const std::byte*>(args[bias])) : nullptr,
                  As<float>(args[y]), args[y + 1]);
    });
    return p;
  }

 private:
  WeightOnlyProduct p_;  ///< without rows
  WeightOnlyConstants w_;
  int a_ = -1, bias_ = -1;
  std::vector<int> constants_;
};

std::unique_ptr<Kernel> MakeWeightOnly(const StepCall& call) {
  return std::make_unique<WeightOnlyKernel>(call);
}

}  // namespace

KernelList WeightOnlyKernels() {
  return {{"MatMulNBits", "com.microsoft", "weight-only", RefuseWeightOnly, MakeWeightOnly}};
}

}  // namespace infer
