/// Integer kernels of DQ -> Conv 1x1 [-> Relu, Clip] [-> Q, with a residual] on our own product
/// (byte_gemm.h). Rounds as kernel_int8.cc does, bit for bit. Matrix products stay with oneDNN
/// (docs/adr/0007-own-kernels-where-they-win.md).
#include <algorithm>
#include <mutex>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/int8/byte_gemm.h"
#include "runtime/cpu/kernels/int8/byte_group.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {
namespace {

/// Of a convolution. With fewer channels oneDNN's are faster: resnet50's by 1.1 with 64, 1.04 with
/// 128.
constexpr int64_t kLeastDepth = 192;

std::string RefuseBytes(const StepCall& call) {
  if (!simd::TheMultiplyBytes()) return "no kernel for this instruction set";
  if (std::string why = RefuseByteFinish(call); !why.empty()) return why;
  const Dims& w = DecodeQuantGroup(call)->inputs[1]->constant->dims();
  if (w[1] < kLeastDepth) return "few channels: what follows the sums would dominate";
  if (std::any_of(w.begin() + 2, w.end(), [](int64_t d) { return d != 1; }))
    return "the window is not 1x1";
  return call.main().Attr<int64_t>("group") == 1 ? "" : "more than one group";
}

class ByteKernel final : public Kernel {
 public:
  explicit ByteKernel(const StepCall& call)
      : node_(call.main()),
        group_(*DecodeQuantGroup(call)),
        source_(call.source(group_.inputs[1]->value)) {
    const QuantInput& w = *group_.inputs[1];
    const int64_t channels = w.constant->dim(0), depth = w.constant->dim(1);
    scales_ = ScalesOf(call, group_, channels);
    gemm_.multiply = simd::TheMultiplyBytes();
    gemm_.finish = ByteFinishOf(group_, scales_);
    gemm_.rows.is_signed = group_.inputs[0]->params.dtype == DType::kI8;
    gemm_.depth = depth;
    gemm_.columns = channels;
  }

  bool packs(int operand) const override { return operand == group_.inputs[1]->operand; }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const int x = group_.inputs[0]->operand;
    ByteGemm gemm = gemm_;
    Prepared p;
    p.in_layouts.resize(in.size());
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x)] = false;
    const Operand& rows = in[static_cast<size_t>(x)];
    INFER_TRY(SetImages(rows, out[0], gemm, p));
    p.name = "own:bytes:avx512_vnni";
    p.scratch_bytes = gemm.scratch_bytes();
    INFER_ASSIGN(const auto weights, Weights());
    p.weight_bytes = static_cast<int64_t>(weights->panels->size());
    const size_t y = in.size();
    p.launch = LaunchOf([=](std::byte* const* args) {
      gemm.Run(args[x], *weights, args[y], gemm.scratch_bytes() ? args[y + 1] : nullptr);
    });
    return p;
  }

 private:
  Status SetImages(const Operand& x, const Operand& out, ByteGemm& gemm, Prepared& p) const {
    const Dims& w = group_.inputs[1]->constant->dims();
    INFER_ASSIGN(const Spatial s,
                 SpatialOf(node_, Dims(w.begin() + 2, w.end()), x.dims, out.dims, false));
    const auto zero = [](int64_t pad) { return pad == 0; };
    if (!std::all_of(s.pads_begin.begin(), s.pads_begin.end(), zero) ||
        !std::all_of(s.pads_end.begin(), s.pads_end.end(), zero))
      return Unsupported("padding");
    ByteRows& r = gemm.rows;
    r.images = x.dims[0];
    const bool strided =
        std::any_of(s.strides.begin(), s.strides.end(), [](int64_t step) { return step != 1; });
    if (!strided) {
      r.width = NumElements(x.dims) / (x.dims[0] * x.dims[1]);
    } else if (x.dims.size() == 4) {
      r.height = x.dims[2];
      r.width = x.dims[3];
      r.step_y = s.strides[0];
      r.step_x = s.strides[1];
    } else {
      return Unsupported("strides of other than 2 dimensions");
    }
    if (r.count() * gemm.columns != NumElements(out.dims)) return Unsupported("extents do not fit");
    p.in_layouts[static_cast<size_t>(group_.inputs[0]->operand)] =
        onednn::ChannelsLast(x.dtype, x.dims);
    p.out_layouts = {onednn::ChannelsLast(out.dtype, out.dims)};
    if (group_.residual) {
      p.accumulate = group_.residual->other.operand;
      p.unused[static_cast<size_t>(p.accumulate)] = false;
      p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    }
    return {};
  }

  /// The same for all extents.
  Result<std::shared_ptr<const ByteWeights>> Weights() const {
    const std::lock_guard lock(mutex_);
    if (weights_) return weights_;
    const QuantInput& w = *group_.inputs[1];
    const int64_t columns = gemm_.columns, depth = gemm_.depth;
    auto made = std::make_shared<ByteWeights>();
    const auto pack = [&](const Tensor& elements) -> Result<WeightSource::Form> {
      std::span<const float> bias;
      if (scales_.bias.defined()) bias = scales_.bias.data<float>();
      const Tensor codes = SymmetricWeights(w, elements, columns, true);
      *made = ByteWeights::Pack(codes.data<int8_t>().data(), depth, 1, columns, depth,
                                UnsignedZero(group_.inputs[0]->params), bias, scales_.scales);
      return WeightSource::Form(made->panels);
    };
    WeightSource::UnpackFn unpack;
    if (AreSymmetric(w))
      unpack = [=, dims = source_->dims()](const Buffer& form) {
        Tensor elements(DType::kI8, dims);
        ByteWeights::Unpack(As<int8_t>(form.data()), depth, 1, columns, depth,
                            elements.mutable_data<int8_t>().data());
        return Result<Tensor>(std::move(elements));
      };
    INFER_TRY(
        source_->Get(Cat("bytes:", reinterpret_cast<uintptr_t>(this)), pack, std::move(unpack))
            .status());
    weights_ = std::move(made);
    return weights_;
  }

  const Node& node_;
  QuantGroup group_;
  std::shared_ptr<WeightSource> source_;
  ProductScales scales_;
  ByteGemm gemm_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const ByteWeights> weights_;
};

std::unique_ptr<Kernel> MakeBytes(const StepCall& call) {
  return std::make_unique<ByteKernel>(call);
}

}  // namespace

KernelList Int8ByteKernels() { return {{"Conv", "", "int8:bytes", RefuseBytes, MakeBytes}}; }

}  // namespace infer
