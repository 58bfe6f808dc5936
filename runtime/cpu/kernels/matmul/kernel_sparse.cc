/// MatMul, Gemm and Conv 1x1 by weights most of which are zero. Chosen where counted work says that
/// it gains over the best dense kernel. `infer-bench kernels M.onnx --alternatives --threads 1`
/// shows the times of both; figures: docs/pruning.md, docs/adr/0044-sparse-products.md.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/common/zero_share.h"
#include "runtime/cpu/kernels/matmul/matmul_parts.h"
#include "runtime/cpu/kernels/matmul/sparse_choice.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {
namespace {

std::string RefuseSparseEpilogue(const StepCall& call, const Epilogue& epilogue) {
  const auto appended = Appended::Of(call, epilogue);
  if (!appended.ok()) return appended.status().message();
  return appended->residual_last ? "the residual follows the activation" : "";
}

int LanesFor(const StepCall& call) {
  return call.options.threads > 0 ? call.options.threads : LaneBudget();
}

/// Where the operands of the launch are.
struct SparseOperands {
  int x, bias;
  Tensor bias_constant;
};

void BindSparse(const SparseProduct& product, const SparseOperands& at, Prepared& p) {
  p.name = product.name();
  p.scratch_bytes = product.scratch_bytes();
  p.weight_bytes = product.w->bytes();
  p.accumulate = product.appended.residual;
  if (at.bias_constant.defined()) p.unused[static_cast<size_t>(at.bias)] = true;
  const size_t y = p.unused.size();
  p.launch = LaunchOf([=](std::byte* const* args) {
    const std::byte* const bias = at.bias_constant.defined() ? at.bias_constant.raw()
                                  : at.bias >= 0             ? args[at.bias]
                                                             : nullptr;
    product.Run(As<float>(static_cast<const std::byte*>(args[at.x])), As<float>(bias),
                As<float>(args[y]), As<float>(args[y + 1]));
  });
}

std::string RefuseSparseMatMul(const StepCall& call) {
  if (std::string r = RefuseMatMul(call); !r.empty()) return r;
  if (!simd::TheSparse()) return "no kernel for this instruction set";
  const Tensor* const weights = call.constant(call.main().input(1));
  if (!weights || weights->rank() != 2) return "B is no constant matrix";
  if (MatMulParts::TurnsA(call.main())) return "A is transposed";
  return RefuseSparseEpilogue(call, *DecodeEpilogue(call, !call.main().input(2)));
}

class SparseMatMulKernel final : public Kernel {
 public:
  explicit SparseMatMulKernel(const StepCall& call)
      : p_(call),
        appended_(*Appended::Of(call, p_.epilogue)),
        choice_(call.options.level, LanesFor(call)) {
    p_.TakeWeights(call);
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Dims& a = in[static_cast<size_t>(p_.a)].dims;
    if (p_.a == p_.b || a.size() < 2) return Unsupported("operands");
    if (appended_.residual >= 0 && in[static_cast<size_t>(appended_.residual)].dims != out[0].dims)
      return Unsupported("the residual is broadcast");
    const Dims& d = p_.weights->dims();
    INFER_ASSIGN(const Tensor weights, p_.weights->Elements());
    const float* const from = weights.data<float>().data();
    const WeightMatrix w = p_.trans_b ? WeightMatrix{from, d[1], 1, d[0], d[1]}
                                      : WeightMatrix{from, d[0], d[1], d[1], 1};
    if (p_.bias >= 0) {
      const Dims& bias = in[static_cast<size_t>(p_.bias)].dims;
      if (NumElements(bias) != w.columns || bias.back() != w.columns)
        return Unsupported("the bias is broadcast");
    }
    INFER_ASSIGN(SparseProduct product,
                 choice_.Make(w, {1, NumElements(a) / a.back(), w.depth, w.columns}));
    product.appended = appended_;
    product.x = {0, w.depth, product.loops->lanes};
    product.y = {0, w.columns, product.loops->lanes};
    Prepared p;
    p.unused.assign(in.size(), false);
    p.unused[static_cast<size_t>(p_.b)] = true;
    BindSparse(product, {p_.a, p_.bias, p_.bias_constant}, p);
    return p;
  }

 private:
  MatMulParts p_;
  Appended appended_;
  SparseChoice choice_;
};

std::string RefuseSparseConv(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  if (!simd::TheSparse()) return "no kernel for this instruction set";
  const Node& n = call.main();
  const Tensor* const weights = call.constant(n.input(1));
  if (!weights) return "the weights are not constant";
  if (weights->rank() < 3) return "the weights have no window";
  if (std::any_of(weights->dims().begin() + 2, weights->dims().end(),
                  [](int64_t d) { return d != 1; }))
    return "the window is not 1x1";
  if (n.Attr<int64_t>("group") != 1) return "more than one group";
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const auto epilogue = DecodeEpilogue(call, false);
  return epilogue.ok() ? RefuseSparseEpilogue(call, *epilogue) : epilogue.status().message();
}

class SparseConvKernel final : public Kernel {
 public:
  explicit SparseConvKernel(const StepCall& call)
      : node_(call.main()),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        weights_(*call.constant(node_.input(1))),
        appended_(*Appended::Of(call, *DecodeEpilogue(call, false))),
        choice_(call.options.level, LanesFor(call)) {
    if (b_ >= 0) bias_ = *call.constant(node_.input(2));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    if (x_ == w_ || x_ == b_) return Unsupported("operand and weights are one value");
    const Operand& x = in[static_cast<size_t>(x_)];
    if (appended_.residual >= 0 && in[static_cast<size_t>(appended_.residual)].dims != out[0].dims)
      return Unsupported("the residual is broadcast");
    INFER_TRY(CheckPoints(x.dims, out[0].dims));
    const Dims& d = weights_.dims();
    const int64_t points = NumElements(x.dims) / x.dims[0] / d[1];
    const WeightMatrix w{weights_.data<float>().data(), d[1], 1, d[0], d[1]};
    INFER_ASSIGN(SparseProduct product,
                 choice_.Make(w, {1, x.dims[0] * points, w.depth, w.columns}));
    product.appended = appended_;
    const int lanes = product.loops->lanes;
    // oneDNN's neighbours prefer channels last with AVX-512, blocks of channels below.
    const bool whole = w.depth % lanes == 0 && w.columns % lanes == 0;
    const bool blocks = whole && (lanes == 8 ? x.layout != onednn::ChannelsLast(DType::kF32, x.dims)
                                             : x.layout == onednn::ChannelBlocked(x.dims, lanes));
    if (blocks) {
      product.shape.images = x.dims[0];
      product.shape.rows = points;
      product.x = {w.depth * points, lanes, points * lanes};
      product.y = {w.columns * points, lanes, points * lanes};
    } else {
      product.x = {0, w.depth, lanes};
      product.y = {0, w.columns, lanes};
    }
    const auto layout = [&](const Dims& dims) {
      return blocks ? onednn::ChannelBlocked(dims, lanes) : onednn::ChannelsLast(DType::kF32, dims);
    };
    Prepared p;
    p.unused.assign(in.size(), false);
    p.unused[static_cast<size_t>(w_)] = true;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x_)] = layout(x.dims);
    p.out_layouts = {layout(out[0].dims)};
    BindSparse(product, {x_, b_, bias_}, p);
    if (p.accumulate >= 0) p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    return p;
  }

 private:
  /// Each point of the result reads the same point of the operand.
  Status CheckPoints(const Dims& x, const Dims& y) const {
    INFER_ASSIGN(const Spatial s, SpatialOf(node_, Dims(x.size() - 2, 1), x, y, false));
    const auto all = [](const Dims& d, int64_t of) {
      return std::all_of(d.begin(), d.end(), [=](int64_t i) { return i == of; });
    };
    if (!all(s.strides, 1)) return Unsupported("the stride is not 1");
    if (!all(s.pads_begin, 0) || !all(s.pads_end, 0)) return Unsupported("padding");
    return {};
  }

  const Node& node_;
  int x_, w_, b_;
  Tensor weights_, bias_;
  Appended appended_;
  SparseChoice choice_;
};

template <typename K>
std::unique_ptr<Kernel> MakeSparse(const StepCall& call) {
  return std::make_unique<K>(call);
}

}  // namespace

bool HasManyZeros(const StepCall& call) {
  const Value* const v = call.main().input(1);
  const Tensor* const w = v ? call.constant(v) : nullptr;
  if (w && w->dtype() == DType::kF32 && w->num_elements() > 0) {
    const std::span<const float> floats = w->data<float>();
    return ShareOfSample(w->num_elements(), [&](int64_t i) {
             return floats[static_cast<size_t>(i)] == 0;
           }) >= kLeastZeros;
  }
  if (!ReadsDequantized(call.main())) return false;
  const auto group = DecodeQuantGroup(call);
  if (!group.ok() || group->inputs.size() < 2 || !group->inputs[1]) return false;
  const Tensor* const codes = group->inputs[1]->constant;
  if (!codes || codes->num_elements() == 0) return false;
  const QuantParams8& p = group->inputs[1]->params;
  // Codes in a row that have one zero point.
  int64_t alike = codes->num_elements();
  if (!p.per_tensor()) {
    alike = 1;
    for (auto d = static_cast<int>(p.axis < 0 ? p.axis + codes->rank() : p.axis);
         ++d < codes->rank();)
      alike *= codes->dim(d);
  }
  return ShareOfSample(codes->num_elements(), [&](int64_t i) {
           const auto channel = static_cast<size_t>(i / alike) % p.zero_points.size();
           return codes->IntAt(i) == p.zero_points[channel];
         }) >= kLeastZeros;
}

KernelList SparseKernels() {
  return {{"Conv", "", kSparseKernel, RefuseSparseConv, MakeSparse<SparseConvKernel>},
          {"MatMul", "", kSparseKernel, RefuseSparseMatMul, MakeSparse<SparseMatMulKernel>},
          {"Gemm", "", kSparseKernel, RefuseSparseMatMul, MakeSparse<SparseMatMulKernel>}};
}

}  // namespace infer
