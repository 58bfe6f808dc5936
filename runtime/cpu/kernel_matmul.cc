/// MatMul and Gemm through oneDNN: constant weights packed once, bias and epilogue folded.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/epilogue.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/launch.h"
#include "runtime/cpu/packed.h"

namespace infer {
namespace {

using onednn::Arg;
using onednn::Binding;
using onednn::Spec;

/// C of Gemm as [N] or a scalar row; nullopt when it is neither.
bool IsBiasOfGemm(const Value& c) {
  const Shape& s = c.shape();
  if (!s.has_rank() || s.rank() < 1 || s.rank() > 2) return false;
  return s.rank() == 1 || s[0] == Dim(1);
}

std::string RefuseMatMul(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  if (n.Is("Gemm")) {
    if (n.Attr<float>("alpha") != 1 && !call.constant(n.input(1)))
      return "alpha is not 1 and B is not constant";
    if (const Value* c = n.input(2)) {
      if (!IsBiasOfGemm(*c)) return "C is not one row";
      if (n.Attr<float>("beta") != 1 && !call.constant(c))
        return "beta is not 1 and C is not constant";
    }
  }
  auto e = DecodeEpilogue(call, !n.input(2));
  return e.ok() ? "" : e.status().message();
}

class MatMulKernel final : public Kernel {
 public:
  explicit MatMulKernel(const StepCall& call)
      : gemm_(call.main().Is("Gemm")),
        a_(call.operand(call.main().input(0))),
        b_(call.operand(call.main().input(1))),
        bias_(call.operand(call.main().input(2))),
        epilogue_(*DecodeEpilogue(call, bias_ < 0)) {
    const Node& n = call.main();
    if (bias_ < 0) bias_ = epilogue_.bias;
    if (gemm_) {
      trans_a_ = n.Attr<int64_t>("transA") != 0;
      trans_b_ = n.Attr<int64_t>("transB") != 0;
      alpha_ = n.Attr<float>("alpha");
      if (n.input(2)) beta_ = n.Attr<float>("beta");
    }
    if (const Tensor* w = call.constant(n.input(1))) weights_ = Scaled(*w, alpha_);
    if (bias_ >= 0)
      if (const Tensor* c = call.constant(
              call.plan.values[static_cast<size_t>(call.step.inputs[static_cast<size_t>(bias_)])]))
        bias_constant_ = Scaled(*c, beta_);
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Operand& a = in[static_cast<size_t>(a_)];
    const Operand& b = in[static_cast<size_t>(b_)];
    if (a_ == b_ && weights_.defined()) return Unsupported("both operands are one constant");
    if (epilogue_.residual >= 0 && in[static_cast<size_t>(epilogue_.residual)].dims != out[0].dims)
      return Unsupported("the residual is broadcast");
    onednn::MatMulSpec s;
    INFER_TRY(Shapes(a, b, out[0], s));
    if (bias_ >= 0) {
      const Dims& bias = in[static_cast<size_t>(bias_)].dims;
      if (bias.empty() || bias.back() != s.dst.dims.back())
        return Unsupported("the bias is broadcast");
      s.bias = {DType::kF32, Dims(s.dst.dims.size(), 1)};
      s.bias.dims.back() = bias.back();
    }
    INFER_ASSIGN(const onednn::Made made, onednn::MakeMatMul(s, {.post_ops = epilogue_.ops}));
    return Bind(in, s, made);
  }

 private:
  static Tensor Scaled(const Tensor& t, float factor) {
    if (factor == 1) return t;
    Tensor scaled = t.Clone();
    for (float& v : scaled.mutable_data<float>()) v *= factor;
    return scaled;
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
    if (bd.size() == 2 && !trans_a_) {
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
    if (trans_a_) Transpose(s.src);
    if (trans_b_) Transpose(s.weights);
    dd[dd.size() - 2] = s.src.dims[s.src.dims.size() - 2];
    dd.back() = s.weights.dims.back();
    s.dst = {DType::kF32, dd};
    if (NumElements(dd) != NumElements(out.dims)) return Unsupported("extents do not fit");
    s.weights.any = weights_.defined();
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
    p.accumulate = epilogue_.residual;
    std::vector<Binding> bindings = {{Arg::kSrc, a_}, {Arg::kDst, static_cast<int>(in.size())}};
    if (weights_.defined()) {
      INFER_ASSIGN(auto packed, packed_.Get(s.weights, weights_, made.weights));
      p.weight_bytes = static_cast<int64_t>(packed->size());
      p.unused[static_cast<size_t>(b_)] = true;
      bindings.push_back({Arg::kWeights, -1, packed});
    } else {
      bindings.push_back({Arg::kWeights, b_});
    }
    if (bias_constant_.defined()) {
      p.unused[static_cast<size_t>(bias_)] = true;
      bindings.push_back({Arg::kBias, -1, bias_constant_.buffer()});
    } else if (bias_ >= 0) {
      bindings.push_back({Arg::kBias, bias_});
    }
    p.launch = MakeLaunch(made, std::move(bindings), static_cast<int>(in.size()) + 1);
    return p;
  }

  bool gemm_;
  int a_, b_, bias_;
  Epilogue epilogue_;
  bool trans_a_ = false, trans_b_ = false;
  float alpha_ = 1, beta_ = 1;
  Tensor weights_, bias_constant_;  // undefined: not constant
  PackedCache packed_;
};

std::unique_ptr<Kernel> MakeMatMulKernel(const StepCall& call) {
  return std::make_unique<MatMulKernel>(call);
}

}  // namespace

KernelList MatMulKernels() {
  return {{"MatMul", "", "onednn", RefuseMatMul, MakeMatMulKernel},
          {"Gemm", "", "onednn", RefuseMatMul, MakeMatMulKernel}};
}

}  // namespace infer
