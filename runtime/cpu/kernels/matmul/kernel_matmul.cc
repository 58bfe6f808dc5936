/// MatMul and Gemm, constant weights packed once, bias and epilogue folded: many rows and constant
/// weights by our own product, all else through oneDNN.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/bf16.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/matmul/matmul_parts.h"
#include "runtime/cpu/kernels/matmul/panel_gemm.h"
#include "runtime/cpu/kernels/matmul/strassen_gemm.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

using onednn::Arg;
using onednn::Binding;
using onednn::Spec;

std::string RefuseBf16MatMul(const StepCall& call) {
  if (std::string r = RefuseMatMul(call); !r.empty()) return r;
  if (std::string r = RefuseBf16(call); !r.empty()) return r;
  if (call.constant(call.main().input(1))->rank() != 2) return "B is no matrix";
  return MatMulParts::TurnsA(call.main()) ? "A is transposed" : "";
}

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const StepCall& call, Numbers numbers)
      : node_(call.main()),
        p_(call),
        numbers_(numbers),
        result_in_bf16_(numbers != Numbers::kF32 && call.plan.lies_in_bf16(call.step.outputs[0])) {
    p_.TakeWeights(call);
    if (numbers == Numbers::kRounded)
      p_.weights = std::make_shared<WeightSource>(RoundedToBf16(*call.constant(node_.input(1))));
  }

  bool packs(int operand) const override { return numbers_ == Numbers::kF32 && p_.packs(operand); }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Operand& a = in[static_cast<size_t>(p_.a)];
    const Operand& b = in[static_cast<size_t>(p_.b)];
    if (p_.a == p_.b && p_.weights) return Unsupported("both operands are one constant");
    if (p_.epilogue.residual >= 0 &&
        in[static_cast<size_t>(p_.epilogue.residual)].dims != out[0].dims)
      return Unsupported("the residual is broadcast");
    if (numbers_ != Numbers::kF32) {
      if (a.dims.size() < 2) return Unsupported("A is a vector");
      INFER_TRY(CheckPaysInBf16(node_, a.dims, b.dims, out[0].dims));
    }
    onednn::MatMulSpec s;
    INFER_TRY(Shapes(a, b, out[0], s));
    s.src.bf16 = s.weights.bf16 = numbers_ == Numbers::kBf16;
    s.dst.bf16 = s.src.bf16 && result_in_bf16_;
    if (p_.bias >= 0) {
      const Dims& bias = in[static_cast<size_t>(p_.bias)].dims;
      if (bias.empty() || bias.back() != s.dst.dims.back())
        return Unsupported("the bias is broadcast");
      s.bias = {DType::kF32, Dims(s.dst.dims.size(), 1)};
      s.bias.dims.back() = bias.back();
    }
    INFER_ASSIGN(const onednn::Made made, onednn::MakeMatMul(s, {.post_ops = p_.epilogue.ops}));
    INFER_ASSIGN(Prepared p, Bind(in, s, made));
    if (numbers_ == Numbers::kBf16) SetBf16(in, out, p);
    if (numbers_ != Numbers::kRounded) return p;
    return WithRounding(std::move(p), static_cast<int>(in.size()), p_.a, a.plain_bytes(),
                        result_in_bf16_ ? out[0].plain_bytes() : 0);
  }

 private:
  /// Operand, result and residual as they lie then.
  void SetBf16(std::span<const Operand> in, std::span<const Operand> out, Prepared& p) const {
    p.precision = "bf16";
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(p_.a)] = onednn::PlainBf16(in[static_cast<size_t>(p_.a)].dims);
    if (!result_in_bf16_) return;
    p.out_layouts = {onednn::PlainBf16(out[0].dims)};
    if (p.accumulate >= 0) p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
  }

  /// src [batch.., M, K], weights [batch.., K, N], dst [batch.., M, N]; a weight matrix without
  /// batch takes all rows at once.
  Status Shapes(const Operand& a, const Operand& b, const Operand& out,
                onednn::MatMulSpec& s) const {
    Dims ad = a.dims, bd = b.dims;
    if (ad.empty() || bd.empty()) return Unsupported("an operand is a scalar");
    if (ad.size() == 1) ad.insert(ad.begin(), 1);
    if (bd.size() == 1) bd.push_back(1);
    const size_t rank = std::max(ad.size(), bd.size());
    if (bd.size() == 2 && !p_.trans_a) {
      const int64_t k = ad.back();
      ad = {NumElements(ad) / k, k};
    } else {
      ad.insert(ad.begin(), rank - ad.size(), 1);
      bd.insert(bd.begin(), rank - bd.size(), 1);
    }
    Dims dd = ad;
    for (size_t i = 0; i + 2 < dd.size(); ++i) dd[i] = std::max(ad[i], bd[i]);
    s.src = {DType::kF32, ad};
    s.weights = {DType::kF32, bd};
    if (p_.trans_a) Transpose(s.src);
    if (p_.trans_b) Transpose(s.weights);
    dd[dd.size() - 2] = s.src.dims[s.src.dims.size() - 2];
    dd.back() = s.weights.dims.back();
    s.dst = {DType::kF32, dd};
    if (NumElements(dd) != NumElements(out.dims)) return Unsupported("extents do not fit");
    s.weights.any = p_.weights != nullptr;
    return {};
  }

  static void Transpose(Spec& s) {
    s.strides = Strides(s.dims);
    std::swap(s.dims[s.dims.size() - 1], s.dims[s.dims.size() - 2]);
    std::swap(s.strides[s.dims.size() - 1], s.strides[s.dims.size() - 2]);
  }

  Result<Prepared> Bind(std::span<const Operand> in, const onednn::MatMulSpec& s,
                        const onednn::Made& made) const {
    Prepared p;
    p.name = made.name;
    p.scratch_bytes = made.scratch_bytes;
    p.unused.assign(in.size(), false);
    p.accumulate = p_.epilogue.residual;
    std::vector<Binding> bindings = {{Arg::kSrc, p_.a}, {Arg::kDst, static_cast<int>(in.size())}};
    if (p_.weights) {
      INFER_ASSIGN(const auto packed, PackedFor(*p_.weights, s.weights, made.weights));
      p.weight_bytes = static_cast<int64_t>(packed->size());
      p.unused[static_cast<size_t>(p_.b)] = true;
      bindings.push_back({Arg::kWeights, -1, packed});
    } else {
      bindings.push_back({Arg::kWeights, p_.b});
    }
    if (p_.bias_constant.defined()) {
      p.unused[static_cast<size_t>(p_.bias)] = true;
      bindings.push_back({Arg::kBias, -1, p_.bias_constant.buffer()});
    } else if (p_.bias >= 0) {
      bindings.push_back({Arg::kBias, p_.bias});
    }
    p.launch = MakeLaunch(made, std::move(bindings), static_cast<int>(in.size()) + 1);
    return p;
  }

  const Node& node_;
  MatMulParts p_;
  Numbers numbers_;
  bool result_in_bf16_;
};

std::unique_ptr<Kernel> MakeMatMulKernel(const StepCall& call) {
  return std::make_unique<MatMulKernel>(call, Numbers::kF32);
}

std::unique_ptr<Kernel> MakeBf16MatMul(const StepCall& call) {
  return std::make_unique<MatMulKernel>(call, Bf16Numbers());
}

std::string RefusePanels(const StepCall& call) {
  if (std::string r = RefuseMatMul(call); !r.empty()) return r;
  if (!simd::ThePanels()) return "no kernel for this instruction set";
  const MatMulParts p(call);
  if (!p.constant || p.constant->size() != 2) return "B is no constant matrix";
  if (p.trans_a) return "A is transposed";
  const auto appended = Appended::Of(call, p.epilogue);
  if (!appended.ok()) return appended.status().message();
  return appended->residual_last ? "the residual follows the activation" : "";
}

std::string RefuseStrassen(const StepCall& call) {
  if (call.options.level < 2) return "it changes rounding (level 2)";
  return RefusePanels(call);
}

/// `Gemm`: PanelGemm or StrassenGemm.
template <typename Gemm>
class OwnGemmKernel final : public Kernel {
 public:
  explicit OwnGemmKernel(const StepCall& call)
      : p_(call),
        appended_(*Appended::Of(call, p_.epilogue)),
        threads_(call.options.threads > 0 ? call.options.threads : LaneBudget()),
        low_memory_(call.options.low_memory) {
    p_.TakeWeights(call);
  }

  bool packs(int operand) const override { return p_.packs(operand); }
  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Dims& a = in[static_cast<size_t>(p_.a)].dims;
    if (p_.a == p_.b || a.size() < 2) return Unsupported("operands");
    if (appended_.residual >= 0 && in[static_cast<size_t>(appended_.residual)].dims != out[0].dims)
      return Unsupported("the residual is broadcast");
    const Dims& w = p_.weights->dims();
    const int64_t k = p_.trans_b ? 1 : 0;
    Gemm gemm{simd::ThePanels(), appended_, NumElements(a) / a.back(), a.back(),
              w[static_cast<size_t>(1 - k)]};
    if constexpr (std::is_same_v<Gemm, StrassenGemm>) {
      gemm.lanes = threads_;
      gemm.kept = MayKeepSums(in[static_cast<size_t>(p_.a)], gemm.rows, low_memory_);
    }
    if (!gemm.Pays()) return Unsupported("the product is too small");
    if (p_.bias >= 0) {
      const Dims& bias = in[static_cast<size_t>(p_.bias)].dims;
      if (NumElements(bias) != gemm.columns || bias.back() != gemm.columns)
        return Unsupported("the bias is broadcast");
    }
    INFER_ASSIGN(const auto weights, Packed(gemm, p_.trans_b ? 1 : w[1], p_.trans_b ? w[1] : 1));
    Prepared p;
    p.name = gemm.name();
    p.scratch_bytes = gemm.scratch_bytes();
    p.weight_bytes = static_cast<int64_t>(weights->size());
    p.accumulate = appended_.residual;
    p.unused.assign(in.size(), false);
    p.unused[static_cast<size_t>(p_.b)] = true;
    const Tensor constant = p_.bias_constant;
    if (constant.defined()) p.unused[static_cast<size_t>(p_.bias)] = true;
    const int at = p_.a, bias = p_.bias;
    const size_t y = in.size();
    p.launch = LaunchOf([=](std::byte* const* args) {
      const std::byte* b = constant.defined() ? constant.raw() : bias >= 0 ? args[bias] : nullptr;
      gemm.Run(As<float>(static_cast<const std::byte*>(args[at])), As<float>(weights->data()),
               As<float>(b), As<float>(args[y]), As<float>(args[y + 1]));
    });
    return p;
  }

 private:
  /// Panels are one form, whoever multiplies by them.
  Result<WeightSource::Form> Packed(const Gemm& gemm, int64_t k_stride, int64_t n_stride) const {
    const auto pack = [&](const Tensor& from) -> Result<WeightSource::Form> {
      return gemm.Pack(from.data<float>().data(), k_stride, n_stride);
    };
    const std::string strides = Cat(k_stride, ",", n_stride);
    if constexpr (std::is_same_v<Gemm, StrassenGemm>) {
      if (gemm.kept) return p_.weights->Get(Cat("strassen:", strides), pack);
      return p_.weights->Get(Cat("panels:", strides), pack,
                             Unpacking(gemm.plain(), k_stride, n_stride, p_.weights->dims()));
    } else {
      return p_.weights->Get(Cat("panels:", strides), pack,
                             Unpacking(gemm, k_stride, n_stride, p_.weights->dims()));
    }
  }

  MatMulParts p_;
  Appended appended_;
  int threads_;
  bool low_memory_;
};

template <typename Gemm>
std::unique_ptr<Kernel> MakeOwnGemm(const StepCall& call) {
  return std::make_unique<OwnGemmKernel<Gemm>>(call);
}

}  // namespace

KernelList Bf16MatMulKernels() {
  return {{"MatMul", "", kBf16Kernel, RefuseBf16MatMul, MakeBf16MatMul},
          {"Gemm", "", kBf16Kernel, RefuseBf16MatMul, MakeBf16MatMul}};
}

KernelList MatMulKernels() {
  return {{"MatMul", "", "strassen", RefuseStrassen, MakeOwnGemm<StrassenGemm>},
          {"Gemm", "", "strassen", RefuseStrassen, MakeOwnGemm<StrassenGemm>},
          {"MatMul", "", "panels", RefusePanels, MakeOwnGemm<PanelGemm>},
          {"Gemm", "", "panels", RefusePanels, MakeOwnGemm<PanelGemm>},
          {"MatMul", "", "onednn", RefuseMatMul, MakeMatMulKernel},
          {"Gemm", "", "onednn", RefuseMatMul, MakeMatMulKernel}};
}

}  // namespace infer
