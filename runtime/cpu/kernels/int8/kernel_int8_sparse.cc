/// Integer kernels of DQ -> Conv | MatMul | Gemm [-> Relu, Clip] [-> Q, with a residual] by weights
/// most of which are zero (sparse_bytes.h). Chosen where counted work says that they gain over the
/// dense kernels. `infer-bench kernels M.onnx --alternatives --threads 1` shows the times of both;
/// figures: docs/pruning.md, docs/adr/0063-sparse-byte-products.md.
#include "lib/ir/roles.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/int8/byte_group.h"
#include "runtime/cpu/kernels/int8/sparse_bytes.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {
namespace {

std::string RefuseSparseBytes(const StepCall& call) {
  if (!simd::TheSparseBytes()) return "no kernel for this instruction set";
  // Asked here, too: a group that no dense kernel takes must not form around this one in vain.
  if (!HasManyZeros(call)) return "few of the weights are zero";
  if (std::string why = RefuseByteFinish(call); !why.empty()) return why;
  if (!IsConvolution(call.main())) return "";
  return call.main().Attr<int64_t>("group") == 1 ? "" : "more than one group";
}

class SparseByteKernel final : public Kernel {
 public:
  explicit SparseByteKernel(const StepCall& call)
      : node_(call.main()),
        group_(*DecodeQuantGroup(call)),
        lanes_(call.options.threads > 0 ? call.options.threads : LaneBudget()) {
    const QuantInput& w = *group_.inputs[1];
    const bool first = ChannelsFirst(node_);
    const int64_t columns = w.constant->dim(first ? 0 : -1);
    scales_ = ScalesOf(call, group_, columns);
    finish_ = ByteFinishOf(group_, scales_);
    codes_ = SymmetricWeights(w, columns, first);
    matrix_ = ByteMatrix::Of(codes_, first, IsConvolution(node_));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const int x = group_.inputs[0]->operand;
    const Operand& rows = in[static_cast<size_t>(x)];
    Prepared p;
    p.in_layouts.resize(in.size());
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x)] = false;
    SparseByteProduct product;
    if (IsConvolution(node_)) {
      INFER_ASSIGN(product.windows, WindowsOf(rows, out[0]));
      p.in_layouts[static_cast<size_t>(x)] = onednn::ChannelsLast(rows.dtype, rows.dims);
      p.out_layouts = {onednn::ChannelsLast(out[0].dtype, out[0].dims)};
    } else {
      if (rows.dims.size() < 2) return Unsupported("a vector operand");
      product.windows = ByteWindows::Rows(NumElements(rows.dims) / matrix_.channels);
    }
    if (product.windows.rows() * matrix_.columns != NumElements(out[0].dims))
      return Unsupported("extents do not fit");
    if (group_.residual) {
      p.accumulate = group_.residual->other.operand;
      p.unused[static_cast<size_t>(p.accumulate)] = false;
      p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    }
    INFER_ASSIGN(product.w, Weights(product.windows.rows()));
    product.loops = simd::TheSparseBytes();
    product.finish = finish_;
    product.channels = matrix_.channels;
    product.columns = matrix_.columns;
    product.lanes = lanes_;
    p.name = "own:sparse16x4:avx512_vnni";
    p.scratch_bytes = product.scratch_bytes();
    p.weight_bytes = product.w->bytes();
    const size_t y = in.size();
    p.launch =
        LaunchOf([=](std::byte* const* args) { product.Run(args[x], args[y], args[y + 1]); });
    return p;
  }

 private:
  Result<ByteWindows> WindowsOf(const Operand& x, const Operand& y) const {
    const Dims& w = codes_.dims();
    INFER_ASSIGN(const Spatial s,
                 SpatialOf(node_, Dims(w.begin() + 2, w.end()), x.dims, y.dims, false));
    return ByteWindows::Of(s, x.dims, y.dims);
  }

  Result<std::shared_ptr<const SparseByteWeights>> Weights(int64_t rows) const {
    return choice_.Make(matrix_, rows, [&] {
      std::span<const float> bias;
      if (scales_.bias.defined()) bias = scales_.bias.data<float>();
      const QuantParams8& x = group_.inputs[0]->params;
      return SparseByteWeights::Pack(matrix_, UnsignedZero(x), x.dtype == DType::kI8, bias,
                                     scales_.scales);
    });
  }

  const Node& node_;
  QuantGroup group_;
  int64_t lanes_;
  ProductScales scales_;
  simd::ByteFinish finish_;
  Tensor codes_;
  ByteMatrix matrix_;
  SparseByteChoice choice_;
};

std::unique_ptr<Kernel> MakeSparseBytes(const StepCall& call) {
  return std::make_unique<SparseByteKernel>(call);
}

}  // namespace

KernelList SparseByteKernels() {
  return {{"Conv", "", kInt8SparseKernel, RefuseSparseBytes, MakeSparseBytes},
          {"MatMul", "", kInt8SparseKernel, RefuseSparseBytes, MakeSparseBytes},
          {"Gemm", "", kInt8SparseKernel, RefuseSparseBytes, MakeSparseBytes}};
}

}  // namespace infer
